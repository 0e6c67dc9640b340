"""Judges of a Kafka that is a mock in this process: librdkafka's, which keeps the sender's times."""

import math
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import Producer

from build.harness import Store
from journal.kafka.librdkafka import begin_groups_at_once
from tracegrade.assemble.closed_traces import ClosedTrace, ClosedTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.assemble.share import Share, Shares, share_of
from tracegrade.codec.results import encode_result
from tracegrade.config import RulesSettings
from tracegrade.journal.kafka.settings import KafkaSettings
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.settings import JournalSettings
from tracegrade.model.session import session_trace_id
from tracegrade.model.trace import TraceKey
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.watched_judge import Watchdog
from tracegrade.serve.judging.deletions import JudgeDeletions
from tracegrade.serve.judging.hand_over import MemoryHandOver
from tracegrade.serve.judging.kafka.records import KafkaRecords
from tracegrade.serve.judging.kafka.sessions import KafkaSessions
from tracegrade.serve.judging.kafka.source import KafkaSource
from tracegrade.serve.judging.loop import JudgeLoop, JudgingParts
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.serve.judging.results_writer import ResultsWriter
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.store.several_processes import SessionTurn
from waiting import eventually

SPANS, LOGS = "otlp_spans", "otlp_logs"
PARTITIONS = 4  # of every topic of the mock
QUICK = TracesSettings(settle="200ms", idle_timeout="400ms", max_age="5s", reopen_for="5s")


class MockKafka:
    """One broker. Topics exist once they are named."""

    def __init__(self) -> None:
        self._producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "partitioner": "fnv1a"})
        begin_groups_at_once(self._producer)
        brokers = self._producer.list_topics(timeout=600).brokers.values()
        self.address = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
        for topic in (SPANS, LOGS):
            self._producer.list_topics(topic, timeout=600)

    def settings(self, name: str = "a") -> KafkaSettings:
        """Those of one judge."""
        quick = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 100}
        return KafkaSettings(brokers=[self.address], instance_id=name, clock_skew="0s", client=quick)

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None = None, **headers: bytes
    ) -> tuple[int, int]:
        """Produce one message. Returns its partition and offset, once the broker has it."""
        taken: list[tuple[int, int]] = []

        def delivered(error: object, message: object) -> None:
            assert error is None, error
            taken.append((message.partition(), message.offset()))  # type: ignore[attr-defined]

        where = {} if partition is None else {"partition": partition}
        self._producer.produce(topic, value, key, on_delivery=delivered, headers=list(headers.items()), **where)
        self._producer.flush(10)
        return taken[0]


def key_of(trace: int) -> bytes:
    """The key of messages of this trace."""
    return f"{trace:032x}".encode()


class SharedStore(Store):
    """The store that judges share, in memory: with turns as PostgreSQL keeps them, and judges' clocks."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: dict[tuple[str, str, bytes], SessionTurn] = {}
        self.deliveries: list[Delivery] = []
        self.looks = 0  # how often turns were asked for
        self._changing = threading.RLock()

    def add(self, result: TraceResult) -> None:
        """Store a result, and note the turns of its sessions, at once."""
        trace = result.trace
        key = (trace.tenant, trace.own_id)
        with self._changing:
            before = self.traces.get(key)
            self.write(encode_result(result))
            if trace.members is None and (before is None or before.trace.revision < trace.revision):
                for name in {*trace.sessions, *(before.trace.sessions if before is not None else ())}:
                    turn = SessionTurn(trace.tenant, name, trace.own_id, trace.revision, trace.closed_ns)
                    self.noted[turn[:3]] = turn

    def lookup(self, keys: Iterable[TraceKey]) -> Mapping[TraceKey, ClosedTrace]:
        """As of one moment."""
        with self._changing:
            return super().lookup(keys)

    def turns(self, of: int, shares: Collection[int], limit: int) -> list[SessionTurn]:
        """As `StoredTraces`."""
        with self._changing:
            self.looks += 1
            found = sorted(self.noted.values(), key=lambda turn: turn.closed_ns)
        return [turn for turn in found if share_of(session_trace_id(turn.tenant, turn.session), of) in shares][:limit]

    def forget_turns(self, turns: Iterable[SessionTurn]) -> None:
        """As `StoredTraces`."""
        with self._changing:
            for turn in turns:
                if self.noted.get(turn[:3]) == turn:
                    del self.noted[turn[:3]]

    def judged_by_all_ns(self) -> int:
        """As `StoredTraces`."""
        return min(delivery.stored_to_ns() for delivery in self.deliveries)


class Delivery(MemoryHandOver):
    """Takes results and confirms them when it is told to."""

    def __init__(self, store: SharedStore) -> None:
        super().__init__(0)
        self.results: list[TraceResult] = []
        self.end = 0
        self.takes = math.inf  # so many results in all; with one that is more, it waits for `take`
        self._store = store
        self._taken = 0
        store.deliveries.append(self)

    def add(self, batch: Sequence[TraceResult], end: int) -> None:
        """As in `HandOver`."""
        self.results += batch
        self.end = end
        if len(self.results) <= self.takes:
            self.take()

    def take(self) -> None:
        """Every sink has everything so far."""
        while self._taken < len(self.results):
            self._store.add(self.results[self._taken])
            self._taken += 1
        self.store_holds(self.end)
        self.confirm(self.end)


class KafkaJudge:
    """One judge in a thread, over a folder of its own."""

    def __init__(
        self,
        kafka: MockKafka,
        folder: Path,
        name: str = "a",
        traces: TracesSettings = QUICK,
        store: SharedStore | None = None,
        rules: Sequence[str] = ("builtin:demo",),
    ) -> None:
        store = store or SharedStore()
        self.delivery = Delivery(store)
        self.folder = DataFolder(folder)
        self.metrics = JudgeMetrics(self.folder)
        self.heartbeat = Heartbeat(self.folder.heartbeat("judge"))
        journal = LocalJournal.open(self.folder.path / "results", JournalSettings(), name="results", clocked=False)
        self.writer = ResultsWriter(journal, self.delivery, self.heartbeat, "hash", traces.max_live_spans)
        self.delivery.end = journal.end
        self.delivery.take()
        reload = RuleReload(RulesSettings(paths=list(rules)), self.metrics.telemetry)

        def new_judge(parts: int, number: int) -> RecordJudge:
            aside = self.folder.set_aside.load()
            return RecordJudge(
                traces.shared_by(parts),
                reload.in_force,
                ClosedTraces(store.lookup, lookup_session=store.session),
                watchdog=Watchdog(positions=aside.positions, heartbeat=self.heartbeat),
                shares=Shares(other_sessions=Share(number, PARTITIONS)),
            )

        self._journal = journal
        settings = kafka.settings(name)
        parts = JudgingParts(
            self.writer,
            self.delivery,
            self.heartbeat,
            self.metrics,
            reload,
            JudgeDeletions(self.folder),
            self.folder.set_aside,
        )
        records = KafkaRecords(settings, 100_000, 4_000_000, self.metrics.telemetry)
        self.source = KafkaSource(parts, settings, 0, new_judge, records, traces.max_live_spans)
        self.loop = JudgeLoop(parts, self.source, KafkaSessions(store, PARTITIONS))
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def revisions(self) -> dict[str, int]:
        """Trace id -> the highest revision judged."""
        found: dict[str, int] = {}
        for result in [*self.delivery.results]:
            found[result.trace.trace_id] = max(result.trace.revision, found.get(result.trace.trace_id, 0))
        return found

    def value(self, metric: str, **labels: str) -> float:
        """Of a metric, now."""
        return self.metrics.telemetry.value(metric, **labels)

    def has_partitions(self) -> bool:
        """Whether the group has given it some."""
        return bool(self.source.judges)

    def wait_for(self, **revisions: int) -> None:
        """Until these traces were judged, in these revisions; ``t7=2`` is trace 7 in revision 2."""
        wanted = {f"{int(name[1:]):032x}": revision for name, revision in revisions.items()}
        eventually(lambda: self._error or wanted.items() <= self.revisions.items(), f"{wanted}, has {self.revisions}")
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop in order."""
        self.delivery.stopping.set()
        self._thread.join()
        assert not self._thread.is_alive()
        self._journal.close()
        self.heartbeat.close()

    def _run(self) -> None:
        try:
            while not self.delivery.stopping.is_set():
                self.loop.run()
        except BaseException as error:
            self._error = error
