"""Headers that people send to an MCP server beside our own."""

import re

HEADER_NAME = re.compile("[0-9A-Za-z_.-]+")
OWN_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "mcp-method",
        "mcp-protocol-version",
        "mcp-session-id",
        "transfer-encoding",
        "user-agent",
    }
)


def is_sendable(value: str) -> bool:
    """Whether `value` can be that of a header."""
    return bool(value) and value.isascii() and value.isprintable()
