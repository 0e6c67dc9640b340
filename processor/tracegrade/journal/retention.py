"""Retention: which segments may be deleted, and what is lost when one is deleted unread."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tracegrade.journal.record import Signal
from tracegrade.journal.segments import counts, read_segment, segment_path

WhenFull = Literal["refuse", "drop_oldest"]


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader of the journal as retention sees it: its position, and what happens when it is too far behind.

    refuse: appends are refused at the size bound until it has read more. drop_oldest: it loses the oldest segments.
    """

    position: int
    when_full: WhenFull


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that is no longer written; ``last_ns`` is no earlier than its last receive time."""

    base: int
    end: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class Deletable:
    """``delete``: the oldest segments, to be deleted. ``held_by``: consumers that keep the rest above the bound."""

    delete: list[Segment]
    held_by: list[str]


def deletable_segments(
    segments: Sequence[Segment], end: int, consumers: Mapping[str, Consumer], *, expired_ns: int, keep_bytes: int
) -> Deletable:
    """The segments to delete, oldest first, without a gap.

    Args:
        segments: those no longer written, in order.
        end: the journal's durable end.
        consumers: by name.
        expired_ns: segments whose last record came before this have outlived ``max_age``.
        keep_bytes: go down to this size if the consumers allow.
    """
    delete: list[Segment] = []
    for segment in segments:
        behind = [name for name, consumer in consumers.items() if consumer.position < segment.end]
        too_many = end - segment.base > keep_bytes
        if too_many and (held_by := [name for name in behind if consumers[name].when_full == "refuse"]):
            return Deletable(delete, held_by)
        if not too_many and (behind or segment.last_ns >= expired_ns):
            break
        delete.append(segment)
    return Deletable(delete, [])


def unread_items(folder: Path, segment: Segment, positions: Mapping[str, int]) -> dict[str, Counter[Signal]]:
    """Items by signal of the segment's readable records, per consumer from its position on."""
    data = read_segment(segment_path(folder, segment.base), segment.end - segment.base)
    lost: dict[str, Counter[Signal]] = {name: Counter() for name in positions}
    for end, signal, items in counts(data, segment.base):
        for name, position in positions.items():
            if end > position:
                lost[name][signal] += items
    return lost
