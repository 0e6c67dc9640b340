"""Closed traces that are held as bytes come back as they were."""

from assemble.spans import span
from tracegrade.assemble.closed_traces import ClosedTrace, ClosedTraces


def closed(number: int, spans: int = 3, closed_ns: int = 0) -> ClosedTrace:
    made = [span(place, trace=key(number)[1]) for place in range(1, spans + 1)]
    return ClosedTrace(closed_ns, spans + 1, made, [b"d" * 16], None, "rules", number, 7, filter_hash="attributes")


def key(number: int) -> tuple[str, bytes]:
    return "default", number.to_bytes(16, "big")


def test_beyond_the_bound_those_that_closed_first_are_bytes_and_are_found_all_the_same() -> None:
    traces = ClosedTraces(max_unpacked_spans=7)
    for number in range(1, 5):
        traces.add(key(number), closed(number))
    assert traces.unpacked_spans == 6
    assert traces.find(map(key, range(1, 5))) == {key(number): closed(number) for number in range(1, 5)}


def test_what_is_let_go_counts_no_more() -> None:
    traces = ClosedTraces(max_unpacked_spans=7)
    for number in range(1, 7):
        traces.add(key(number), closed(number), token=number)
        traces.release(number - 1)
        traces.add(key(number), closed(number), token=number)  # opened again meanwhile
    assert traces.unpacked_spans == 3
    traces.release(6)
    assert traces.unpacked_spans == 0
