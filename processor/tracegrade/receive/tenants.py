"""Whose spans a request holds: by the sender's token, its certificate, or a header that a trusted proxy sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from tracegrade.access.caller import Caller
from tracegrade.access.proxies import TrustedProxies
from tracegrade.access.settings import AccessSettings
from tracegrade.model.tenant import DEFAULT_TENANT, checked_tenant
from tracegrade.receive.ingest import Refused


@dataclass(frozen=True, slots=True)
class Sender:
    """What is known of who sends a request.

    ``claimed`` is what the tenant header says, each time that it is there; ``address`` the peer's, "" when it is not
    known; ``subjects`` names its certificate: the common name and the whole subject.
    """

    caller: Caller | None
    claimed: Sequence[str] = ()
    address: str = ""
    subjects: Sequence[str] = ()


class SenderTenants:
    """Finds the tenant of each request."""

    def __init__(self, settings: AccessSettings | None = None) -> None:
        settings = settings or AccessSettings()
        self.header = settings.tenant_header
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._by_subject = settings.tenants_by_subject

    @property
    def by_subject(self) -> bool:
        """Whether certificates matter."""
        return bool(self._by_subject)

    def tenant_of(self, sender: Sender) -> str | Refused:
        """The tenant; or why the request is not taken."""
        own = sender.caller.tenant if sender.caller is not None else None
        if own is None and self._by_subject:
            own = next((self._by_subject[name] for name in sender.subjects if name in self._by_subject), None)
        if not sender.claimed:
            return own or DEFAULT_TENANT
        if not self._proxies.hold(sender.address):
            return _refused(
                f"the header {self.header!r} is taken from access.trusted_proxies alone, and "
                f"{sender.address or 'this address'} is none of them; send without it, or through the proxy"
            )
        if len(sender.claimed) > 1:
            return _refused(
                f"the header {self.header!r} came {len(sender.claimed)} times, so that it cannot be told which is the "
                "proxy's; have the proxy set it in place of what its clients send"
            )
        try:
            claimed = checked_tenant(sender.claimed[0])
        except ValueError as error:
            return _refused(f"the header {self.header!r}: {error}")
        if own is not None and own != claimed:
            return _refused(
                f"the header {self.header!r} names another tenant than the sender's token or certificate; send without "
                "it, or with a token of that tenant"
            )
        return claimed


def grpc_address(peer: str) -> str:
    """The address in gRPC's name of a peer, as ``ipv4:10.0.0.7:5000`` or ``ipv6:%5B::1%5D:5000``; "" for others."""
    kind, _, place = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return ""
    return unquote(place).rpartition(":")[0].removeprefix("[").removesuffix("]")


def subjects_of(certificate: object) -> tuple[str, ...]:
    """The names by which a client's certificate is known, as `ssl.SSLSocket.getpeercert` gives it; () without one.

    The whole subject is written as gRPC and ``openssl x509 -nameopt RFC2253`` write it.
    """
    if not isinstance(certificate, dict) or not certificate:
        return ()
    parts = [tuple(part) for part in certificate.get("subject", ())]
    common = tuple(value for part in parts for name, value in part if name == "commonName")
    whole = ",".join("+".join(map(_written, part[::-1])) for part in parts[::-1])
    return (*common, whole)


def _written(attribute: tuple[str, str]) -> str:
    name, value = attribute
    return f"{_SHORT.get(name, name)}={_escaped(value)}"


def _escaped(value: str) -> str:
    text = "".join(_escaped_character(character) for character in value)
    if value.startswith(("#", " ")):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if value.endswith(" ") and len(value) > 1 else text


def _escaped_character(character: str) -> str:
    if character in ',+"\\<>;':
        return f"\\{character}"
    if character.isascii() and character.isprintable():
        return character
    return "".join(f"\\{byte:02X}" for byte in character.encode())


_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "street",
    "surname": "SN",
    "givenName": "GN",
    "userId": "UID",
}


def _refused(why: str) -> Refused:
    return Refused("tenant_refused", f"the request is not taken: {why}")
