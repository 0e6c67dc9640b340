"""What the judge is doing now, in a small file that both roles map into memory.

The judge writes it before every record it reads, every trace it closes and every rule it evaluates, a store into shared
memory; the receive role reads it to notice when and on what a judge hangs, and what a judge was doing when it ended.
"""

import mmap
import struct
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

_LAYOUT = struct.Struct("=QQQ16s200s")
_PAIR = struct.Struct("<16s200s")
_PAIR_AT = 24
_NO_RECORD = 2**64 - 1
_NO_TRACE = bytes(16)
BEAT_EVERY_S = 1.0

Result = TypeVar("Result")


class Beat(NamedTuple):
    """``changed_ns``: monotonic time of the last sign of life (all processes of one boot share that clock).

    ``record`` is the journal position of the record that is being decoded and assembled. ``trace_id`` is the trace that
    is being closed, extracted or written, and ``rule_id`` the rule that is being evaluated. In between, all are None:
    then no record, trace or rule is to blame.
    """

    changed_ns: int
    position: int
    record: int | None
    trace_id: str | None
    rule_id: str | None


class Heartbeat:
    """The judge's side."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(_LAYOUT.pack(0, 0, _NO_RECORD, b"", b""))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        # Each is stored at once: `struct` makes room for a number by zeros first, and to a reader who comes in between
        # the judge would not have begun.
        self._numbers = memoryview(self._map)[:_PAIR_AT].cast("Q")  # time, position, record
        self.beat(0)

    def beat(self, position: int) -> None:
        """Alive; nothing is being worked on, and the journal is read up to `position`."""
        self._numbers[2] = _NO_RECORD
        _PAIR.pack_into(self._map, _PAIR_AT, b"", b"")
        self._numbers[1] = position
        self._numbers[0] = time.monotonic_ns()

    def still_alive(self) -> None:
        """Alive, and waiting for something else; what is being worked on stays the same."""
        self._numbers[0] = time.monotonic_ns()

    def reading(self, record: int) -> None:
        """About to decode the record at this position and take in its content."""
        _PAIR.pack_into(self._map, _PAIR_AT, b"", b"")
        self._numbers[2] = record
        self._numbers[0] = time.monotonic_ns()

    def working(self, trace_id: bytes, rule_id: str = "") -> None:
        """About to evaluate this trace by this rule; without one, to do anything else with it."""
        self._numbers[2] = _NO_RECORD
        _PAIR.pack_into(self._map, _PAIR_AT, trace_id, rule_id.encode())
        self._numbers[0] = time.monotonic_ns()

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """In this context, such as a read of the store, the trace being worked on is not to blame for a hang."""
        record, pair = self._numbers[2], self._map[_PAIR_AT:]
        self._numbers[2] = _NO_RECORD
        _PAIR.pack_into(self._map, _PAIR_AT, b"", b"")
        yield
        self._map[_PAIR_AT:] = pair
        self._numbers[2] = record

    def beat_until(self, done: Future[Result], position: int) -> Result:
        """Wait for `done` with heartbeats, and return its result: waiting for a slow disk is not a hang.

        Raises:
            Exception: the one that `done` raises.
        """
        while True:
            try:
                return done.result(BEAT_EVERY_S)
            except TimeoutError:
                if done.done():
                    raise
                self.beat(position)

    def close(self) -> None:
        """Close the file."""
        self._numbers.release()
        self._map.close()


def read_heartbeat(path: Path) -> Beat | None:
    """The latest beat; None while no judge has started."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < _LAYOUT.size:
        return None
    changed_ns, position, record, trace_id, rule_id = _LAYOUT.unpack_from(data)
    rule = rule_id.rstrip(b"\0").decode("utf-8", "replace")
    return Beat(
        changed_ns,
        position,
        record if record != _NO_RECORD else None,
        trace_id.hex() if trace_id != _NO_TRACE else None,
        rule or None,
    )


def clear_heartbeat(path: Path) -> None:
    """Clear the file after its content was noted, so that it is not read as new."""
    with path.open("r+b") as file:
        file.write(_LAYOUT.pack(0, 0, _NO_RECORD, b"", b""))
