"""The tools that traces call which were judged live."""

from sqlalchemy import Connection, text

NEWEST = 2000  # traces to look at: names repeat, and reading ten million traces would take minutes

_NAMES = text(
    "SELECT DISTINCT name FROM tool_calls WHERE trace IN "
    "(SELECT number FROM traces WHERE run = 'live' ORDER BY number DESC LIMIT :newest)"
)


def called_tools(connection: Connection, newest: int = NEWEST) -> frozenset[str]:
    """The names of the tools that the newest traces call, as rules see them."""
    return frozenset(connection.execute(_NAMES, {"newest": newest}).scalars())
