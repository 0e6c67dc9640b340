"""Content of files (certificates, tokens), read again when they change, so that a change needs no restart."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from tracegrade.model.errors import TraceGradeError

Value = TypeVar("Value")
_Stamp: TypeAlias = tuple[tuple[int, int, int] | None, ...]

LOOK_EVERY_S = 1.0

logger = logging.getLogger(__name__)


class Reloading(Generic[Value]):
    """The last good value of some files; a value that cannot be used is logged, and changes nothing."""

    def __init__(
        self,
        what: str,
        paths: Sequence[str],
        read: Callable[[], Value],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the files for the first time; raises what `read` raises.

        Args:
            what: the name of the content, for the log.
            paths: checked for changes of time, size or inode; a renamed file or a changed link has another inode.
            read: reads and checks them all.
            now_s: for tests.
        """
        self._what = what
        self._paths = paths
        self._read = read
        self._now_s = now_s
        # Taken before reading: a file that is written meanwhile then counts as changed.
        self._stamp = _stamp(paths)
        self._look_at_s = now_s() + LOOK_EVERY_S
        self.value = read()

    def poll(self) -> bool:
        """Read changed files again, at most once a second. Returns whether ``value`` is new."""
        now_s = self._now_s()
        if now_s < self._look_at_s:
            return False
        self._look_at_s = now_s + LOOK_EVERY_S
        stamp = _stamp(self._paths)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self.value = self._read()
        except (TraceGradeError, OSError, ValueError) as error:
            logger.error("%s; the old one stays in force", error)
            return False
        logger.info("%s has changed; the new one is in force", self._what)
        return True


def _stamp(paths: Sequence[str]) -> _Stamp:
    return tuple(map(_stamp_of, paths))


def _stamp_of(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
