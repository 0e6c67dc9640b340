"""What may be committed of a partition."""

from hypothesis import given
from hypothesis import strategies as st

from tracegrade.journal.kafka.positions import PartitionPositions

SPANS, LOGS = "otlp_spans", "otlp_logs"


def test_without_open_traces_and_unconfirmed_results_all_that_was_read_is_committed() -> None:
    positions = PartitionPositions({SPANS: 10, LOGS: 3})
    assert positions.read(SPANS, 10) == (13, 14)
    assert positions.read(LOGS, 3) == (14, 15)
    positions.judged(None, results_end=500)
    assert positions.to_commit(499) == {}
    assert positions.to_commit(500) == {SPANS: 11, LOGS: 4}
    assert positions.to_commit(500) == {}


def test_an_unconfirmed_result_holds_back_what_was_judged_with_it_and_after_it() -> None:
    positions = PartitionPositions({SPANS: 0, LOGS: 0})
    positions.read(SPANS, 0)
    positions.judged(None, results_end=100)
    positions.read(SPANS, 1)
    positions.judged(None, results_end=200)
    assert positions.to_commit(150) == {SPANS: 1}
    assert positions.to_commit(200) == {SPANS: 2}


def test_a_gap_in_offsets_is_a_step_like_any_other() -> None:
    positions = PartitionPositions({SPANS: 0, LOGS: 0})
    assert positions.read(SPANS, 5) == (0, 6)
    positions.judged(None, results_end=0)
    assert positions.to_commit(0) == {SPANS: 6}


@given(
    st.lists(st.tuples(st.sampled_from([SPANS, LOGS]), st.booleans()), max_size=400),
    st.integers(0, 400),
)
def test_nothing_at_or_after_the_oldest_open_trace_is_committed(read: list[tuple[str, bool]], opened: int) -> None:
    positions = PartitionPositions({SPANS: 7, LOGS: 2})
    offsets = {SPANS: 7, LOGS: 2}
    needed: tuple[int, str, int] | None = None  # position, topic and offset of the record that opened the trace
    for number, (topic, is_judged) in enumerate(read):
        begin, _ = positions.read(topic, offsets[topic])
        if number == opened:
            needed = (begin, topic, offsets[topic])
        offsets[topic] += 1
        if is_judged:
            positions.judged(needed[0] if needed else None, results_end=number)
    committed = {SPANS: 7, LOGS: 2} | positions.to_commit(len(read))
    assert all(committed[topic] <= offsets[topic] for topic in offsets)
    if needed is not None:
        assert committed[needed[1]] <= needed[2]
