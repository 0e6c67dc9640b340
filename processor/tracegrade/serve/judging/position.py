"""The position where the judge begins again after a stop or a kill."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tracegrade.journal.position import Position
from tracegrade.pipeline.heartbeat import Heartbeat


class JudgePosition:
    """The judge's position in the journal. While a slow disk commits it, the heartbeat goes on."""

    def __init__(self, path: Path, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._syncing = ThreadPoolExecutor(1, thread_name_prefix="position-sync")
        self._position = Position(path, sync=self._sync)
        self._read_to = 0

    def load(self) -> int:
        """The last committed position; else the first position ever, so that deletions by retention are noticed."""
        return self._position.load() or 0

    def commit(self, position: int, read_to: int) -> None:
        """Everything before `position` is done; the heartbeat still says that the journal is read up to `read_to`.

        Raises:
            OSError: the disk refused.
        """
        self._read_to = read_to
        self._position.commit(position)

    def close(self) -> None:
        """Make the last commit durable and close the file."""
        self._position.close()
        self._syncing.shutdown()

    def _sync(self, fd: int) -> None:
        self._heartbeat.beat_until(self._syncing.submit(os.fdatasync, fd), self._read_to)
