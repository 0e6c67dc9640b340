"""Proxies in front of us, whose headers about callers are believed."""

from collections.abc import Iterable
from ipaddress import ip_address

from tracegrade.access.settings import network_of


class TrustedProxies:
    """The addresses of proxies; from any other address, headers about callers are refused."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [network_of(text) for text in networks]

    def hold(self, address: str) -> bool:
        """Whether `address`, a peer's, is that of a proxy; "" is not."""
        try:
            peer = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        peer = getattr(peer, "ipv4_mapped", None) or peer
        return any(peer in network for network in self._networks)
