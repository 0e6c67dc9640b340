"""The tools that traces call which were judged live."""

from sqlalchemy import Connection, text

NEWEST = 2000  # traces to look at: names repeat, and reading ten million traces would take minutes

_NAMES = text(
    "SELECT DISTINCT newest.service, tool_calls.name FROM tool_calls JOIN "
    "(SELECT number, service FROM traces WHERE run = 'live' ORDER BY number DESC LIMIT :newest) AS newest "
    "ON tool_calls.trace = newest.number"
)


def called_tools(connection: Connection, newest: int = NEWEST) -> dict[str, frozenset[str]]:
    """The names of the tools that the newest traces call, as rules see them, by the service of the trace."""
    found: dict[str, set[str]] = {}
    for service, name in connection.execute(_NAMES, {"newest": newest}):
        found.setdefault(service, set()).add(name)
    return {service: frozenset(names) for service, names in found.items()}
