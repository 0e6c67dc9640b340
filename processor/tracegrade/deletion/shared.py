"""Deletions that were asked for at another data folder on the same PostgreSQL: this one carries them out, too.

It may hold what the other one cannot reach: traces that are open here, or results that the store does not have yet.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Engine

from tracegrade.deletion.request import Choice, Deletion, Deletions
from tracegrade.journal.files import replace_file
from tracegrade.store.registry import database
from tracegrade.store.several_processes import SharedDeletion, share, shared, shared_ids

KEPT_NS = 31 * 24 * 3600 * 1_000_000_000  # a data folder whose judge is away for longer is not told


class SharedDeletions:
    """Those that this data folder knows of, by a small file: so each is taken over once."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        """Of the data folder `folder`; `engine` is on the store."""
        self._deletions = Deletions(folder)
        self._path = folder / "deletions" / "taken_over"
        self._engine = engine
        self._known = self._stored_ids()

    def take_over(self) -> list[Deletion]:
        """Ask here for what was asked for elsewhere; durable on return. Nothing on SQLite, which nobody else uses.

        Raises:
            OSError: the disk refused; it is taken over the next time.
            SQLAlchemyError: the database refused.
        """
        if database(self._engine).is_file:
            return []
        with self._engine.connect() as connection:
            ids = shared_ids(connection)
            if ids == self._known:
                return []
            found = shared(connection, [id_ for id_ in ids - self._known if self._deletions.find(id_) is None])
        taken = [_as_asked_here(each) for each in found]
        for deletion in taken:
            self._deletions.save(deletion)
        replace_file(self._path, json.dumps(sorted(ids)).encode())
        self._known = ids
        return taken

    def _stored_ids(self) -> set[str]:
        try:
            return set(json.loads(self._path.read_bytes()))
        except (FileNotFoundError, ValueError):
            return set()  # taking one over twice deletes nothing more


def share_deletions(engine: Engine, deletions: Sequence[Deletion]) -> None:
    """Tell other data folders on the store of these, whose traces are known by now; nothing on SQLite.

    Raises:
        SQLAlchemyError: the database refused.
    """
    if database(engine).is_file:
        return
    told = [SharedDeletion(each.id, each.requested_ns, each.choice.tenant, each.trace_ids) for each in deletions]
    with engine.begin() as connection:
        share(connection, told, forget_before_ns=time.time_ns() - KEPT_NS)


def _as_asked_here(found: SharedDeletion) -> Deletion:
    choice = Choice(tenant=found.tenant)
    return Deletion(found.id, found.requested_ns, "resolved", choice, found.trace_ids, len(found.trace_ids))
