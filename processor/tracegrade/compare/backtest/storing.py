"""Stores what a backtest said as the run ``backfill``: first all is judged, then it is stored.

In between it lies in a temporary file without a name. So the store is not read while it is written, which would let
SQLite's log grow, and a backtest that fails replaces nothing.
"""

import pickle
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from tempfile import TemporaryFile
from typing import IO

from tracegrade.compare.progress import Progress, unseen
from tracegrade.compare.store.backfills import BackfillWriter, JudgedAfter, StoredBackfill
from tracegrade.pipeline.version import tracegrade_version
from tracegrade.store.open import open_store

_TOGETHER = 200
# A process that waits for the lock of a SQLite file asks again after some milliseconds: then it gets it.
_PAUSE_S = 0.02


class Waiting:
    """What was said and is not stored yet, in the order in which it was added."""

    def __init__(self, file: IO[bytes]) -> None:
        """Keep it in `file`, which no other process reads."""
        self._file = file
        self._count = 0

    def __len__(self) -> int:
        """Of how many traces."""
        return self._count

    def add(self, judged: JudgedAfter) -> None:
        """Add what was said of one trace."""
        pickle.dump(judged, self._file, pickle.HIGHEST_PROTOCOL)
        self._count += 1

    def batches(self) -> Iterator[list[JudgedAfter]]:
        """All of it, a transaction's worth at a time."""
        self._file.seek(0)
        left = (pickle.load(self._file) for _ in range(self._count))
        while batch := list(islice(left, _TOGETHER)):
            yield batch


@contextmanager
def waiting() -> Iterator[Waiting]:
    """Where to keep what was said until it is stored; gone with the context, or the process."""
    with TemporaryFile(prefix="tracegrade-") as file:
        yield Waiting(file)


def store_backfill(
    url: str,
    said: Waiting,
    rules: Mapping[str, str],
    *,
    tenant: str | None,
    since_ns: int,
    until_ns: int,
    progress: Progress = unseen,
) -> StoredBackfill:
    """Store what was `said`, in place of what was backfilled of these rules before.

    Args:
        url: of the store.
        said: by the rules.
        rules: hash by id.
        tenant: whose traces were judged; None: those of all.
        since_ns: from when on the traces were first received, ns since 1970 UTC.
        until_ns: before when.
        progress: shows how far it is.

    Raises:
        StoreError: the store cannot be opened for writing.
        SQLAlchemyError: the database refused; part of it may be stored. The same again stores all.
    """
    engine = open_store(url)
    try:
        times = (since_ns, until_ns, time.time_ns())
        writer = BackfillWriter(engine, rules, tenant, *times, tracegrade_version())
        with progress("earlier results looked at", None) as advance:
            for looked_at in writer.remove_earlier():
                advance(looked_at)
                time.sleep(_PAUSE_S)
        with progress("traces stored", len(said)) as advance:
            for batch in said.batches():
                writer.write(batch)
                advance(len(batch))
                time.sleep(_PAUSE_S)
        writer.finish()
        return writer.stored
    finally:
        engine.dispose()
