"""Both topics of a partition as one sequence."""

from tracegrade.journal.kafka.consume import EndReached, Extent, Message
from tracegrade.journal.kafka.merge import PartitionMerge

SPANS, LOGS = "otlp_spans", "otlp_logs"


def _merge(spans: tuple[int, int], logs: tuple[int, int]) -> PartitionMerge:
    return PartitionMerge({SPANS: Extent(*spans, 0), LOGS: Extent(*logs, 0)})


def _message(topic: str, offset: int, time: int) -> Message:
    return Message(topic, 0, offset, time, True, None, [], b"")


def _taken(merge: PartitionMerge) -> list[tuple[str, int]]:
    return [(message.topic, message.offset) for message in merge.take()]


def test_messages_come_by_the_brokers_times() -> None:
    merge = _merge((0, 2), (0, 1))
    for message in (_message(SPANS, 0, 10), _message(SPANS, 1, 30), _message(LOGS, 0, 20)):
        merge.put(message)
    assert _taken(merge) == [(SPANS, 0), (LOGS, 0), (SPANS, 1)]


def test_a_topic_waits_for_the_other_until_that_is_read_to_its_end() -> None:
    merge = _merge((0, 3), (0, 2))
    for offset in range(3):
        merge.put(_message(SPANS, offset, 10 * (offset + 1)))
    assert _taken(merge) == []
    assert not merge.has_caught_up
    merge.put(_message(LOGS, 0, 15))
    assert _taken(merge) == [(SPANS, 0), (LOGS, 0)]
    merge.put(_message(LOGS, 1, 16))
    assert _taken(merge) == [(LOGS, 1), (SPANS, 1), (SPANS, 2)]
    assert merge.has_caught_up


def test_a_message_as_late_as_what_the_other_topic_has_come_to_does_not_wait() -> None:
    merge = _merge((0, 9), (0, 9))
    merge.put(_message(LOGS, 0, 50))
    merge.put(_message(SPANS, 0, 40))
    merge.put(_message(SPANS, 1, 50))
    merge.put(_message(SPANS, 2, 51))
    assert _taken(merge) == [(SPANS, 0), (SPANS, 1), (LOGS, 0)]


def test_offsets_without_messages_at_the_end_are_known_from_the_broker() -> None:
    merge = _merge((0, 1), (5, 7))
    merge.put(_message(SPANS, 0, 10))
    merge.put(_message(LOGS, 5, 5))
    assert _taken(merge) == [(LOGS, 5)]
    merge.reached(EndReached(LOGS, 0, 7))  # offset 6 is the marker of a transaction
    assert _taken(merge) == [(SPANS, 0)]
    assert merge.has_caught_up


def test_after_a_pause_ends_are_asked_again() -> None:
    merge = _merge((0, 0), (0, 0))
    assert merge.has_caught_up
    merge.forget_ends()
    merge.put(_message(SPANS, 0, 10))
    assert not merge.knows_ends
    assert _taken(merge) == []
    merge.ended_at({SPANS: 1, LOGS: 0})
    assert _taken(merge) == [(SPANS, 0)]


def test_a_message_that_came_before_is_left_out() -> None:
    merge = _merge((3, 3), (0, 0))
    merge.put(_message(SPANS, 2, 10))
    merge.put(_message(SPANS, 3, 11))
    merge.put(_message(SPANS, 3, 11))
    assert _taken(merge) == [(SPANS, 3)]
    assert merge.waiting(SPANS) == 0
