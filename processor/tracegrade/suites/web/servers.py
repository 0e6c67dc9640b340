"""MCP servers that a caller of the page or the API names: asked for their tools, one at a time.

Whoever calls is not the one who runs this process. So programs (``stdio:``) are never started, no variables of the
environment are put into headers, and which private addresses may be asked is a matter of the settings alone.
"""

import threading
from typing import Any

from tracegrade.suites.headers import HEADER_NAME, OWN_HEADERS, is_sendable
from tracegrade.suites.imported import SuiteError, text_at
from tracegrade.suites.mcp.address import Allowed, checked_address
from tracegrade.suites.mcp.client import list_tools_at
from tracegrade.suites.mcp.tools import ToolSuite, suite_of
from tracegrade.suites.settings import suites_settings
from tracegrade.web.own_process import Busy
from tracegrade.web.sources import Sources

_MOST_HEADERS = 20
_ONE = threading.Lock()


class NotListed(SuiteError):
    """A server that may not be asked, does not answer, or has no tools; says why."""


def listed_suite(sources: Sources, url: Any, name: Any = None, headers: Any = None) -> ToolSuite:
    """A suite of the tools of the server at `url`.

    Args:
        sources: the settings say which addresses may be asked.
        url: its http(s) address.
        name: the suite's; None or "" for the server's own.
        headers: an object of texts, sent with each request; None for none.

    Raises:
        SuiteError: an argument of a wrong type, or a header that cannot be sent.
        NotListed: the server may not be asked, or gives no tools.
        Busy: another one is being asked.
    """
    address, wanted = text_at(url, "url").strip(), text_at(name, "name").strip()
    if not address.startswith(("http://", "https://")):
        raise SuiteError("url: expected the address of an MCP server, http://... or https://...")
    sent = _checked_headers(headers)
    if not _ONE.acquire(blocking=False):
        raise Busy("another server is being asked for its tools, which takes at most a minute")
    try:
        allowed = Allowed(suites_settings(sources.config).mcp_hosts, sources.config.listeners, has_option=False)
        return suite_of(list_tools_at(checked_address(address, allowed), sent), address, wanted)
    except SuiteError as error:
        raise NotListed(str(error)) from None
    finally:
        _ONE.release()


def _checked_headers(headers: Any) -> dict[str, str]:
    if headers is None:
        return {}
    if not isinstance(headers, dict) or len(headers) > _MOST_HEADERS:
        raise SuiteError(f"headers: expected an object of at most {_MOST_HEADERS} names and values")
    for header, value in headers.items():
        if not HEADER_NAME.fullmatch(header):
            raise SuiteError("headers: expected names of letters, digits, '_', '.' and '-'")
        if header.lower() in OWN_HEADERS:
            raise SuiteError(f"headers: {header} is set by TraceGrade itself; leave it out")
        if not isinstance(value, str) or not is_sendable(value):
            raise SuiteError(f"headers: {header}: expected printable ASCII, which is not shown: it may be a key")
    return headers
