"""Kept-alive HTTP connections to one server, by the proxy that the environment names."""

from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3


def http_pool(url: str, **options: Any) -> urllib3.PoolManager:
    """Connections to the server at `url`, none made yet. Nothing is tried again, and no redirect is followed.

    Args:
        url: only its scheme, host and port count.
        options: as `urllib3.PoolManager` takes them.
    """
    parts = urlsplit(url)
    options = {"num_pools": 1, "retries": False, **options}
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return urllib3.PoolManager(**options)
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    return urllib3.ProxyManager(proxy, proxy_headers=basic_auth("proxy-authorization", proxy), **options)


def basic_auth(header: str, url: str) -> dict[str, str]:
    """The `header` with the user and password in `url`; nothing where it has none."""
    given = urlsplit(url).netloc.rpartition("@")[0]
    return {header: urllib3.make_headers(basic_auth=unquote(given))["authorization"]} if given else {}
