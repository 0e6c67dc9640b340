"""The parts of a deletion: in the journal, by its writer; in results, by the judge; in Parquet files, by delivery."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from sqlalchemy import Engine

from tracegrade.codec.results import decode_result, erased, is_erased
from tracegrade.deletion.otlp_request import trace_ids, trace_ids_with, without
from tracegrade.deletion.request import Choice, Deleted, Deletion, Deletions
from tracegrade.deletion.shared import share_deletions
from tracegrade.deliver.parquet.erase import erase
from tracegrade.deliver.parquet.settings import ParquetSettings
from tracegrade.deliver.sinks.parquet import NAME as PARQUET
from tracegrade.extract.registry import in_force
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Record
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.receive.redacted_ids import RedactedIds
from tracegrade.store.delete import (
    delete_everywhere,
    overwrite_deleted,
    traces_before,
    traces_of_session,
    traces_of_user,
)
from tracegrade.store.errors import StoreError
from tracegrade.store.files import delete_put_aside, remove_unfinished, sqlite_path
from tracegrade.store.open import open_store, reading

Alive = Callable[[], None]

# Searching a record's bytes for ids is faster than reading the record, up to this number of ids.
_MOST_SEARCHED = 16


def stored_traces_of(store_url: str, choice: Choice, ids: RedactedIds) -> set[bytes]:
    """The ids of the traces that a store knows and `choice` means; O(all that is stored) for a session or user."""
    found: set[bytes] = set()
    if choice.by_id_alone:
        return found
    try:
        engine = open_store(store_url, read_only=True, tenant=choice.tenant)
    except StoreError:
        return found  # nothing was judged yet; a store that is away is found out where rows are deleted
    try:
        with reading(engine) as connection:
            if choice.session is not None:
                found |= traces_of_session(connection, partial(ids.of_session, choice.session))
            if choice.user is not None:
                found |= traces_of_user(connection, partial(ids.of_user, choice.user), in_force().user_keys)
            if choice.before_ns is not None:
                found |= traces_before(connection, choice.before_ns)
    finally:
        engine.dispose()
    return found


def journalled_traces_of(folder: Path, choice: Choice, ids: RedactedIds) -> set[bytes]:
    """The ids of the traces chosen by `choice` that are in the journal in `folder`, including open ones.

    Those of a session or user are known by the attributes that dialects read them from.
    """
    found: set[bytes] = set()
    if choice.by_id_alone:
        return found
    reader = JournalReader(folder)
    try:
        position, end = reader.first(), reader.durable().end
        while position < end and (records := reader.read(position)):
            for record in records:
                found |= _of_record(record, choice, ids)
            position = records[-1].end
    finally:
        reader.close()
    return found


def _of_record(record: Record, choice: Choice, ids: RedactedIds) -> set[bytes]:
    if not choice.takes(record.tenant):
        return set()
    if choice.before_ns is not None:
        return trace_ids(record.signal, record.payload) if record.received_ns < choice.before_ns else set()
    if choice.session is not None:
        keys, value, forms = in_force().session_keys, choice.session, ids.of_session(choice.session, record.tenant)
    else:
        assert choice.user is not None
        keys, value, forms = in_force().user_keys, choice.user, ids.of_user(choice.user, record.tenant)
    is_number = value.lstrip("-").isdecimal()  # not written as text
    if not is_number and not any(form.encode() in record.payload for form in forms):
        return set()

    def matches(attribute: KeyValue) -> bool:
        if attribute.key not in keys:
            return False
        found = attribute.value
        return found.string_value in forms or (
            found.WhichOneof("value") == "int_value" and str(found.int_value) == value
        )

    return trace_ids_with(record.signal, record.payload, matches)


def erase_from_journal(
    waiting: Sequence[Deletion],
    deletions: Deletions,
    journal: LocalJournal,
    folder: Path,
    *,
    store_url: str,
    ids: RedactedIds,
    remembered_s: float,
) -> list[Deletion]:
    """The journal's part of deletions that are ``requested`` or ``resolved``, in one pass; they are ``erased`` then.

    Args:
        waiting: what is asked for.
        deletions: where it is kept.
        journal: the one in `folder`, by its writer.
        folder: the journal's.
        store_url: of the store, which knows traces that the journal no longer does.
        ids: says by what sessions and users are known.
        remembered_s: for how long spans that arrive later are known to be of a deleted trace.

    Raises:
        OSError, JournalError: the disk refused, or the journal is closing; the next try goes on.
    """
    # The traces are resolved before anything is erased: their remains might not be found again.
    resolved = [
        _resolved(deletion, deletions, partial(journalled_traces_of, folder, ids=ids), store_url, ids)
        for deletion in waiting
    ]
    _add_tombstones(deletions, resolved, remembered_s)
    wanted_of = _Wanted(resolved)
    erased_items: Counter[tuple[int, Signal]] = Counter()

    def change(record: Record) -> bytes | None:
        wanted = wanted_of(record.tenant)
        searched = wanted if len(wanted) <= _MOST_SEARCHED else None
        if searched is not None and not any(trace_id in record.payload for trace_id in searched):
            return None
        payload, items = without(record.signal, record.payload, wanted)
        for trace_id, count in items.items():
            erased_items[wanted[trace_id], record.signal] += count
        return payload if items else None

    if any(item.trace_ids for item in resolved):
        journal.erase(change)
    erased_now = []
    for place, deletion in enumerate(resolved):
        spans, log_records = erased_items[place, Signal.TRACES], erased_items[place, Signal.LOGS]
        erased_now.append(_erased(deletion.deleted.plus(spans=spans, log_records=log_records), deletion, deletions))
    return erased_now


def bury(
    waiting: Sequence[Deletion], deletions: Deletions, *, store_url: str, ids: RedactedIds, remembered_s: float
) -> list[Deletion]:
    """As `erase_from_journal`, for a journal that we cannot change: what it holds of these traces is not judged again.

    The traces of a session, user or time are those that the store knows, which does not know those that are open.
    """
    resolved = [_resolved(deletion, deletions, lambda choice: set(), store_url, ids) for deletion in waiting]
    _add_tombstones(deletions, resolved, remembered_s)
    return [_erased(deletion.deleted, deletion, deletions) for deletion in resolved]


class _Wanted:
    """The traces that deletions mean, by tenant: trace id to the place of the deletion that counts it.

    If two name the same trace, the first counts it.
    """

    def __init__(self, waiting: Sequence[Deletion]) -> None:
        self._waiting = waiting
        self._of: dict[str, dict[bytes, int]] = {}

    def __call__(self, tenant: str) -> dict[bytes, int]:
        if tenant not in self._of:
            meant = [(place, item) for place, item in enumerate(self._waiting) if item.choice.takes(tenant)]
            self._of[tenant] = {trace_id: place for place, item in reversed(meant) for trace_id in item.trace_ids}
        return self._of[tenant]


def _add_tombstones(deletions: Deletions, resolved: Sequence[Deletion], remembered_s: float) -> None:
    now_ns = time.time_ns()
    marks = {mark for item in resolved for mark in item.marks}
    deletions.tombstones().add(marks, now_ns, forget_before_ns=now_ns - round(remembered_s * 1e9))


def _erased(counted: Deleted, deletion: Deletion, deletions: Deletions) -> Deletion:
    """`deletion` with the journal's part done."""
    # Of what came late nothing was judged: the judge has no part in it.
    after = deletion.done(counted) if deletion.late else replace(deletion, deleted=counted, state="erased")
    deletions.save(after)
    return after


def _resolved(
    deletion: Deletion,
    deletions: Deletions,
    in_journal: Callable[[Choice], set[bytes]],
    store_url: str,
    ids: RedactedIds,
) -> Deletion:
    if deletion.state != "requested":
        return deletion
    found = deletion.trace_ids | in_journal(deletion.choice)
    found |= stored_traces_of(store_url, deletion.choice, ids)
    deletion = replace(deletion, trace_ids=found, trace_count=len(found), state="resolved")
    deletions.save(deletion)
    return deletion


def erase_from_results(
    waiting: Sequence[Deletion],
    deletions: Deletions,
    results: Sequence[LocalJournal],
    engine: Engine,
    alive: Alive = lambda: None,
    *,
    with_files: bool = False,
) -> list[Deletion]:
    """The judge's part of deletions that are ``erased`` from the journal, in one pass.

    They are ``done`` on return, or ``unstored`` with files.

    Call it when the store holds every record of the results journals, and read the journal again afterwards.

    Args:
        waiting: what is asked for.
        deletions: where it is kept.
        results: the results journals, by their writer.
        engine: a writer's, on the store.
        alive: called in between.
        with_files: there are Parquet files, of which `erase_from_files` is to erase them.

    Raises:
        OSError, JournalError, SQLAlchemyError: a disk or database refused; the next try goes on.
    """
    records = sum((erase_records(waiting, journal, alive) for journal in results), Counter[int]())
    return erase_rows(waiting, deletions, records, engine, alive, with_files=with_files)


def erase_records(waiting: Sequence[Deletion], results: LocalJournal, alive: Alive = lambda: None) -> Counter[int]:
    """Erase from one results journal; returns how many records of each deletion, by its place in `waiting`.

    Raises:
        OSError, JournalError: the disk refused, or the journal is closing; the next try goes on.
    """
    wanted_of = _Wanted(waiting)
    records: Counter[int] = Counter()

    def change(record: Record) -> bytes | None:
        if is_erased(record.payload):
            return None
        alive()
        try:
            trace = decode_result(record.payload).trace
        except TraceGradeError:
            return None  # of another version, so it cannot be read
        wanted = wanted_of(trace.tenant)
        named = wanted.keys() & {bytes.fromhex(trace.trace_id), *(trace.members or ())}
        if not named:
            return None
        records[min(wanted[trace_id] for trace_id in named)] += 1
        return erased(record.payload)

    if any(item.trace_ids for item in waiting):
        results.erase(change)
    return records


def erase_rows(
    waiting: Sequence[Deletion],
    deletions: Deletions,
    records: Counter[int],
    engine: Engine,
    alive: Alive,
    *,
    with_files: bool,
) -> list[Deletion]:
    """Delete from the store, after `records` were erased from results journals; tell other data folders on it first.

    They are ``done`` on return, or ``unstored`` with files.

    Raises:
        OSError, SQLAlchemyError: a disk or database refused; the next try goes on.
    """
    share_deletions(engine, waiting)
    rows = [delete_everywhere(engine, deletion.trace_ids, alive, tenant=deletion.choice.tenant) for deletion in waiting]
    if any(deletion.trace_ids for deletion in waiting):
        overwrite_deleted(engine, alive)
    done = []
    for place, deletion in enumerate(waiting):
        damaged = _delete_damaged(engine)  # counted by the first
        counted = deletion.deleted.plus(results=records[place], damaged_stores=damaged, **rows[place]._asdict())
        done.append(replace(deletion, deleted=counted, state="unstored") if with_files else deletion.done(counted))
        deletions.save(done[-1])
    return done


def _delete_damaged(engine: Engine) -> int:
    """Delete stores that were put aside, whatever they hold: traces cannot be taken out of a damaged file."""
    if (path := sqlite_path(str(engine.url))) is None:
        return 0
    remove_unfinished(path)
    return delete_put_aside(path)


def erase_from_files(
    waiting: Sequence[Deletion],
    deletions: Deletions,
    settings: ParquetSettings | None,
    folder: Path,
) -> list[Deletion]:
    """Delivery's part of deletions that are ``unstored``, in one pass over the Parquet files; they are ``done`` then.

    Args:
        waiting: what is asked for.
        deletions: where it is kept.
        settings: where the files are; None: there are none any more.
        folder: the data folder.

    Raises:
        OSError, ParquetError, JournalLocked: a disk or bucket refused, the extra is not installed, or files are being
            written; the next try goes on.
    """
    rows: Counter[int] = Counter()
    for tenant in dict.fromkeys(item.choice.tenant for item in waiting):
        meant = [(place, item) for place, item in enumerate(waiting) if item.choice.tenant == tenant]
        wanted = {trace_id: place for place, item in reversed(meant) for trace_id in item.trace_ids}
        if wanted and settings is not None:
            for trace_id, count in erase(settings, folder / PARQUET, wanted, tenant=tenant).items():
                rows[wanted[bytes.fromhex(trace_id)]] += count
    done = []
    for place, deletion in enumerate(waiting):
        done.append(deletion.done(deletion.deleted.plus(parquet_rows=rows[place])))
        deletions.save(done[-1])
    return done
