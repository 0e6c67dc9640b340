"""Makes the store whole again: from what can be read of it, from the results journals, and by judging the journal.

Each source adds what the ones before it lack: a revision that is stored is not stored again. What is older than
``store.retention``, or than the quota of its tenant lets it be, stays away, since its counts are still there. Nothing
goes to exporters, channels or Parquet files.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from sqlalchemy import Engine

from tracegrade.codec.results import decode_result, is_erased
from tracegrade.config import Config
from tracegrade.deletion.request import Deletions
from tracegrade.display import count, time_text
from tracegrade.journal.errors import JournalNotFound
from tracegrade.journal.reader import JournalReader
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.replay import replay_journal
from tracegrade.pipeline.set_aside import SetAside
from tracegrade.pipeline.trace_result import result_of
from tracegrade.rule.rule_set import RuleSet
from tracegrade.serve.opening import lock_delivery
from tracegrade.serve.supervising.judge_keeper import lock_judges
from tracegrade.store.check import version_in
from tracegrade.store.files import remove_unfinished, sqlite_path, take_its_place, unfinished
from tracegrade.store.open import one_at_a_time, open_store
from tracegrade.store.rule_texts import save_rule_texts
from tracegrade.store.salvage import Salvaged, count_traces, damage_of, salvage
from tracegrade.store.schema import LIVE
from tracegrade.store.version import FIRST
from tracegrade.store.write import StoreWriter

_TRACES_A_BATCH = 200
Progress = Callable[[str, int], Callable[[int], object]]


@dataclass(slots=True)
class Repaired:
    """What was done.

    ``replaced_for`` says why the store's file was replaced, which is at ``put_aside`` then; both are None where it was
    not. Numbers are of traces and sessions that were added. The times, ns since 1970 UTC, are from when the results
    journals and the journal have anything; None where they have nothing.
    """

    replaced_for: str | None = None
    put_aside: Path | None = None
    salvaged: Salvaged | None = None
    before: int = 0
    from_results: int = 0
    results_since_ns: int | None = None
    unreadable_results: int = 0
    judged_again: int = 0
    journal_since_ns: int | None = None
    left_out: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Describe in words what was done."""
        if self.put_aside is not None:
            yield f"the store was {self.replaced_for}; it is {self.put_aside} now"
        if self.salvaged is not None:
            rows = sum(self.salvaged.rows.values())
            yield f"  of it: {count(self.salvaged.traces, 'trace')} and {count(rows, 'row')} of other tables copied"
            if self.salvaged.unreadable_traces or self.salvaged.damaged:
                tables = ", ".join(self.salvaged.damaged) or "none"
                lost = count(self.salvaged.unreadable_traces, "trace")
                yield f"  not readable: {lost}; tables that are not whole: {tables}"
            if unknown := self.salvaged.unknown_tables:
                yield f"  tables that no installed part declares, not copied: {', '.join(unknown)}; copy that file"
        yield _added(self.from_results, "the results journals", self.results_since_ns)
        if self.unreadable_results:
            yield f"  {count(self.unreadable_results, 'damaged result')} passed over"
        yield _added(self.judged_again, "the journal, judged by the rules in force now", self.journal_since_ns)
        yield from (f"  {line}" for line in self.left_out)


def repair(config: Config, rule_set: RuleSet, advance: Callable[[int], object] = lambda count: None) -> Repaired:
    """Make the store of `config` whole; `rule_set` judges what no results journal holds any more.

    Args:
        config: the settings of ``serve``, which does not run.
        rule_set: the rules in force.
        advance: called with each number of traces or sessions that was read.

    Raises:
        JournalLocked: ``serve`` runs.
        StoreError: the store cannot be opened, and is no SQLite file that can be replaced.
        OSError, SQLAlchemyError: a disk or database refused; what was done so far stays, and can be done again.
    """
    done = Repaired()
    folder = DataFolder(config.data_path)
    with ExitStack() as stack:
        stack.callback(lock_judges(folder).release)
        stack.callback(lock_delivery(folder).release)
        path = sqlite_path(config.store_url)
        if path is not None and (reason := _why_replaced(path)) is not None:
            done.replaced_for = reason
            done.salvaged = _salvaged(path, advance)
            done.put_aside = take_its_place(path, datetime.now(UTC))
        engine = open_store(config.store_url, update=True)
        stack.callback(engine.dispose)
        done.before = count_traces(engine)
        is_kept = _is_kept(config, time.time_ns())
        _write(engine, _from_results(folder, done), is_kept, advance)
        after_results = count_traces(engine)
        done.from_results = after_results - done.before
        if config.journal.kafka is not None:
            done.left_out.append("what is only in Kafka is not judged again: serve goes on from where it was")
        else:
            _write(engine, _judged_again(config, folder, rule_set, done), is_kept, advance)
            done.judged_again = count_traces(engine) - after_results
            with engine.begin() as connection:
                one_at_a_time(connection)
                save_rule_texts(connection, rule_set, time.time_ns())
    return done


def _why_replaced(path: Path) -> str | None:
    """Why the SQLite file at `path` needs a new one in its place; None where it is whole, or where there is none."""
    if (damage := damage_of(path)) is not None:
        return f"damaged ({damage})"
    version = version_in(path)
    return (
        None
        if version is None or version >= FIRST
        else f"written before the first release (tables of version {version})"
    )


def _salvaged(path: Path, advance: Callable[[int], object]) -> Salvaged:
    """Copy what can be read of the store at `path` into a new one beside it; what a kill left of one is removed."""
    remove_unfinished(path)
    engine = open_store(f"sqlite:///{unfinished(path)}")
    try:
        return salvage(path, engine, advance)
    finally:
        engine.dispose()  # writes its log into its file


def _added(traces: int, where: str, since_ns: int | None) -> str:
    since = "nothing is there" if since_ns is None else f"from {time_text(since_ns)} UTC on"
    return f"{count(traces, 'trace')} added from {where} ({since})"


def _from_results(folder: DataFolder, done: Repaired) -> Iterator[TraceResult]:
    for name in folder.results_journals():
        try:
            reader = JournalReader(folder.path / name, name=name)
        except JournalNotFound:
            continue
        try:
            position = reader.first()
            while records := reader.read(position):
                for record in records:
                    done.results_since_ns = min(done.results_since_ns or record.received_ns, record.received_ns)
                    if is_erased(record.payload):
                        continue
                    try:
                        yield decode_result(record.payload)
                    except TraceGradeError:
                        done.unreadable_results += 1
                position = records[-1].end
        finally:
            reader.close()


def _judged_again(config: Config, folder: DataFolder, rule_set: RuleSet, done: Repaired) -> Iterator[TraceResult]:
    """The traces that had closed; ``serve`` reads those that are open again, and closes them."""
    try:
        reader = JournalReader(folder.journal)
    except JournalNotFound:
        return
    try:
        first = reader.read(reader.first(), 1)
        done.journal_since_ns = first[0].received_ns if first else None
    finally:
        reader.close()
    judged = replay_journal(
        folder.journal,
        config.traces,
        rule_set,
        LIVE,
        deleted=Deletions(folder.path).tombstones(),
        aside=SetAside(folder.path).load(),
        ends=False,
    )
    for each in judged:
        yield result_of(each, LIVE, config.settings_hash)


def _is_kept(config: Config, now_ns: int) -> Callable[[TraceResult], bool]:
    """Whether a result is not older than it may be, by ``store.retention`` or the quota of its tenant."""
    of_tenants = config.quotas.stored_for

    def is_kept(judged: TraceResult) -> bool:
        kept_s = of_tenants.get(judged.trace.tenant, config.store.retention)
        return judged.trace.first_received_ns >= now_ns - round(kept_s * 1e9)

    return is_kept


def _write(
    engine: Engine,
    results: Iterable[TraceResult],
    is_kept: Callable[[TraceResult], bool],
    advance: Callable[[int], object],
) -> None:
    writer, left = StoreWriter(engine), iter(results)
    while batch := list(islice(left, _TRACES_A_BATCH)):
        writer.write([judged for judged in batch if is_kept(judged)])
        advance(len(batch))
