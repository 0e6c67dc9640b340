"""The judge process of ``serve``: journal -> assemble -> extract -> match -> evaluate -> results journal -> sinks.

The main thread judges, and nothing else: it reads records, appends encoded results and commits its position, in that
order, so that a kill at any moment loses nothing (what was read is read again) and doubles nothing (ids are derived,
writes idempotent). Sinks, alerts and the snapshot live on an event loop in a second thread, each sink with its own
position in the results journal.
"""

import asyncio
import gc
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import islice
from typing import TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from tracegrade.alert.events import AlertEvents
from tracegrade.alert.loop import AlertLoop
from tracegrade.alert.receivers.registry import receivers
from tracegrade.assemble.closed_traces import ClosedTrace, ClosedTraces, TraceKey
from tracegrade.assemble.sessions import MAX_TRACES, KnownSession, SessionKey
from tracegrade.conditions import conditions_in
from tracegrade.config import Config
from tracegrade.deletion.carry_out import erase_from_results
from tracegrade.deletion.late_spans import LateSpans
from tracegrade.deletion.request import Deletions
from tracegrade.deliver.recent import RecentResults
from tracegrade.deliver.record import encode
from tracegrade.deliver.route import Route, wait
from tracegrade.deliver.sink import Sink
from tracegrade.deliver.sinks.metrics import MetricsSink
from tracegrade.deliver.sinks.otlp import OtlpSink
from tracegrade.deliver.sinks.sql import SqlSink
from tracegrade.extract.unread import unread_spans
from tracegrade.journal.errors import JournalError, JournalLocked, JournalNotFound, JournalRefused, SegmentDeleted
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry, Record
from tracegrade.journal.retention import Consumer
from tracegrade.match.rule_set import RuleSet
from tracegrade.model.session import TURN
from tracegrade.model.signal import Signal
from tracegrade.otlp.client import OtlpClient
from tracegrade.pipeline.data_folder import DataFolder, consumers_of_results
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.pipeline.judged_trace import record_of
from tracegrade.pipeline.record_judge import Judged, JudgedClosing, JudgedSession, RecordJudge
from tracegrade.pipeline.rule_reload import RuleReload
from tracegrade.store.kept_spans import decode_spans
from tracegrade.store.open import open_store, unavailable
from tracegrade.store.read import StoredSession, closed_traces, sessions_going_on, stored_session
from tracegrade.store.retention import delete_older
from tracegrade.store.rule_texts import save_rule_texts
from tracegrade.telemetry import Labels, Telemetry, series

POLL_S = 0.05
COMMIT_EVERY_S = 0.2
LOOK_FOR_DELETIONS_EVERY_S = 0.5
RETRY_DELETIONS_AFTER_S = 30.0
APPENDED_TOGETHER = 256  # judged traces; results leave while a burst of closings is still being judged
SNAPSHOT_EVERY_S = 1.0
KEEP_RULE_TEXTS_EVERY_S = 1.0
RETENTION_EVERY_S = 60.0
GARBAGE_EVERY_S = 60.0
READ_BYTES = 1024 * 1024  # stays in the processor's cache while it is decoded
DRAIN_AT_STOP_S = 5.0
OPENS_WITHIN_S = 60.0
# Sinks may wait so long for the interpreter: handing it over every 5 ms, as is usual, took some 7 % of judging.
THREAD_SWITCH_S = 0.05
MAX_SCOPES = 200
MAX_SKIPPED = 100  # of which a snapshot tells; each is counted by the next one at the latest

logger = logging.getLogger(__name__)

Opened = TypeVar("Opened")


class JudgeRole:
    """One judge over one data folder."""

    def __init__(self, config: Config) -> None:
        """Open everything; what is wrong with rules, settings or the store stops the start here.

        Raises:
            TraceGradeError: naming the file, line and column, or the folder.
        """
        self._config = config
        self._folder = DataFolder(config.data_path)
        self._skipped: list[tuple[int, int]] = []  # (from, to) that retention had deleted before it was read
        self._telemetry = Telemetry("judge")
        self._telemetry.conditions.resume(conditions_in(self._folder.read_snapshot("judge") or {}))
        self._reload = RuleReload(config.rules, self._telemetry)
        self._rule_set = self._reload.in_force
        self._changed_rules: RuleSet | None = None  # handed from the delivery thread to the judging one
        with ExitStack() as undone:
            self._results = self._open_results()
            undone.callback(self._results.close)
            self._heartbeat = Heartbeat(self._folder.heartbeat)
            undone.callback(self._heartbeat.close)
            self._store = self._open_store()
            undone.pop_all()
        self._lookup = open_store(config.store_url, read_only=True)  # looking up must not wait for who writes
        # Started by itself, the judge may be there before the receiver has made the journal.
        self._reader = _patiently(
            lambda: JournalReader(self._folder.journal, telemetry=self._telemetry, name="journal"), JournalNotFound
        )
        self._syncing = ThreadPoolExecutor(1, thread_name_prefix="position-sync")
        self._position = Position(self._folder.position("judge"), sync=self._sync_alive)
        self._deletions = Deletions(self._folder.path)
        self._aside = self._folder.set_aside.load()
        self._suspects = self._aside.suspects
        self._deletions_due_s = 0.0
        self._late_spans = LateSpans(self._deletions)
        self._judge = self._new_judge()
        self._settings_hash = config.settings_hash
        self._recent = RecentResults(self._results.end)
        self._stop = threading.Event()
        self._unstored: deque[tuple[int, int, int]] = deque()  # end in the results journal, sequence, spans
        self._unstored_spans = 0
        self._scopes: set[tuple[str, str]] = set()  # services and scopes that metrics name
        self._stored_position = 0
        self._delivery = _Delivery(self)

    def run(self) -> None:
        """Judge until `stop` is called; returns when everything is committed and closed."""
        sys.setswitchinterval(THREAD_SWITCH_S)
        # Before anything is read and committed: what is unread goes with a snapshot of ours, not with no counts.
        self._judge.read_position = self._begin()
        self._publish()
        self._write_snapshot()
        self._delivery.start()
        try:
            while not self._stop.is_set():
                # Late spans look for their traces in the store: it must hold all results before any span is read.
                self._delivery.wait_until_stored(self._results.end, self._stop)
                self._carry_out_deletions()
                with self._lookup.connect() as connection:
                    self._judge.resume(map(_known, sessions_going_on(connection)))
                self._read_until_stopped()
            self._heartbeat.beat(self._judge.read_position)
        except (OSError, JournalError, SQLAlchemyError) as error:
            # A disk or a store ends us, and not what is being read.
            self._heartbeat.beat(self._judge.read_position)
            if isinstance(error, SQLAlchemyError) and (known := unavailable(self._config.store_url, error)):
                raise known from error
            raise
        finally:
            self._delivery.stop(DRAIN_AT_STOP_S)
            self._results.close()
            self._position.close()
            self._syncing.shutdown()
            self._reader.close()
            self._heartbeat.close()
            self._lookup.dispose()
            self._store.dispose()

    def _new_judge(self) -> RecordJudge:
        """One that has read nothing."""
        closed = ClosedTraces(
            self._stored,
            deleted=self._deletions.tombstones(),
            set_aside=self._aside.traces,
            max_unpacked_spans=self._config.traces.max_unpacked_spans,
        )
        closed.came_deleted = self._late_spans.trace_ids
        return RecordJudge(
            self._config.traces,
            self._rule_set,
            closed,
            set_aside=self._aside.pairs,
            passed_over=self._aside.positions,
            heartbeat=self._heartbeat,
            session=self._stored_session,
        )

    def _ask_for_late_spans(self, now_s: float) -> None:
        try:
            self._late_spans.ask(now_s)
        except OSError as error:  # a full disk must not end judging
            logger.warning("what came of deleted traces stays in the journal: %s; asking again", error)

    def _carry_out_deletions(self) -> None:
        """Erase what somebody asks to have deleted and the journal no longer holds, and forget what was read of it.

        Forgetting is what a start does: everything that is open is read again, from the committed position.
        """
        waiting = self._deletions.waiting("erased") if not self._stop.is_set() else []
        try:
            for done in erase_from_results(
                waiting, self._deletions, self._results, self._store, lambda: self._heartbeat.beat(0)
            ):
                logger.info("deletion %s is done: %s", done.id, done.deleted)
        except (OSError, JournalRefused, OperationalError) as error:
            logger.warning("deletion: %s; trying again in %.0f s", error, RETRY_DELETIONS_AFTER_S)
            self._deletions_due_s = time.monotonic() + RETRY_DELETIONS_AFTER_S
        if waiting:
            self._recent.forget()
            self._unstored.clear()
            self._unstored_spans = 0
            self._judge = self._new_judge()

    def _open_results(self) -> LocalJournal:
        """The results journal; its lock makes us the only judge of this folder."""
        consumed = self._folder.consumed(consumers_of_results(self._config.exporters))
        # The judge of a receiver that was killed may still be committing; its pipe has ended, so it will leave.
        return _patiently(
            lambda: LocalJournal.open(
                self._folder.results,
                self._config.journal,
                telemetry=self._telemetry,
                name="results",
                consumed=consumed,
                clocked=False,
            ),
            JournalLocked,
        )

    def _open_store(self) -> Engine:
        """The store, alive in the eyes of the watchdog while it is brought up to date: a large one takes minutes.

        Killed in between, it would have to begin anew each time.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="open-store") as opening:
            opened = opening.submit(open_store, self._config.store_url, updating=self._say_that_it_is_updated)
            store = self._heartbeat.beat_until(opened, 0)
        for name in ("store_updating", "store_unavailable"):
            self._telemetry.conditions.end(name)
        return store

    def _say_that_it_is_updated(self) -> None:
        self._telemetry.conditions.begin("store_updating", "judging waits until the store is brought up to date")
        self._write_snapshot()

    def stop(self) -> None:
        """Ask `run` to return; open traces stay in the journal for the next start. From any thread."""
        self._stop.set()

    def _read_until_stopped(self) -> None:
        """Read and judge until `stop`, or until there is something to delete."""
        position = self._judge.read_position = self._begin()  # shown until the first record is read
        commit_due_s = 0.0
        garbage = _RareGarbageCollection()
        while not self._stop.is_set():
            if (changed := self._changed_rules) is not None:
                self._changed_rules = None
                self._rule_set = changed
                self._judge.use(changed)
            durable = self._reader.durable()
            try:
                records = self._before_suspects(self._reader.read(position, READ_BYTES))
            except SegmentDeleted as error:
                self._skipped.append((position, error.first))  # the receive role counts what was in there
                position = self._judge.read_position = error.first
                self._publish()
                continue
            caught_up = not records or records[-1].end >= durable.end
            judged = self._judged(records, max(durable.clock_ns, self._judge.clock_ns) if caught_up else None)
            appended = 0
            while some := list(islice(judged, APPENDED_TOGETHER)):
                if not self._append(some):
                    return
                appended += len(some)
                self._publish()
            if records:
                position = records[-1].end
            self._heartbeat.beat(position)
            if self._suspects and position > self._suspects[0]:
                self._suspects = [suspect for suspect in self._suspects if suspect >= position]
                self._folder.set_aside.passed(position)
            self._publish()
            now_s = time.monotonic()
            garbage.collect_when_due(now_s)
            if now_s >= commit_due_s or appended:
                commit_due_s = now_s + COMMIT_EVERY_S
                self._commit(position)
            if now_s >= self._deletions_due_s:
                self._deletions_due_s = now_s + LOOK_FOR_DELETIONS_EVERY_S
                self._ask_for_late_spans(now_s)
                if self._deletions.waiting("erased"):
                    break
            if not records:
                self._release_stored()
                self._stop.wait(POLL_S)
        self._commit(position)

    def _begin(self) -> int:
        """Where reading begins: what was committed last, else the first record ever, so that what is gone is told."""
        return self._position.load() or 0

    def _before_suspects(self, records: list[Record]) -> list[Record]:
        """`records` up to the first that has ended a judge; it alone when it comes first, and nothing else goes on."""
        if not self._suspects:
            return records
        for number, record in enumerate(records):
            if record.position in self._suspects:
                if number == 0:
                    self._delivery.wait_until_stored(self._results.end, self._stop)
                    gc.collect()
                return records[: max(number, 1)]
        return records

    def _judged(self, records: Sequence[Record], clock_ns: int | None) -> Iterator[Judged]:
        """What `records` close, then, when there are no more, what is due by `clock_ns`."""
        for record in records:
            yield from self._judge.read(record)
        if clock_ns is not None:
            yield from self._judge.tick(max(clock_ns, self._judge.clock_ns))

    def _append(self, judged: list[Judged]) -> bool:
        """Make the results durable; waits while their journal is full, False when stopped meanwhile."""
        batch, entries = [], []
        for item in judged:
            self._heartbeat.working(item.key[1])
            result = record_of(item, "live", self._settings_hash)
            batch.append(result)
            entries.append(Entry(Signal.RESULTS, Encoding.PROTOBUF, result.trace["tenant"], 1, encode(result)))
        while True:
            try:
                end = self._heartbeat.beat_until(self._results.append_all(entries), self._judge.read_position)
                break
            except JournalRefused:
                # Sinks are behind, or the disk is full: wait for them, alive in the eyes of the watchdog.
                self._heartbeat.beat(self._judge.read_position)
                if self._stop.wait(0.2):
                    return False
        self._recent.add(batch, end)
        spans = sum(len(item.trace.spans) for item in judged if isinstance(item, JudgedClosing))
        self._unstored.append((end, judged[-1].sequence, spans))
        self._unstored_spans += spans
        self._count_closed(judged)
        return self._wait_for_the_store()

    def _wait_for_the_store(self) -> bool:
        """Closed traces stay in memory until they are stored: no more of them than live ones. False when stopped."""
        self._release_stored()
        while self._unstored_spans > self._config.traces.max_live_spans:
            self._heartbeat.beat(self._judge.read_position)
            if self._stop.wait(0.1):
                return False
            self._release_stored()
        return True

    def _count_closed(self, judged: list[Judged]) -> None:
        counts: dict[tuple[str, bool], int] = {}
        for item in judged:
            if isinstance(item, JudgedSession):
                continue
            key = (item.trace.close_reason, item.trace.complete)
            counts[key] = counts.get(key, 0) + 1
            if item.judgement.extraction.dialect_error:
                self._telemetry.add("tracegrade.extract.dialect_errors")
            for span in unread_spans(item.judgement.extraction):
                self._count_scope("tracegrade.extract.unread_tool_spans", span.resource.service, span.scope)
            for scope in item.judgement.extraction.silent_scopes:
                self._count_scope("tracegrade.extract.silent_traces", item.trace.resource.service, scope)
        for (reason, complete), count in counts.items():
            self._telemetry.add(
                "tracegrade.traces.closed", count, close_reason=reason, complete="true" if complete else "false"
            )

    def _count_scope(self, metric: str, service: str, scope: str) -> None:
        if (service, scope) not in self._scopes:
            if len(self._scopes) >= MAX_SCOPES:
                service = scope = "other"
            self._scopes.add((service, scope))
        self._telemetry.add(metric, service=service, scope=scope)

    def _commit(self, position: int) -> None:
        oldest = self._judge.live.oldest_position
        self._position.commit(position if oldest is None else min(oldest, position))

    def _sync_alive(self, fd: int) -> None:
        """As fdatasync, alive in the eyes of the watchdog however long the disk takes."""
        self._heartbeat.beat_until(self._syncing.submit(os.fdatasync, fd), self._judge.read_position)

    def _release_stored(self) -> None:
        while self._unstored and self._unstored[0][0] <= self._stored_position:
            _, sequence, spans = self._unstored.popleft()
            self._judge.release(sequence)
            self._unstored_spans -= spans

    def _publish(self) -> None:
        judge = self._judge
        self._telemetry.replace(
            {
                "tracegrade.spans": _by_fate("tracegrade.spans", judge.fates),
                "tracegrade.spans.open": {(): judge.live.open_spans},
                "tracegrade.spans.read": {(): judge.read_spans},
                "tracegrade.log_records": _by_fate("tracegrade.log_records", judge.log_record_fates),
                "tracegrade.log_records.open": {(): judge.live.open_log_records},
                "tracegrade.log_records.read": {(): judge.read_log_records},
                "tracegrade.traces.open": {(): len(self._judge.live)},
                "tracegrade.journal.position": {
                    series(
                        "tracegrade.journal.position", journal="journal", consumer="judge"
                    ): self._judge.read_position
                },
            }
        )

    def _write_snapshot(self) -> None:
        snapshot = self._telemetry.snapshot()
        # After it: what is passed over by the position in the snapshot is never missing here.
        self._folder.write_snapshot("judge", snapshot | {"skipped": self._skipped[-MAX_SKIPPED:]})

    def _stored(self, keys: Iterable[TraceKey]) -> Mapping[TraceKey, ClosedTrace]:
        with self._heartbeat.elsewhere(), self._lookup.connect() as connection:
            found = closed_traces(connection, list(keys))
        closed = {}
        for key, stored in found.items():
            kept = decode_spans(stored.spans)
            closed[key] = ClosedTrace(
                stored.closed_ns,
                stored.revision,
                kept.spans,
                kept.replaced,
                stored.cut_by,
                stored.rule_set_hash,
                stored.first_received_ns,
                stored.first_position,
                kept.log_records,
                kept.wanted,
            )
        return closed

    def _stored_session(self, key: SessionKey) -> KnownSession | None:
        with self._heartbeat.elsewhere(), self._lookup.connect() as connection:
            stored = stored_session(connection, *key)
        return _known(stored) if stored is not None else None


def say_that_the_store_is_away(folder: DataFolder, message: str) -> None:
    """Leave a snapshot that says so: this judge ends, and the next one looks again."""
    telemetry = Telemetry("judge")
    telemetry.conditions.resume(conditions_in(folder.read_snapshot("judge") or {}))
    telemetry.conditions.begin("store_unavailable", message)
    folder.write_snapshot("judge", telemetry.snapshot())


def _known(stored: StoredSession) -> KnownSession:
    cut, ended = stored.cut_by == MAX_TRACES, stored.close_reason != TURN
    return KnownSession(stored.tenant, stored.id, stored.members, stored.closed_ns, cut, stored.revision, ended)


def _by_fate(name: str, fates: Mapping[tuple[str, str], int]) -> dict[Labels, float]:
    return {series(name, fate=fate, reason=reason): count for (fate, reason), count in fates.items()}


def _patiently(open_it: Callable[[], Opened], error: type[JournalError]) -> Opened:
    """What `open_it` opens, tried again for a minute while it raises `error`."""
    deadline_s = time.monotonic() + OPENS_WITHIN_S
    while True:
        try:
            return open_it()
        except error:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.1)


class _RareGarbageCollection:
    """Looks for cyclic garbage once a minute instead of after so many allocations.

    Live traces are many objects that live for seconds, and judging makes no cycles: looking through them again and
    again cost 9 % of it. What the start made is never looked at again.
    """

    def __init__(self) -> None:
        gc.collect()
        gc.freeze()
        gc.disable()
        self._due_s = time.monotonic() + GARBAGE_EVERY_S

    def collect_when_due(self, now_s: float) -> None:
        """Collect if a minute has passed."""
        if now_s >= self._due_s:
            gc.collect()
            self._due_s = time.monotonic() + GARBAGE_EVERY_S


class _Delivery:
    """The second thread: sinks, alerts, retention of the results journal and the snapshot file."""

    def __init__(self, role: JudgeRole) -> None:
        self._role = role
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._stored = threading.Condition()
        self._failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self, drain_s: float) -> None:
        """Deliver what is there for at most `drain_s` seconds, then let go; the rest waits for the next start."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(drain_s + 10)

    def wait_until_stored(self, end: int, stop: threading.Event) -> None:
        """Return once the store holds every result before `end`, or when `stop` is set."""
        while self._role._stored_position < end and not stop.is_set():
            if self._failure is not None:
                raise self._failure
            self._role._heartbeat.beat(0)
            with self._stored:
                self._stored.wait(0.2)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        except BaseException as error:
            self._failure = error
            self._role.stop()
            raise
        finally:
            self._loop.close()

    async def _main(self) -> None:
        role = self._role
        sinks = self._sinks()
        self._routes = {sink.name: self._route(sink) for sink in sinks}
        role._recent.listen(self._more_results)
        settings = role._config.alerts
        event_clients = self._event_clients()
        events = [AlertEvents(f"exporters.{name}", client, self._loop) for name, client in event_clients.items()]
        alerts = AlertLoop(
            role._store,
            lambda: role._rule_set,
            [*receivers(settings), *events],
            role._telemetry,
            settings,
        )
        halt = asyncio.Event()
        tasks = [asyncio.create_task(route.run(halt)) for route in self._routes.values()]
        tasks += [
            asyncio.create_task(alerts.run(halt)),
            asyncio.create_task(self._every(SNAPSHOT_EVERY_S, role._write_snapshot, halt)),
            asyncio.create_task(self._every(5.0, self._trim, halt)),
            asyncio.create_task(self._delete_old(halt)),
            asyncio.create_task(self._reload_rules(halt)),
            asyncio.create_task(self._keep_rule_texts(halt)),
        ]
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        halt.set()
        self._wake_routes()
        for task in tasks:
            await task  # a failed one raises here, and ends the process with its traceback
        await self._drain()
        for sink in sinks:
            await sink.close()
        for client in event_clients.values():
            await client.close()
        role._write_snapshot()
        stopping.cancel()

    def _more_results(self) -> None:
        with suppress(RuntimeError):  # the loop was closed: a failure is ending the process
            self._loop.call_soon_threadsafe(self._wake_routes)

    def _wake_routes(self) -> None:
        for route in self._routes.values():
            route.wake()

    async def _drain(self) -> None:
        halt = asyncio.Event()
        drains = [asyncio.create_task(route.drain(halt)) for route in self._routes.values()]
        _, unfinished = await asyncio.wait(drains, timeout=DRAIN_AT_STOP_S)
        halt.set()
        for task in unfinished:
            await task

    def _sinks(self) -> list[Sink]:
        role, config = self._role, self._role._config
        instance = role._folder.instance_id()
        sinks: list[Sink] = [SqlSink(role._store), MetricsSink(role._telemetry)]
        for name, settings in config.exporters.items():
            client = OtlpClient(settings, instance)
            sinks.append(OtlpSink(name, settings, client, config.judge.include_values))
        return sinks

    def _event_clients(self) -> dict[str, OtlpClient]:
        """Of each exporter that takes logs, one for alerts: results that wait there do not keep alerts waiting."""
        instance = self._role._folder.instance_id()
        exporters = self._role._config.exporters
        return {
            name: OtlpClient(settings, instance) for name, settings in exporters.items() if settings.takes(Signal.LOGS)
        }

    def _route(self, sink: Sink) -> Route:
        role = self._role
        reader = JournalReader(role._folder.results, telemetry=role._telemetry, name="results")
        position = Position(role._folder.position(f"results.{sink.name}"))
        delivered = self._on_stored if sink.name == "sql" else _ignore
        return Route(sink, reader, position, role._telemetry, role._recent, delivered=delivered)

    def _on_stored(self, position: int) -> None:
        with self._stored:
            self._role._stored_position = position
            self._stored.notify_all()

    def _trim(self) -> None:
        exporters = self._role._config.exporters
        consumers = {
            name: Consumer(route.position, exporters[name].when_full if name in exporters else "refuse")
            for name, route in self._routes.items()
        }
        self._role._results.trim(consumers)

    async def _reload_rules(self, halt: asyncio.Event) -> None:
        interval_s = self._role._config.rules.reload
        while interval_s is not None and not await wait(halt, interval_s):
            if (changed := await asyncio.to_thread(self._role._reload.look)) is not None:
                self._role._changed_rules = changed
        await halt.wait()

    async def _keep_rule_texts(self, halt: asyncio.Event) -> None:
        """What results name by its hash can be read in the store, however the files change later."""
        role, kept = self._role, ""
        while not await wait(halt, KEEP_RULE_TEXTS_EVERY_S):
            rule_set = role._reload.in_force
            if rule_set.hash == kept:
                continue
            try:
                await asyncio.to_thread(_save_rule_texts, role._store, rule_set)
                kept = rule_set.hash
            except SQLAlchemyError as error:
                logger.warning("the rules' texts are not stored, trying again: %s", error)

    async def _delete_old(self, halt: asyncio.Event) -> None:
        """The store's retention, a thousand traces at a time so that the writer never waits long."""
        retention_ns = round(self._role._config.store.retention * 1e9)
        while not await wait(halt, RETENTION_EVERY_S):
            before_ns = time.time_ns() - retention_ns
            while not halt.is_set() and await asyncio.to_thread(delete_older, self._role._store, before_ns) > 0:
                await asyncio.sleep(0.1)

    async def _every(self, seconds: float, action: Callable[[], None], halt: asyncio.Event) -> None:
        while not halt.is_set():
            action()
            await wait(halt, seconds)


def _save_rule_texts(store: Engine, rule_set: RuleSet) -> None:
    with store.begin() as connection:
        save_rule_texts(connection, rule_set, time.time_ns())


def _ignore(position: int) -> None:
    """Nobody waits for this sink."""
