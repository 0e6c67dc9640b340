"""Closed traces that are held as bytes come back as they were."""

from collections.abc import Iterable

from build import span
from tracegrade.assemble.closed_traces import ClosedTrace, ClosedTraces
from tracegrade.model.trace import TraceKey


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


class Store:
    """Notes which traces were looked up together."""

    def __init__(self, *known: int) -> None:
        self.known = {key(number): closed(number) for number in known}
        self.asked: list[list[TraceKey]] = []

    def __call__(self, keys: Iterable[TraceKey]) -> dict[TraceKey, ClosedTrace]:
        """As of `ClosedTraces`."""
        self.asked.append(list(keys))
        return {each: self.known[each] for each in self.asked[-1] if each in self.known}


def test_what_was_asked_for_together_is_found_once_each_without_another_question() -> None:
    store = Store(1, 2)
    traces = ClosedTraces(store)
    traces.ask(map(key, (1, 2, 3)))
    assert traces.find([key(1)]) == {key(1): closed(1)}
    assert traces.find([key(3)]) == {}
    assert store.asked == [[key(1), key(2), key(3)]]
    assert traces.find([key(1)]) == {key(1): closed(1)}
    assert len(store.asked) == 2, "what was said once may have changed"


def test_a_trace_that_closes_after_it_was_asked_for_is_found_as_it_closed() -> None:
    store = Store()
    traces = ClosedTraces(store)
    traces.ask([key(1), key(2)])
    traces.add(key(1), closed(1), token=1)
    assert traces.find([key(1)]) == {key(1): closed(1)}
    store.known[key(1)] = closed(1)
    traces.release(1)  # it is stored now, and no longer held
    assert traces.find([key(1)]) == {key(1): closed(1)}
    assert store.asked[-1] == [key(1)]


def test_the_next_question_forgets_the_last_one_and_leaves_out_what_is_held() -> None:
    store = Store()
    traces = ClosedTraces(store)
    traces.add(key(1), closed(1))
    traces.ask([key(2)])
    store.known[key(2)] = closed(2)
    traces.ask([key(1)])
    assert traces.find([key(1), key(2)]) == {key(1): closed(1), key(2): closed(2)}
    assert store.asked == [[key(2)], [key(2)]]
