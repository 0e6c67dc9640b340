"""Users whom a proxy in front signed in, such as oauth2-proxy by OpenID Connect: who they are, and what they may do."""

from hashlib import sha256

from starlette.requests import HTTPConnection

from tracegrade.access.caller import Caller
from tracegrade.access.proxies import TrustedProxies
from tracegrade.access.rights import rights_of
from tracegrade.access.settings import AccessSettings
from tracegrade.access.tokens import checked_name
from tracegrade.model.tenant import checked_tenant


class NotBelieved(Exception):
    """A header about the caller cannot be believed; the message says why."""


class ProxiedUsers:
    """Knows users by the headers that trusted proxies set."""

    def __init__(self, settings: AccessSettings) -> None:
        self._settings = settings
        self._proxies = TrustedProxies(settings.trusted_proxies)

    def caller(self, connection: HTTPConnection) -> Caller | None:
        """The user of a request; None for one that names none.

        Raises:
            NotBelieved: it does not come from a trusted proxy, or the names in it cannot be.
        """
        settings, headers = self._settings, connection.headers
        ours = (settings.user_header, settings.groups_header, settings.tenant_header)
        said = [name for name in ours if name and name in headers]
        if not said:
            return None
        address = connection.client.host if connection.client is not None else ""
        if not self._proxies.hold(address):
            raise NotBelieved(
                f"the header {said[0]!r} is believed from access.trusted_proxies alone, and "
                f"{address or 'this address'} is none of them; send without it, or through the proxy"
            )
        if twice := next((name for name in said if len(headers.getlist(name)) > 1), None):
            raise NotBelieved(
                f"the header {twice!r} came more than once, so that it cannot be told which is the proxy's; have the "
                "proxy set it in place of what browsers send"
            )
        user = headers.get(settings.user_header or "", "")
        if not user:  # a proxy that lets through whom it did not sign in
            return None
        try:
            checked_name(user)
            tenant = self._tenant(connection)
        except ValueError as error:
            raise NotBelieved(f"of the proxy's headers one cannot be used: {error}") from None
        groups = [group.strip() for group in headers.get(settings.groups_header or "", "").split(",")]
        roles = [*settings.user_roles, *(role for group in groups for role in settings.roles_by_group.get(group, ()))]
        owner = sha256(f"user {user}".encode()).hexdigest()[:16]
        return Caller(rights_of(roles), tenant, f"user: {user}", owner)

    def _tenant(self, connection: HTTPConnection) -> str | None:
        named = connection.headers.get(self._settings.tenant_header or "")
        return checked_tenant(named) if named else None
