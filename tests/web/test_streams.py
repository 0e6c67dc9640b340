"""How many streams callers may have open."""

from contextlib import ExitStack

from starlette.requests import HTTPConnection

from tracegrade.access.caller import KNOWN, Caller
from tracegrade.web.problem import Refusal
from tracegrade.web.rights import note_token
from tracegrade.web.streams import MOST_OF_CALLER, MOST_STREAMS, Streams

READ = frozenset({"read"})


def connection_of(caller: Caller, address: str = "127.0.0.1") -> HTTPConnection:
    scope = {"type": "http", "client": (address, 1)}
    note_token(scope, caller)
    return HTTPConnection(scope)


def open_all(streams: Streams, stack: ExitStack, connection: HTTPConnection) -> tuple[int, int]:
    """Open as many as may be; how many those were, and the status of the refusal."""
    for count in range(MOST_STREAMS + 1):
        try:
            stack.enter_context(streams.one_more(connection))
        except Refusal as refusal:
            return count, refusal.status
    raise AssertionError("not bounded")


def test_one_caller_leaves_streams_for_others_and_all_are_bounded() -> None:
    callers = [
        connection_of(Caller(READ, "shop", owner="token-1")),
        connection_of(Caller(READ, "shop", "ann@shop.example", owner="token-1")),
        connection_of(KNOWN, "127.0.0.1"),
        connection_of(KNOWN, "10.0.0.1"),
    ]
    streams = Streams()
    with ExitStack() as stack:
        found = [open_all(streams, stack, each) for each in callers]
    assert found == [(MOST_OF_CALLER, 429)] * 3 + [(0, 503)]
    assert MOST_STREAMS == 3 * MOST_OF_CALLER
    with ExitStack() as stack:
        assert open_all(streams, stack, callers[3]) == (MOST_OF_CALLER, 429), "the others were closed"
