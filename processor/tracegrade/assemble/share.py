"""Which of several judges judges a trace: each has a share of the trace ids, so that one trace is with one judge."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from zlib import crc32


def share_of(trace_id: bytes, of: int) -> int:
    """The number, from 0 to `of` - 1, of the share that `trace_id` is in; 0 for no id at all, as of a log record.

    All bytes of the id count: some senders write the time into the first ones, and zeros into others.
    """
    return crc32(trace_id) % of


@dataclass(frozen=True, slots=True)
class Share:
    """The share ``number`` of ``of`` shares, counted from 0."""

    number: int = 0
    of: int = 1

    @property
    def is_all(self) -> bool:
        """Whether every trace is in it."""
        return self.of == 1

    @property
    def has_the_rest(self) -> bool:
        """Whether it counts what has no trace id that could be read: one of all shares does."""
        return self.number == 0

    def takes(self, trace_id: bytes) -> bool:
        """Whether this trace is in it."""
        return share_of(trace_id, self.of) == self.number

    def chosen(self, items: Iterable[Any]) -> list[Any]:
        """Those parsed spans or log records whose traces are in it; nothing else of the others is looked at."""
        number, of = self.number, self.of
        return [item for item in items if crc32(item.trace_id) % of == number]

    def places(self, items: Iterable[Any]) -> list[int]:
        """The places of those items that `chosen` gives."""
        number, of = self.number, self.of
        return [place for place, item in enumerate(items) if crc32(item.trace_id) % of == number]


ALL = Share()


@dataclass(frozen=True, slots=True)
class Shares:
    """The share of one of several judges: of the traces, and of the sessions where that differs.

    Judges close traces of the same sessions. So with a share, sessions are not judged as traces close, but by turns:
    from what all judges have stored.
    """

    traces: Share = ALL
    other_sessions: Share | None = None

    @property
    def sessions(self) -> Share:
        """The sessions that are judged here."""
        return self.traces if self.other_sessions is None else self.other_sessions

    @property
    def judges_sessions_by_turns(self) -> bool:
        """Whether several judges close the traces of one session."""
        return self.other_sessions is not None or not self.traces.is_all
