"""Users whom a proxy in front signed in, such as oauth2-proxy by OpenID Connect: who they are, and what they may do.

And the tenant whose data alone the proxy lets a request see, whoever makes it.
"""

from dataclasses import replace
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
    """Knows users, and tenants, by the headers that trusted proxies set."""

    def __init__(self, settings: AccessSettings) -> None:
        self._settings = settings
        self._proxies = TrustedProxies(settings.trusted_proxies)

    def caller(self, connection: HTTPConnection) -> Caller | None:
        """The user of a request; None for one that names none.

        Raises:
            NotBelieved: it does not come from a trusted proxy, or the names in it cannot be.
        """
        settings, headers = self._settings, connection.headers
        tenant = self.tenant(connection)
        user = headers.get(settings.user_header or "", "")
        if not user:  # a proxy that lets through whom it did not sign in
            return None
        try:
            checked_name(user)
        except ValueError as error:
            raise _unusable(error) from None
        groups = [group.strip() for group in headers.get(settings.groups_header or "", "").split(",")]
        roles = [*settings.user_roles, *(role for group in groups for role in settings.roles_by_group.get(group, ()))]
        owner = sha256(f"user {user}".encode()).hexdigest()[:16]
        return Caller(rights_of(roles), tenant, f"user: {user}", owner)

    def tenant(self, connection: HTTPConnection) -> str | None:
        """The tenant of a request, whoever makes it; None for one that names none.

        Raises:
            NotBelieved: as `caller`. An empty name is none that can be: it must not stand for all tenants.
        """
        self._check(connection)
        named = connection.headers.get(self._settings.tenant_header or "")
        try:
            return None if named is None else checked_tenant(named)
        except ValueError as error:
            raise _unusable(error) from None

    def of_tenant(self, caller: Caller, connection: HTTPConnection) -> Caller:
        """The caller of a request as of the tenant that the request names, if it names one.

        Raises:
            NotBelieved: as `tenant`; or the caller is of another one.
        """
        tenant = self.tenant(connection)
        if tenant is None or tenant == caller.tenant:
            return caller
        if caller.tenant is not None:
            raise NotBelieved(
                f"the header {self._settings.tenant_header!r} names another tenant than the caller's token or "
                "certificate; ask without it, or with a token of that tenant"
            )
        return replace(caller, tenant=tenant)

    def _check(self, connection: HTTPConnection) -> None:
        """Refuse headers about the caller that are not a trusted proxy's.

        Raises:
            NotBelieved: there are some.
        """
        settings, headers = self._settings, connection.headers
        ours = (settings.user_header, settings.groups_header, settings.tenant_header)
        said = [name for name in ours if name and name in headers]
        if not said:
            return
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


def _unusable(error: ValueError) -> NotBelieved:
    return NotBelieved(f"of the proxy's headers one cannot be used: {error}")
