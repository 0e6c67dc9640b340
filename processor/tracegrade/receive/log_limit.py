"""Limits log lines about senders' mistakes: a few lines a minute for each kind; the others are counted."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

LINES = 5
WITHIN_S = 60.0

# Whose lines are written once for each request, message or connection that is wrong, or broken off.
_LOUD = (
    "uvicorn.error",
    "grpc._cython.cygrpc",
    "asyncio",
    "tracegrade.receive.ingest",
    "tracegrade.serve.judging.kafka.records",
    "tracegrade.journal.kafka.client",
)


@dataclass(slots=True)
class _Kind:
    begun_s: float
    lines: int = 0
    left_out: int = 0


class LogLimit(logging.Filter):
    """Lets through five lines a minute of each kind (logger, level and text before its values are filled in).

    The next line of any kind, once the minute is over, says how many were left out.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._lock = threading.Lock()
        self._kinds: dict[tuple[str, int, str], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether `record` is written; if so, a note on earlier ones that were left out is added to its text."""
        now_s = self._now_s()
        with self._lock:
            over = [key for key, kind in self._kinds.items() if now_s - kind.begun_s >= WITHIN_S]
            said = [
                f"{kind.left_out} more lines of {key[0]} like {key[2]!r} were left out"
                for key, kind in ((key, self._kinds.pop(key)) for key in over)
                if kind.left_out
            ]
            if record.name in _LOUD:
                kind = self._kinds.setdefault((record.name, record.levelno, str(record.msg)[:100]), _Kind(now_s))
                kind.lines += 1
                if kind.lines > LINES and not said:  # what is to be said of others needs a line to stand in
                    kind.left_out += 1
                    return False
        if said:
            record.msg, record.args = f"{record.getMessage()} ({'; '.join(said)})", ()
        return True
