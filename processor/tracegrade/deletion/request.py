"""A requested deletion and its state: one small file, passed from process to process."""

import re
import secrets
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

from tracegrade.deletion.tombstones import Tombstones
from tracegrade.journal.files import remove_unfinished, replace_file
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.tenant_mark import tenant_mark

State: TypeAlias = Literal["requested", "resolved", "erased", "unstored", "done"]

_KEPT_DONE_NS = 24 * 3600 * 1_000_000_000
_SUFFIX = ".deletion.json"
_ID = re.compile("[A-Za-z0-9][A-Za-z0-9_-]*")  # the name of a file, whoever asks for it
_NOTED = ".erased"


@dataclass(frozen=True, slots=True)
class Choice:
    """Which traces: of ``session``, of ``user``, or first received before ``before_ns``; none set: by id alone.

    Of one ``tenant``; None: of all.
    """

    session: str | None = None
    user: str | None = None
    before_ns: int | None = None
    tenant: str | None = None

    @property
    def by_id_alone(self) -> bool:
        """Whether nothing has to be looked up."""
        return self.session is None and self.user is None and self.before_ns is None

    def takes(self, tenant: str) -> bool:
        """Whether traces of this tenant may be meant."""
        return self.tenant is None or self.tenant == tenant


@dataclass(frozen=True, slots=True)
class Deleted:
    """Counts of what was deleted.

    ``spans`` and ``log_records`` from the journal; ``results`` (one for each judged trace or session and revision) from
    the results journal; ``traces``, ``sessions`` and ``evaluations`` from the store; ``alerts`` that named one;
    ``parquet_rows`` from Parquet files. ``damaged_stores`` were put aside by a repair, and are deleted as a whole.
    """

    spans: int = 0
    log_records: int = 0
    results: int = 0
    traces: int = 0
    sessions: int = 0
    evaluations: int = 0
    alerts: int = 0
    parquet_rows: int = 0
    damaged_stores: int = 0

    def plus(self, **more: int) -> "Deleted":
        """With so much more: what is done again after a kill finds nothing, and adds nothing."""
        return replace(self, **{name: getattr(self, name) + count for name, count in more.items()})

    def __str__(self) -> str:
        found = [f"{number} {name.replace('_', ' ')}" for name, number in asdict(self).items() if number]
        return ", ".join(found) or "nothing"


@dataclass(frozen=True, slots=True)
class Deletion:
    """One deletion. What it is about is forgotten when it is done: only the numbers stay, for a day.

    A ``late`` one is for spans of deleted traces that came later, which are only in the journal.
    """

    id: str
    requested_ns: int
    state: State = "requested"
    choice: Choice = Choice()
    trace_ids: frozenset[bytes] = frozenset()
    trace_count: int = 0
    deleted: Deleted = field(default_factory=Deleted)
    late: bool = False
    done_ns: int | None = None

    @property
    def found_nothing(self) -> bool:
        """Whether it is done, and there was nothing of these traces anywhere."""
        return self.state == "done" and self.deleted == Deleted()

    @property
    def marks(self) -> frozenset[bytes]:
        """What stands for its traces among the deleted ones."""
        tenant = self.choice.tenant
        return self.trace_ids if tenant is None else frozenset(tenant_mark(tenant, id_) for id_ in self.trace_ids)

    def done(self, deleted: Deleted) -> "Deletion":
        """It, done: of what it was about nothing is left."""
        now_ns = time.time_ns()
        forgotten = replace(self, choice=Choice(tenant=self.choice.tenant), trace_ids=frozenset())
        return replace(forgotten, deleted=deleted, state="done", done_ns=now_ns)

    def to_json(self) -> dict[str, Any]:
        """The documented JSON object: id, state, how many traces are meant, times, what was deleted."""
        return {
            "id": self.id,
            "state": self.state,
            "trace_count": self.trace_count,
            "requested_ns": self.requested_ns,
            "done_ns": self.done_ns,
            "deleted": asdict(self.deleted),
        }


class Deletions:
    """The deletions of one data folder."""

    def __init__(self, data_folder: Path) -> None:
        self._folder = data_folder / "deletions"
        self._looked_at: tuple[int, int] | None = None
        self._tombstones_damage = ""
        self.unreadable: list[str] = []
        """What is wrong with each file that `waiting` found last and could not read: what it asked for is not done."""

    @property
    def tombstones_path(self) -> Path:
        """Where the tombstones are."""
        return self._folder / "tombstones"

    def damage(self) -> str | None:
        """What is wrong with the files that `waiting` read last, and with the tombstones; None when nothing is."""
        try:
            status = self.tombstones_path.stat()
        except OSError:  # none yet, or a disk that says so elsewhere
            stamp = (0, 0)
        else:
            stamp = (status.st_mtime_ns, status.st_size)
        if stamp != self._looked_at:
            self._looked_at, self._tombstones_damage = stamp, self.tombstones().damage
        return "; ".join(filter(None, [*self.unreadable, self._tombstones_damage])) or None

    def tombstones(self) -> Tombstones:
        """The tombstones as they are now."""
        return Tombstones(self.tombstones_path)

    def request(
        self,
        choice: Choice,
        trace_ids: frozenset[bytes] = frozenset(),
        now_ns: int | None = None,
        *,
        late: bool = False,
    ) -> Deletion:
        """Ask for a deletion; it is durable on return.

        Args:
            choice: which traces to delete in addition to the named ones.
            trace_ids: those named.
            now_ns: the time, ns since 1970 UTC.
            late: they were deleted before, and something came since.

        Raises:
            OSError: the disk refused.
        """
        now_ns = time.time_ns() if now_ns is None else now_ns
        wanted = Deletion(
            f"{now_ns:019d}-{secrets.token_hex(4)}", now_ns, "requested", choice, trace_ids, len(trace_ids), late=late
        )
        self.save(wanted)
        return wanted

    def save(self, deletion: Deletion) -> None:
        """Write the state of `deletion`; called by the process that did the step.

        Raises:
            OSError: the disk refused.
        """
        content = deletion.to_json()
        content["choice"] = asdict(deletion.choice)
        if deletion.state != "done":
            content["late"] = deletion.late
            content["trace_ids"] = sorted(trace_id.hex() for trace_id in deletion.trace_ids)
        replace_file(self._folder / (deletion.id + _SUFFIX), orjson.dumps(content))

    def note_erased_by(self, deletion: Deletion, judge: str, records: int) -> None:
        """The results journal of this one of several judges holds nothing of it any more; `records` were erased now.

        Raises:
            OSError: the disk refused.
        """
        before = self.erased_by(deletion, judge) or 0
        replace_file(self._noted(deletion, judge), str(before + records).encode())

    def erased_by(self, deletion: Deletion, judge: str) -> int | None:
        """The number of records that this judge has erased; None while it has not reported."""
        try:
            return int(self._noted(deletion, judge).read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def forget_erased_by(self, deletion: Deletion) -> None:
        """It is done: what judges have noted of it is no longer needed."""
        for path in self._folder.glob(f"{deletion.id}.*{_NOTED}"):
            path.unlink(missing_ok=True)

    def _noted(self, deletion: Deletion, judge: str) -> Path:
        return self._folder / f"{deletion.id}.{judge}{_NOTED}"

    def find(self, deletion_id: str) -> Deletion | None:
        """The deletion of that id; None when there is none, or none any more."""
        if not _ID.fullmatch(deletion_id):
            return None
        try:
            return _deletion_of(self._folder / (deletion_id + _SUFFIX))
        except FileNotFoundError:
            return None

    def waiting(self, *states: State) -> list[Deletion]:
        """Those in one of `states`, the oldest first; forgets those done a day ago, and what a kill left unfinished.

        A file that cannot be read stops no other: see `unreadable`.
        """
        found = []
        self.unreadable = []
        remove_unfinished(self._folder)
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                deletion = _deletion_of(path)
            except FileNotFoundError:  # done a day ago, and another process forgot it just now
                continue
            except (OSError, TraceGradeError) as error:
                self.unreadable.append(str(error))
                continue
            if deletion.state in states:
                found.append(deletion)
            elif deletion.done_ns is not None and deletion.done_ns < time.time_ns() - _KEPT_DONE_NS:
                path.unlink(missing_ok=True)
        return found


def _deletion_of(path: Path) -> Deletion:
    try:
        content = orjson.loads(path.read_bytes())
        return Deletion(
            content["id"],
            content["requested_ns"],
            content["state"],
            Choice(**content.get("choice", {})),
            frozenset(map(bytes.fromhex, content.get("trace_ids", ()))),
            content["trace_count"],
            Deleted(**content["deleted"]),
            content.get("late", False),
            content["done_ns"],
        )
    except (ValueError, TypeError, KeyError) as error:
        raise TraceGradeError(
            f"{path}: no deletion of ours, or a damaged one: {error}; ask again for what it asked for, and remove it"
        ) from None
