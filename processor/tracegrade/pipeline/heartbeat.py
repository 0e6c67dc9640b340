"""What the judge is doing right now, in a small file that both roles map into memory.

The judge writes it before every rule it evaluates, a store into shared memory; the receive role reads it to notice a
judge that hangs, and on what.
"""

import mmap
import struct
import time
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple, TypeVar

_LAYOUT = struct.Struct("=QQ16s200s")
_PAIR = struct.Struct("<16s200s")
_PAIR_AT = 16
BEAT_EVERY_S = 1.0

Result = TypeVar("Result")


class Beat(NamedTuple):
    """``changed_ns``: monotonic time of the last sign of life (all processes of one boot share that clock).

    ``trace_id`` and ``rule_id`` are what is being evaluated, both None between evaluations.
    """

    changed_ns: int
    position: int
    trace_id: str | None
    rule_id: str | None


class Heartbeat:
    """The judge's side."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(_LAYOUT.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        # Each is stored at once: `struct` makes room for a number by zeros first, and to a reader who comes in between
        # the judge would not have begun.
        self._numbers = memoryview(self._map)[:_PAIR_AT].cast("Q")  # time, position
        self.beat(0)

    def beat(self, position: int) -> None:
        """Alive, nothing is being evaluated, the journal is read up to `position`."""
        _PAIR.pack_into(self._map, _PAIR_AT, b"", b"")
        self._numbers[1] = position
        self._numbers[0] = time.monotonic_ns()

    def beat_until(self, done: Future[Result], position: int) -> Result:
        """What `done` gives, alive meanwhile: who waits for a slow disk does not hang, and the next one would wait too.

        Raises:
            Exception: what `done` raises.
        """
        while True:
            try:
                return done.result(BEAT_EVERY_S)
            except TimeoutError:
                if done.done():
                    raise
                self.beat(position)

    def working(self, trace_id: bytes, rule_id: str) -> None:
        """About to evaluate this trace by this rule."""
        _PAIR.pack_into(self._map, _PAIR_AT, trace_id, rule_id.encode())
        self._numbers[0] = time.monotonic_ns()

    def close(self) -> None:
        """Let go of the file."""
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
    changed_ns, position, trace_id, rule_id = _LAYOUT.unpack_from(data)
    rule = rule_id.rstrip(b"\0").decode("utf-8", "replace")
    return Beat(changed_ns, position, trace_id.hex() if rule else None, rule or None)
