import gc
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import TRACE_ID, log_record, span
from tracegrade.assemble.closed_traces import ClosedTrace, ClosedTraces
from tracegrade.assemble.completion import Overrides
from tracegrade.assemble.content import digest
from tracegrade.assemble.live_trace import LiveTrace
from tracegrade.assemble.live_traces import LiveTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Span, SpanEvent
from tracegrade.model.trace import Trace

S = 1_000_000_000


class Assembler(LiveTraces):
    """Live traces, and the closed ones among which they look for those that late spans belong to."""

    def __init__(self, settings: TracesSettings) -> None:
        self.closed = ClosedTraces()
        super().__init__(settings, self.closed, "rules", "attributes")


def assembler(**changes: object) -> Assembler:
    return Assembler(TracesSettings(**changes))


def add(live: Assembler, *spans: Span, at: float = 0, position: int = 0) -> list[Trace]:
    """Add spans as one record received at `at` seconds; closed traces are remembered as the judge does it."""
    closed = close(live, at)
    live.add(list(spans), "default", round(at * S), position, position + 1, 100 * len(spans))
    return closed


def add_logs(live: Assembler, *log_records: LogRecord, at: float = 0, position: int = 0) -> list[Trace]:
    """The same of log records."""
    closed = close(live, at)
    live.add_log_records(list(log_records), "default", round(at * S), position, position + 1, 100 * len(log_records))
    return closed


def close(live: Assembler, at: float) -> list[Trace]:
    return remembered(live, live.close_due(round(at * S)))


def remembered(live: Assembler, traces: Iterable[Trace]) -> list[Trace]:
    closed = list(traces)
    for trace in closed:
        live.closed.add((trace.tenant, trace.trace_id), ClosedTrace.of(trace))
    return closed


def test_a_whole_trace_closes_when_it_was_quiet_for_settle() -> None:
    live = assembler(settle="2s")
    add(live, span(2, 1), span(1), at=0)
    assert close(live, 1.9) == []
    (trace,) = close(live, 2.0)
    assert (trace.close_reason, trace.complete, trace.revision) == ("settled", True, 2)
    assert [s.span_id[-1] for s in trace.spans] == [1, 2]
    assert len(live) == 0


def test_a_trace_without_root_waits_for_idle_timeout_and_says_what_is_missing() -> None:
    live = assembler()
    add(live, span(3, 2))
    assert close(live, 59.9) == []
    (trace,) = close(live, 60)
    assert trace.close_reason == "idle"
    assert trace.missing == ["root", "parent:0000000000000002"]


def test_a_root_whose_childs_parent_is_missing_is_not_settled() -> None:
    live = assembler()
    add(live, span(1), span(3, 2))
    assert close(live, 10) == []
    add(live, span(2, 1), at=11)
    (trace,) = close(live, 13)
    assert trace.complete


def test_a_parent_known_to_be_remote_makes_a_local_root() -> None:
    live = assembler()
    add(live, span(2, 1, flags=0x301))
    (trace,) = close(live, 2)
    assert trace.complete
    assert trace.root is trace.spans[0]


def test_max_age_closes_a_trace_that_never_goes_quiet() -> None:
    live = assembler(idle_timeout="10s", max_age="30s")
    closed = []
    for second in range(0, 40, 5):
        closed += add(live, span(100 + second, 1), at=second)
    assert [(trace.close_reason, len(trace.spans)) for trace in closed] == [("max_age", 6)]


def test_the_end_attribute_closes_at_once() -> None:
    live = assembler(end_attribute="conversation.over")
    add(live, span(1, attributes={"conversation.over": True}), span(2, 9), at=5)
    (trace,) = close(live, 5)
    assert trace.close_reason == "end_attribute"
    assert trace.missing == ["parent:0000000000000009"]


def test_a_late_span_makes_a_higher_revision_of_the_whole_trace() -> None:
    live = assembler()
    add(live, span(1), at=0)
    (first,) = close(live, 2)
    add(live, span(2, 1), at=100)
    (second,) = close(live, 102)
    assert (first.revision, first.supersedes) == (1, None)
    assert (second.revision, second.supersedes) == (2, 1)
    assert len(second.spans) == 2


def test_a_span_later_than_reopen_for_is_too_late_and_named() -> None:
    live = assembler(reopen_for="60s")
    add(live, span(1), at=0)
    close(live, 2)
    add(live, span(2, 1), at=62.1)
    assert len(live) == 0
    assert live.span_dispositions["too_late", ""] == 1


def test_a_span_too_late_is_so_also_for_who_only_remembers_when_its_trace_closed() -> None:
    live = assembler(reopen_for="60s")
    add(live, span(1), at=0)
    close(live, 2)
    live.closed.expire(before_ns=62 * S)
    add(live, span(2, 1), span(1), at=62.1)
    assert (len(live), live.span_dispositions["too_late", ""]) == (0, 2)


def test_known_spans_of_a_closed_trace_do_not_open_it() -> None:
    live = assembler()
    add(live, span(1), span(2, 1), at=0)
    close(live, 2)
    add(live, span(2, 1), span(1), at=3)
    assert len(live) == 0
    assert live.span_dispositions["duplicate", ""] == 2


def test_rules_that_read_other_attributes_make_no_new_contents_of_known_spans() -> None:
    live = assembler()
    add(live, span(1, attributes={"a": 1}), span(2, 1, attributes={"a": 2}), at=0)
    close(live, 2)
    # The judge starts again with other rules: "a" is not read any more, "b" is; then another span comes late.
    live.filter_hash = "other attributes"
    add(live, span(1, attributes={}), span(2, 1, attributes={"a": 2, "b": [3]}), at=3)
    assert len(live) == 0
    add(live, span(3, 1, attributes={"b": 4}), span(1, attributes={}), at=4)
    (trace,) = close(live, 6)
    assert (trace.revision, trace.replaced) == (3, [])
    assert live.span_dispositions["duplicate", ""] == 3


def test_attributes_and_events_that_another_version_reads_make_no_new_contents_either() -> None:
    live = assembler()
    one, other = SpanEvent("gen_ai.choice", 5, {"a": 1}), SpanEvent("exception", 6, {})
    add(live, span(1, attributes={"a": 1, "b": 2}, events=[one, other]), at=0)
    close(live, 2)
    live.filter_hash = "other attributes"
    add(live, span(1, attributes={"b": 2, "c": 3}, events=[one]), at=3)
    assert (len(live), live.span_dispositions["duplicate", ""]) == (0, 1)
    add(live, span(1, attributes={"b": 2, "c": 3}, events=[replace(one, time_ns=7)]), at=4)
    assert (len(live), live.span_dispositions["duplicate", ""]) == (1, 1)


def test_the_same_rules_see_one_attribute_more_as_another_content() -> None:
    live = assembler()
    add(live, span(1, attributes={"a": 1}), at=0)
    close(live, 2)
    live.rule_set = "other rules"
    add(live, span(1, attributes={"a": 1, "b": 2}), at=3)
    (trace,) = close(live, 5)
    assert trace.revision == 2


def test_a_really_different_content_is_one_under_other_rules_too() -> None:
    live = assembler()
    add(live, span(1, attributes={"a": 1}), at=0)
    close(live, 2)
    live.filter_hash = "other attributes"
    add(live, span(1, attributes={"a": 2}), at=3)
    (trace,) = close(live, 5)
    assert (trace.revision, trace.spans[0].attributes) == (2, {"a": 2})


def test_the_content_that_ends_later_wins_and_both_count_as_contents_seen() -> None:
    live = assembler()
    early, late = span(1, end=10, name="early"), span(1, end=20, name="late")
    add(live, late, early, early, late)
    (trace,) = close(live, 2)
    assert [s.name for s in trace.spans] == ["late"]
    assert trace.revision == 2
    assert trace.replaced == [digest(early)]
    assert live.span_dispositions == {("duplicate", ""): 2, ("judged", ""): 2}


def test_spans_beyond_the_cap_are_dropped_and_the_trace_says_so() -> None:
    live = assembler(max_spans_per_trace=3)
    add(live, *(span(n, 1) for n in range(2, 6)), at=0)
    (trace,) = close(live, 0)
    assert (trace.close_reason, trace.cut_by) == ("span_cap", "span_cap")
    add(live, span(9, 1), at=1)
    assert live.span_dispositions["dropped", "span_cap"] == 1
    assert len(live) == 0


def test_a_trace_that_was_cut_needs_its_position_until_it_is_given() -> None:
    """A position after it would lose it, were the process killed before the next records are read."""
    live = LiveTraces(TracesSettings(max_spans_per_trace=2), ClosedTraces(), "rules")
    live.add([span(n, 1) for n in (2, 3, 4)], "default", 0, 40, 90)
    assert len(live) == 0
    assert live.oldest_position == 40
    live.add([span(1, trace=bytes([2]) * 16)], "default", 0, 90, 100)
    assert live.oldest_position == 40
    assert [trace.cut_by for trace in live.close_due(0)] == ["span_cap"]
    assert live.oldest_position == 90


def test_bytes_beyond_the_cap_close_the_trace() -> None:
    """A record's bytes are divided evenly among its spans, of however many traces they are."""
    live = LiveTraces(TracesSettings(max_mib_per_trace=1), ClosedTraces(), "rules")
    others = [span(1, trace=bytes([number]) * 16) for number in (7, 8)]
    live.add([span(1), span(2, 1), *others], "default", 0, 0, 1, 3 * 1024 * 1024)
    assert [(len(trace.spans), trace.cut_by) for trace in live.close_due(0)] == [(2, "byte_cap")]


def test_too_many_live_traces_close_the_longest_quiet_one() -> None:
    live = assembler(max_live_traces=2)
    for number in (1, 2, 3):
        add(live, span(5, 4, trace=bytes([number]) * 16), at=number / 10)
    (trace,) = close(live, 0.3)
    assert (trace.trace_id[0], trace.close_reason, trace.cut_by) == (1, "memory", "memory")


def test_a_trace_cut_for_memory_is_whole_again_when_more_comes() -> None:
    live = assembler(max_live_traces=1)
    other = bytes([7]) * 16
    add(live, span(1), at=0)
    add(live, span(1, trace=other), at=0.1)
    close(live, 0.1)
    add(live, span(2, 1), at=0.2)
    traces = {trace.trace_id: trace for trace in close(live, 10)}
    assert traces[TRACE_ID].cut_by is None
    assert len(traces[TRACE_ID].spans) == 2


def test_the_first_record_needed_is_the_oldest_live_traces() -> None:
    live = assembler()
    add(live, span(1, trace=bytes([1]) * 16), at=0, position=100)
    add(live, span(2, 9, trace=bytes([2]) * 16), at=1, position=200)
    assert live.oldest_position == 100
    close(live, 2)
    assert live.oldest_position == 200
    close(live, 62)
    assert live.oldest_position is None


def test_log_records_count_as_contents_and_keep_the_order_in_which_they_were_written() -> None:
    live = assembler()
    add_logs(live, log_record(1, "second", time=2), log_record(1, "first", time=1), log_record(1, "first", time=1))
    add(live, span(1), at=1)
    (trace,) = close(live, 3)
    assert [record.event.attributes["content"] for record in trace.log_records] == ["first", "second"]
    assert trace.revision == 3
    assert live.log_record_dispositions == {("duplicate", ""): 1, ("joined", ""): 2}
    assert live.span_dispositions == {("judged", ""): 1}


def test_events_of_one_time_are_in_the_order_that_their_sender_numbered() -> None:
    live = assembler()
    records = [log_record(1, text) for text in ("a", "b", "c", "d")]
    for number, record in enumerate(records):
        record.event.attributes["event.sequence"] = number
    add(live, span(1))
    add_logs(live, *reversed(records))
    (trace,) = close(live, 2)
    assert trace.log_records == records


def test_log_records_wait_for_the_first_span_as_long_as_a_late_span_would_be_waited_for() -> None:
    live = assembler(idle_timeout="60s", reopen_for="600s", max_age="700s")
    add_logs(live, log_record(1, "early"), at=0, position=7)
    assert close(live, 659) == []
    assert live.oldest_position == 7
    add(live, span(1), at=659)
    (trace,) = close(live, 661)
    assert (trace.close_reason, len(trace.log_records)) == ("settled", 1)


def test_a_trace_begins_with_its_first_span_not_with_a_log_record_before_it() -> None:
    live = assembler(idle_timeout="10s", max_age="30s", reopen_for="600s")
    add_logs(live, log_record(1, "early"), at=0)
    live.rule_set = "rules since then"
    add(live, span(2, 1), at=25)
    assert close(live, 34) == []
    (trace,) = close(live, 35)
    assert (trace.close_reason, trace.rule_set) == ("idle", "rules since then")


def test_log_records_whose_trace_never_comes_are_let_go_and_counted() -> None:
    live = assembler(idle_timeout="60s", reopen_for="600s")
    add_logs(live, log_record(1, "a"), log_record(2, "b"), at=0)
    assert live.open_log_records == 2
    assert close(live, 660) == []
    assert (len(live), live.open_log_records) == (0, 0)
    assert live.log_record_dispositions == {("unjoined", ""): 2}


def test_a_log_record_of_a_span_that_never_came_is_kept_and_counted() -> None:
    live = assembler()
    add(live, span(1))
    add_logs(live, log_record(9, "stray"), log_record(1, "here"))
    (trace,) = close(live, 2)
    assert len(trace.log_records) == 2
    assert live.log_record_dispositions == {("joined", ""): 1, ("unjoined", ""): 1}


def test_a_late_log_record_makes_a_higher_revision_of_the_whole_trace() -> None:
    live = assembler()
    add(live, span(1), at=0)
    add_logs(live, log_record(1, "in time"), at=0)
    close(live, 2)
    add_logs(live, log_record(1, "late", time=1), log_record(1, "in time"), at=100)
    (second,) = close(live, 102)
    assert (second.revision, second.supersedes, len(second.spans), len(second.log_records)) == (3, 2, 1, 2)
    assert live.log_record_dispositions == {("joined", ""): 2, ("duplicate", ""): 1}


def test_a_log_record_later_than_reopen_for_is_too_late_and_named() -> None:
    live = assembler(reopen_for="60s")
    add(live, span(1), at=0)
    close(live, 2)
    add_logs(live, log_record(1, "late"), at=62.1)
    assert len(live) == 0
    assert live.log_record_dispositions == {("too_late", ""): 1}


def test_known_log_records_of_a_closed_trace_do_not_open_it() -> None:
    live = assembler()
    add(live, span(1), at=0)
    add_logs(live, log_record(1, "said"), at=0)
    close(live, 2)
    add_logs(live, log_record(1, "said"), at=3)
    assert len(live) == 0
    assert live.log_record_dispositions["duplicate", ""] == 1


def test_log_records_count_to_the_caps() -> None:
    live = assembler(max_spans_per_trace=3)
    add(live, span(1), at=0)
    add_logs(live, *(log_record(1, text) for text in "abc"), at=0)
    (trace,) = close(live, 0)
    assert trace.cut_by == "span_cap"
    add_logs(live, log_record(1, "d"), at=1)
    assert live.log_record_dispositions["dropped", "span_cap"] == 1


def test_log_records_without_spans_are_dropped_for_memory_and_counted() -> None:
    live = assembler(max_live_traces=1)
    add_logs(live, log_record(1, "a", trace=bytes([1]) * 16), at=0)
    add(live, span(1, trace=bytes([2]) * 16), at=1)
    (trace,) = close(live, 3)
    assert trace.trace_id == bytes([2]) * 16
    assert live.log_record_dispositions == {("dropped", "memory"): 1}
    assert live.open_log_records == 0


def test_the_example_of_the_module_holds() -> None:
    live = assembler(settle="2s", idle_timeout="60s", reopen_for="600s")
    add(live, span(2, 1), at=0.0)
    add(live, span(1), at=1.0)
    add(live, span(2, 1), at=2.5)
    assert close(live, 4.4) == []
    (first,) = close(live, 4.5)
    assert (first.close_reason, first.revision, first.closed_ns) == ("settled", 2, round(4.5 * S))
    add(live, span(3, 1), at=9.0)
    (second,) = close(live, 11.0)
    assert (len(second.spans), second.revision, second.supersedes) == (3, 3, 2)
    add(live, span(4, 1), at=700.0)
    assert (len(live), live.span_dispositions) == (0, {("judged", ""): 3, ("duplicate", ""): 1, ("too_late", ""): 1})


def test_time_that_goes_backwards_is_refused() -> None:
    live = assembler()
    live.close_due(5)
    with pytest.raises(ValueError, match="backwards"):
        live.close_due(4)


def trace_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_beyond_a_number_of_open_spans_the_longest_quiet_traces_are_bytes() -> None:
    live = assembler(max_unpacked_spans=6)
    for number in range(1, 4):
        add(live, span(1, trace=trace_id(number)), span(2, 1, trace=trace_id(number)), at=number / 10)
    assert live.unpacked == 6, "up to that number nothing is"
    add(live, span(3, 1, trace=trace_id(1)), at=0.4)  # 2 and 3 are the longest quiet now
    assert live.unpacked == 3
    assert (live.open_spans, len(live)) == (7, 3)


def test_a_span_is_packed_as_often_as_its_trace_doubles() -> None:
    held = LiveTrace(0, 0, 0, 0, "rules", Overrides(TracesSettings()).deadlines(0))
    pieces = []
    for number in range(1, 65):
        held.add(span(number, 99))
        held.pack()
        pieces.append([packed.contents for packed in held.packed])
    assert pieces[:4] == [[1], [2], [2, 1], [4]]
    assert pieces[62:] == [[32, 16, 8, 4, 2, 1], [64]]


def test_what_is_packed_is_known_and_comes_back() -> None:
    live = assembler(max_unpacked_spans=0)
    for number in range(1, 65):
        add(live, span(number, 99), at=0)
    add(live, span(7, 99), span(7, 99, name="other"), at=0)
    assert (live.span_dispositions, live.open_spans) == ({("duplicate", ""): 1}, 65)
    (closed,) = live.close_all()
    assert closed.revision == 65
    assert [s.name for s in closed.spans if s.span_id[-1] == 7] == ["span 7"]


def test_closed_traces_are_unpacked_as_they_are_asked_for() -> None:
    live = assembler(max_unpacked_spans=0)
    for number in range(1, 4):
        add(live, span(1, trace=trace_id(number)), at=0)
    closing = live.close_due(10 * S)
    assert next(closing).spans == [span(1, trace=trace_id(1))]
    assert live.unpacked == 0
    assert len(list(closing)) == 2


def test_what_is_closed_at_the_end_is_let_go_of_one_by_one() -> None:
    live = assembler(max_unpacked_spans=0)
    for number in range(1, 10):
        add(live, span(1, trace=trace_id(number)), at=0)
    before = unpacked_traces()
    closing = live.close_all()
    for _ in range(5):
        next(closing)
    assert unpacked_traces() <= before + 1


def unpacked_traces() -> int:
    return sum(isinstance(item, LiveTrace) and any(item.spans.values()) for item in gc.get_objects())


CONTENTS: list[Span | LogRecord] = [
    span(1, end=30),
    span(2, 1, end=20),
    span(2, 1, end=25, attributes={"a": 1}),
    span(2, 1, end=25, attributes={"a": 2}),
    span(3, 2, end=15),
    span(4, 99, end=5),
    span(1, end=30, resource=type(span(1).resource)({"service.name": "other"})),
    log_record(1, "b"),
    log_record(1, "a"),
    log_record(3, "c", time=9),
    log_record(77, "stray"),
]


def spans_of(contents: Sequence[Span | LogRecord]) -> list[Span]:
    return [content for content in contents if isinstance(content, Span)]


def log_records_of(contents: Sequence[Span | LogRecord]) -> list[LogRecord]:
    return [content for content in contents if isinstance(content, LogRecord)]


def seen(trace: Trace) -> object:
    return (trace.spans, trace.missing, trace.revision, trace.replaced, trace.log_records)


@settings(max_examples=3 * settings().max_examples)
@given(
    st.lists(st.sampled_from(CONTENTS), min_size=0, max_size=15).flatmap(
        lambda extra: st.permutations([*CONTENTS, *extra])
    ),
    st.lists(st.floats(0, 30), min_size=25, max_size=25),
    st.integers(1, 4),
    st.sampled_from([0, 3, 100_000]),
)
def test_any_order_batching_duplication_lateness_and_packing_gives_the_same_highest_revision(
    arrivals: list[Span | LogRecord], gaps_s: list[float], batch_size: int, max_unpacked_spans: int
) -> None:
    live = assembler(settle="1s", idle_timeout="5s", max_unpacked_spans=max_unpacked_spans)
    now_s = 0.0
    closed: list[Trace] = []
    batches = [arrivals[i : i + batch_size] for i in range(0, len(arrivals), batch_size)]
    for batch, gap_s in zip(batches, itertools.cycle(gaps_s), strict=False):
        now_s += gap_s
        closed += add(live, *spans_of(batch), at=now_s)
        closed += add_logs(live, *log_records_of(batch), at=now_s)
    closed += remembered(live, live.close_all())
    highest = max(closed, key=lambda trace: trace.revision)

    whole = assembler()
    add(whole, *spans_of(CONTENTS))
    add_logs(whole, *log_records_of(CONTENTS))
    (expected,) = whole.close_all()
    assert seen(highest) == seen(expected)
    # Promise 5, of the spans that were read.
    assert live.span_dispositions.total() == len(spans_of(arrivals))
    assert live.log_record_dispositions.total() == len(log_records_of(arrivals))
    assert live.open_spans == live.open_log_records == 0
