"""A run while it is written: what replay judges is stored under its name, in the tables of what is judged live.

A run is *incomplete* until all is stored. A process that is killed leaves it so; the same command under the same name
goes on with it, and stores once what is stored already, since ids follow from content. A run that is complete is never
written again.
"""

import re
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Self

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from tracegrade.codec.results import decode_result, encode_result
from tracegrade.model.errors import TraceGradeError, WrongValue
from tracegrade.model.short_hash import short_hash
from tracegrade.model.tenant_mark import is_marked
from tracegrade.model.trace_result import TraceResult, TraceSummary
from tracegrade.pipeline.judged import Judged, JudgedTrace
from tracegrade.pipeline.replay import NOT_STORED
from tracegrade.pipeline.trace_result import result_of
from tracegrade.store.errors import StoreError
from tracegrade.store.open import one_at_a_time
from tracegrade.store.runs import (
    Experiment,
    Run,
    note_gate,
    note_writing,
    note_written,
    save_experiment,
    save_run,
    stored_experiment,
    stored_run,
    stored_runs,
    take_back_run,
)
from tracegrade.store.schema import BACKFILL, LIVE
from tracegrade.store.write import StoreWriter

_NAME = re.compile(r"\w[\w./+-]*")
_TITLE = re.compile(r"\w[\w./+-]*(?: [\w./+-]+)*")
EXPERIMENT_ID = re.compile("[0-9a-f]{12}")
_LONGEST_NAME = 100
_BEAT_S = 5.0
_MOST_RELEASES = 100
_BATCH_RECORDS = 200
_BATCH_BYTES = 4 * 1024 * 1024

# What has to be the same for an incomplete run to go on, and how it is called.
_SAME = {
    "experiment": "experiment",
    "judgement_hash": "rules",
    "settings_hash": "settings",
    "tracegrade": "version of TraceGrade",
    "source": "source",
    "selection": "selection of traces",
}


_GOES_ON = ("incomplete", "failed")


def check_name(what: str, name: str, experiment: str | None = None) -> None:
    """Check that `name` can be that of a run.

    Args:
        what: where it was written, for messages.
        name: the name.
        experiment: the run's; its name may come before a `/`, whatever it is.

    Raises:
        WrongValue: it cannot.
    """
    own = name.removeprefix(f"{experiment}/")
    _check(what, name, _NAME.fullmatch(name if own == name else f"_/{own}") is not None, "")
    _check_parts(what, name, own)


def check_experiment(connection: Connection, tenant: str, what: str, name: str) -> None:
    """Check that runs can be stored in the experiment `name`, which may be new: as of a run, and with single spaces.

    Args:
        connection: to the store.
        tenant: whose experiment.
        what: where the name was written, for messages.
        name: the name.

    Raises:
        WrongValue: they cannot.
    """
    if stored_experiment(connection, tenant, name) is None:
        check_title(what, name)
        if EXPERIMENT_ID.fullmatch(name):
            raise WrongValue(f"{what}: 12 hex digits are the id of an experiment, and no name; found {name!r}")
    if stored_run(connection, tenant, name) is not None:
        raise WrongValue(f"{what}: {name!r} is the name of a run; choose another")


def check_title(what: str, name: str) -> None:
    """Check that `name` is of the form that names of experiments have; raises `WrongValue`."""
    _check(what, name, _TITLE.fullmatch(name) is not None, ", and single spaces between them")
    _check_parts(what, name, name)


def _check_parts(what: str, name: str, checked: str) -> None:
    """Refuse what stands between the `/` of an address for another page."""
    if not {"", ".", ".."}.isdisjoint(checked.split("/")):
        raise WrongValue(f"{what}: expected no part between its '/' that is empty, '.' or '..'; found {name!r}")


def _check(what: str, name: str, fits: bool, more: str) -> None:
    if not fits or len(name) > _LONGEST_NAME:
        raise WrongValue(
            f"{what}: expected at most {_LONGEST_NAME} letters, digits, '_', '.', '/', '+' and '-', none of the last "
            f"four at the beginning{more}; found {name!r}"
        )
    if name in (LIVE, BACKFILL, NOT_STORED):
        raise WrongValue(f"{what}: {name!r} is reserved; choose another name")


def record_of(judged: Judged, run: str, settings_hash: str) -> bytes:
    """What is stored of a judged trace or session of `run`, as a record."""
    return encode_result(stored_result_of(judged, run, settings_hash))


def stored_result_of(judged: Judged, run: str, settings_hash: str) -> TraceResult:
    """What is stored of a judged trace or session of `run`.

    Files have no receive times: the times of the spans take their place, so that what is stored can be ordered by them.
    """
    if isinstance(judged, JudgedTrace):
        trace = judged.trace
        if not trace.first_received_ns:
            start_ns, end_ns = trace.start_ns, trace.end_ns
            trace = replace(trace, first_received_ns=start_ns, last_received_ns=end_ns, closed_ns=end_ns)
            judged = replace(judged, trace=trace)
    elif not judged.session.first_received_ns and judged.session.parts:
        parts = [part.trace for part in judged.session.parts]
        start_ns, end_ns = max(part.start_ns for part in parts), max(part.end_ns for part in parts)
        judged = replace(judged, session=replace(judged.session, first_received_ns=start_ns, closed_ns=end_ns))
    return result_of(judged, run, settings_hash)


class RecordedRun:
    """A run that is being written.

    As a context, it notes what ended the run when that is an error with a message for people, and forgets a run that
    had stored nothing by then.
    """

    def __init__(
        self,
        engine: Engine,
        asked: Run,
        name: str | None,
        *,
        deleted: Callable[[], Container[bytes]] = frozenset,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Begin a run, or go on with one that is incomplete.

        Args:
            engine: opened for writing.
            asked: what is known of the run before anything is judged; its name is not read.
            name: its name; None: the experiment's, and the next number.
            deleted: asks for the ids of deleted traces, which are not stored.
            now_ns: the clock.

        Raises:
            WrongValue: the name cannot be used, or a run of that name is complete or was begun with something else.
            StoreError: the store cannot be written.
        """
        if name is not None:
            check_name("--run", name, asked.experiment)
        self._engine = engine
        self._deleted = deleted
        self._now_ns = now_ns
        self._writer = StoreWriter(engine)
        self._waiting: list[TraceResult] = []
        self._waiting_bytes = 0
        self._releases: set[str] = set()
        self._prompts: set[str] = set()
        self.left_out = 0
        """How many traces and sessions were not stored, because they were deleted."""
        with self._transaction(f"experiment {asked.experiment!r}: no run was begun") as connection:
            self._is_new = name is None or stored_run(connection, asked.tenant, name) is None
            first = _begun(connection, asked, name)
            note_writing(connection, first.tenant, first.name, now_ns())
        self.name = first.name
        self._begun = {first.tenant: first}
        self._ended = threading.Event()
        self._beats = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        self._beats.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._ended.set()
        self._beats.join()
        if isinstance(error, TraceGradeError):
            self.fail(error)
        self._note_writing(None)

    def _beat(self) -> None:
        """Let others know, as long as the run is written, that a process writes it."""
        while not self._ended.wait(_BEAT_S):
            self._note_writing(self._now_ns())

    def _note_writing(self, now_ns: int | None) -> None:
        with suppress(StoreError), self._transaction(self._broken_off) as connection:
            for tenant in list(self._begun):
                note_writing(connection, tenant, self.name, now_ns)

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return next(iter(self._begun.values())).tenant

    @property
    def begun_ns(self) -> int:
        """When it was begun, also by an earlier process; ns since 1970 UTC."""
        return next(iter(self._begun.values())).begun_ns

    def fail(self, error: TraceGradeError) -> None:
        """Note that `error` ended the run; forget it where nothing was stored.

        Where the store cannot be written, nothing more is tried: the run stays incomplete, and another process may go
        on with it by the time that the store would take a note.
        """
        if isinstance(error, StoreError):
            return
        with suppress(TraceGradeError):  # then it stays incomplete
            if self._is_new:
                self._take_back()
            else:
                self._end("failed", problem=str(error))

    def forget_if_empty(self) -> None:
        """Forget the run where nothing was stored; one that has something stays incomplete."""
        if self._is_new:
            with suppress(TraceGradeError):
                self._take_back()

    def add(self, record: bytes) -> None:
        """Store the `record_of` a trace or session; a higher revision replaces a lower one.

        Raises:
            TraceGradeError: the run was deleted meanwhile.
            StoreError: the store cannot be written.
        """
        self._waiting.append(decode_result(record))
        self._waiting_bytes += len(record)
        if len(self._waiting) >= _BATCH_RECORDS or self._waiting_bytes >= _BATCH_BYTES:
            self._write()

    def add_now(self, results: Sequence[TraceResult], also: Callable[[Connection], None] = lambda _: None) -> None:
        """Store `results` at once, in one short transaction: a process that is killed then loses none of them.

        What `also` writes is in the same transaction; when it raises, nothing is stored. Otherwise raises as `add`.
        """
        self._waiting += results
        self._write(also)

    def complete(self) -> None:
        """Store the rest, and note that this is all. Raises as `add`."""
        self._write()
        self._end("complete")

    def note_gate(self, word: str) -> None:
        """Note what the gate said of a complete run. Raises as `add`."""
        with self._transaction(f"run {self.name!r} is complete, without what the gate said") as connection:
            for tenant in self._begun:
                note_gate(connection, tenant, self.name, word)

    def _write(self, also: Callable[[Connection], None] = lambda _: None) -> None:
        batch, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not batch:
            return
        self._is_new = False
        with _store_errors(self._broken_off):
            self._writer.write_allowed(batch, lambda connection: self._allowed(connection, batch, also))

    def _allowed(
        self, connection: Connection, batch: Sequence[TraceResult], also: Callable[[Connection], None]
    ) -> list[TraceResult]:
        """What of `batch` is stored in this transaction, in which no deletion can come between looking and writing."""
        also(connection)
        for tenant in {result.trace.tenant for result in batch}:
            if tenant not in self._begun:
                asked = replace(next(iter(self._begun.values())), tenant=tenant)
                self._begun[tenant] = _begun(connection, asked, self.name)
            self._check_mine(connection, tenant)
            note_written(connection, tenant, self.name, self._now_ns())
        deleted = self._deleted()
        kept = [result for result in batch if not _is_deleted(result.trace, deleted)]
        self.left_out += len(batch) - len(kept)
        for result in kept:
            head = result.trace
            self._releases.update([head.release] if head.release else [])
            self._prompts.update(run.prompt_hash for run in head.runs if run.prompt_hash)
        return kept

    def _take_back(self) -> None:
        """Forget the run: nothing was stored, often because its source cannot be read."""
        with self._transaction(self._broken_off) as connection:
            for tenant in self._begun:
                self._check_mine(connection, tenant)
                take_back_run(connection, tenant, self.name)

    @property
    def _broken_off(self) -> str:
        return f"run {self.name!r} is incomplete; the same command with --run {self.name} goes on with it"

    @contextmanager
    def _transaction(self, failed: str) -> Iterator[Connection]:
        with _store_errors(failed), self._engine.begin() as connection:
            one_at_a_time(connection)
            yield connection

    def _check_mine(self, connection: Connection, tenant: str) -> None:
        """Raise `TraceGradeError` unless the stored run is the one that was begun here."""
        stored, begun = stored_run(connection, tenant, self.name), self._begun[tenant]
        if stored is None or (stored.state, stored.begun_ns) != ("incomplete", begun.begun_ns):
            raise TraceGradeError(f"run {self.name!r} takes no more results: it was deleted or completed meanwhile")

    def _end(self, state: Any, **known: Any) -> None:
        digest = short_hash("\n".join(sorted(self._prompts)).encode())
        known |= {
            "state": state,
            "written_ns": self._now_ns(),
            "releases": sorted(self._releases)[:_MOST_RELEASES],
            "prompt_hash": digest if self._prompts else None,
            "prompt_count": len(self._prompts),
        }
        with self._transaction(self._broken_off) as connection:
            for tenant, run in self._begun.items():
                self._check_mine(connection, tenant)
                save_run(connection, replace(run, **known))


def broken_off(connection: Connection, asked: Run) -> str | None:
    """The name of a run of the experiment that is not complete, and that `asked` would go on with; None without one."""
    found = stored_runs(connection, asked.tenant, asked.experiment)
    goes_on = (run for run in found if run.state in _GOES_ON and not run.emptied and not what_differs(run, asked))
    return next((run.name for run in goes_on), None)


def deleted_run(connection: Connection, tenant: str, names: Iterable[str]) -> str | None:
    """The first of these runs that had stored something which was deleted, or is being; None where all is there."""
    for name in names:
        run = stored_run(connection, tenant, name)
        if run is None or run.state == "deleting" or run.emptied:
            return name
    return None


@contextmanager
def _store_errors(failed: str) -> Iterator[None]:
    """Errors of the database in words, after what `failed`."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise StoreError(f"{failed}: the store cannot be written: {cause}") from None


def _is_deleted(head: TraceSummary, deleted: Container[bytes]) -> bool:
    """Whether a trace, or one of the traces of a session, was deleted."""
    ids = (bytes.fromhex(head.trace_id), *(head.members or ()))
    return any(is_marked(deleted, head.tenant, trace_id) for trace_id in ids)


def _begun(connection: Connection, asked: Run, name: str | None) -> Run:
    """The run that `asked` describes, stored as incomplete."""
    tenant = asked.tenant
    experiment = stored_experiment(connection, tenant, asked.experiment)
    check_experiment(connection, tenant, "--experiment", asked.experiment)
    experiment = experiment or Experiment(tenant, asked.experiment, asked.begun_ns, None, 0)
    _check_is_no_experiment(connection, tenant, asked.experiment, name)
    if name is None:
        number = experiment.last_number + 1
        while stored_run(connection, tenant, f"{asked.experiment}/{number}") is not None:
            number += 1
        name = f"{asked.experiment}/{number}"
        experiment = replace(experiment, last_number=number)
    run = replace(asked, name=name)
    if (earlier := stored_run(connection, tenant, name)) is not None:
        _check_goes_on(earlier, run)
        run = replace(run, begun_ns=earlier.begun_ns)
    save_experiment(connection, experiment)
    save_run(connection, run)
    return run


def _check_is_no_experiment(connection: Connection, tenant: str, experiment: str, run: str | None) -> None:
    """One name is never that of a run and of an experiment, so that it can stand for either on the command line."""
    if run is not None and (run == experiment or stored_experiment(connection, tenant, run) is not None):
        raise WrongValue(f"--run: {run!r} is the name of an experiment; choose another, such as {run}/first")


def _check_goes_on(earlier: Run, asked: Run) -> None:
    """Raise unless the stored run `earlier` is of the same command, broken off."""
    instead = f"choose another name, or delete it: 'tracegrade experiments delete {earlier.name}'"
    if earlier.state not in _GOES_ON:
        how = "complete" if earlier.state == "complete" else "being deleted"
        raise WrongValue(f"--run: {earlier.name!r} is {how}, and a run is written once; {instead}")
    if earlier.emptied:
        raise WrongValue(f"--run: {earlier.name!r} is incomplete, and retention has deleted its traces; {instead}")
    if other := what_differs(earlier, asked):
        raise WrongValue(
            f"--run: {earlier.name!r} is incomplete, and this command would not go on with it, since these are others: "
            f"{', '.join(other)}; {instead}"
        )


def what_differs(earlier: Run, asked: Run) -> list[str]:
    """What has to be the same of a run that goes on and is not, in words; nothing where `asked` can go on with it."""
    found = []
    for field, name in _SAME.items():
        if getattr(earlier, field) != getattr(asked, field):
            found += _changed_in_suite(earlier, asked) if field == "selection" else [name]
    return found


def _changed_in_suite(earlier: Run, asked: Run) -> list[str]:
    """What differs in the selections of two runs: by name where both are of suites."""
    if "suite_hash" not in earlier.selection or "suite_hash" not in asked.selection:
        return [_SAME["selection"]]
    keys = [*asked.selection, *(key for key in earlier.selection if key not in asked.selection)]
    changed = (key for key in keys if earlier.selection.get(key) != asked.selection.get(key))
    return [*dict.fromkeys(key.removesuffix("_hash") for key in changed)]
