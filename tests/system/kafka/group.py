"""A receive role, judges and a sender over one Kafka, and what they made of what was sent."""

import heapq
import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from kafka.broker import Broker
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from reliability.load import order_trace

from build.otlp import payload
from build.served import TRACES
from tracegrade.pipeline.data_folder import DataFolder
from waiting import eventually

SPANS, LOGS = "otlp_spans", "otlp_logs"
TRACES_AT_ONCE = 5  # in a request; they are the turns of one session
SESSION_QUIET_S = 3.0
UNDER_WAY = 16  # requests that are not answered yet
_TRIED_FOR_S = 15.0
_BEHIND_S = 1.0
SETTLE_S = 1.0


def settings(broker: Broker, store: str, lasts_s: float = 0.6, **kafka: Any) -> dict[str, Any]:
    """What the receive role and judges have in common, for traces that last so long."""
    return {
        "journal": {"kafka": {"brokers": [broker.address], **kafka}},
        "store": {"url": store},
        "traces": {
            "settle": f"{SETTLE_S:g}s",
            "idle_timeout": f"{lasts_s + 3.4:g}s",
            "session_quiet": f"{SESSION_QUIET_S:g}s",
        },
        "rules": {"paths": ["builtin:demo"]},
    }


def write_session_rule(folder: Path) -> str:
    """A rule that shows all calls of a session in its result. Returns its path."""
    rule = {
        "id": "of-sessions",
        "scope": "session",
        "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["validate_user", "create_order"]}],
    }
    path = folder / "of-sessions.rule.yaml"
    path.write_text(json.dumps(rule))
    return str(path)


_LOGGED = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) judge INFO \S+: (judging partitions \d|caught up)", re.M)


class Recovery(NamedTuple):
    """What a judge did after a start, by its log: s until it had partitions, and from then until it had caught up."""

    joined_s: float
    caught_up_s: float


class Judge:
    """One judge with a data folder of its own, started again after each kill."""

    def __init__(self, folder: Path, name: str, common: dict[str, Any], **environment: str) -> None:
        self.name = name
        self._environment = os.environ | environment
        self.folder = folder / name
        self.folder.mkdir()
        self.log = self.folder / "log"
        self.config = self.folder / "config.yaml"
        common = json.loads(json.dumps(common))
        common["journal"]["kafka"]["instance_id"] = name
        self.config.write_text(
            json.dumps(common | {"data_dir": str(self.folder / "data"), "telemetry": {"endpoint": "127.0.0.1:0"}})
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._starts_s: list[float] = []

    def start(self) -> None:
        """Start it; it joins the group by itself."""
        self._starts_s.append(time.time())
        command = [sys.executable, "-m", "tracegrade", "serve", "-c", str(self.config), "--role", "judge"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self._environment
            )

    @property
    def pid(self) -> int:
        """Of its process, which runs."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait()

    def keep(self) -> None:
        """Start it again if it ended by itself, as a supervisor does."""
        if self._process is not None and self._process.poll() is not None:
            self.start()

    def has_partitions(self) -> bool:
        """Whether it reads some, since its last start."""
        return bool(self.lags(round(self._starts_s[-1] * 1e9)))

    def recoveries(self) -> Iterator[Recovery]:
        """After each start, unless it was killed before it had caught up."""
        logged = [(datetime.fromisoformat(at).timestamp(), what) for at, what in _LOGGED.findall(self.log.read_text())]
        for start_s, end_s in zip(self._starts_s, [*self._starts_s[1:], float("inf")], strict=True):
            found = [(at_s, what) for at_s, what in logged if start_s <= at_s < end_s]
            done = [at_s for at_s, what in found if what == "caught up"]
            if found and done:
                yield Recovery(found[0][0] - start_s, done[0] - found[0][0])

    def lags(self, since_ns: int) -> dict[int, float]:
        """Partition -> lag in s, as its newest snapshot says; empty while that is older than `since_ns`."""
        snapshot = DataFolder(self.folder / "data").read_snapshot("judge")
        if snapshot is None or snapshot["time_ns"] < since_ns:
            return {}
        points = snapshot["metrics"].get("tracegrade.kafka.lag", [])
        return {int(point["labels"]["partition"]): point["value"] for point in points}


class Sender(threading.Thread):
    """Sends traces at a steady rate: each in two requests, some with a duplicate, some with a span that comes late.

    Each request goes to any of the endpoints: so the parts of most traces come by two ways where there are two.
    """

    def __init__(self, endpoints: Sequence[str], traces_a_second: float, lasts_s: float = 0.6) -> None:
        """`lasts_s`: the second request of a trace comes so long after the first, at most."""
        super().__init__(daemon=True)
        self.answered: dict[int, list[Any]] = {}  # trace -> its spans
        self.retries = 0
        self.traces_a_second = traces_a_second
        self._endpoints = endpoints
        self._lasts_s = lasts_s
        self._random = random.Random(20)
        self._ending = threading.Event()
        self._due: list[tuple[float, int, list[Any]]] = []
        self._waiting: queue.Queue[tuple[Any, list[Any]]] = queue.Queue(1)
        self._error: BaseException | None = None
        self._count = 0

    def run(self) -> None:
        """Until `end` is called and all that was begun is sent."""
        following = 1
        next_s = time.monotonic()
        with ExitStack() as opened:
            channels = [opened.enter_context(grpc.insecure_channel(endpoint)) for endpoint in self._endpoints]
            exports = [channel.unary_unary(TRACES) for channel in channels]
            for _ in range(UNDER_WAY):  # daemons: after a failed test they would try again for ever
                threading.Thread(target=self._send_waiting, daemon=True).start()
            while self._due or not self._ending.is_set():
                now_s = time.monotonic()
                if now_s >= next_s and not self._ending.is_set():
                    self._begin(range(following, following + TRACES_AT_ONCE), now_s)
                    following += TRACES_AT_ONCE
                    next_s = max(next_s + TRACES_AT_ONCE / self.traces_a_second, now_s - 5)
                if self._due and self._due[0][0] <= now_s:
                    spans = heapq.heappop(self._due)[2]
                    self._waiting.put((self._random.choice(exports), spans))
                else:
                    self._ending.wait(0.005)
                if self._error is not None:
                    raise self._error
            self._waiting.join()

    def end(self) -> None:
        """Begin no trace any more, and wait until all are sent."""
        self._ending.set()
        self.join()
        assert not self.is_alive()

    def _send_waiting(self) -> None:
        while True:
            export, spans = self._waiting.get()
            try:
                self._send(export, spans)
            except BaseException as error:
                self._error = error
            self._waiting.task_done()

    def _begin(self, traces: range, now_s: float) -> None:
        first: list[Any] = []
        second: list[Any] = []
        session = f"chat-{traces.start}"
        for trace in traces:
            root, *calls = order_trace(trace)
            root.attributes.append(KeyValue(key="gen_ai.conversation.id", value=AnyValue(string_value=session)))
            kind = self._random.random()
            if kind < 0.1:  # a span comes when the trace was judged without it
                self._later(now_s + self._lasts_s + 2 * SETTLE_S + 1, calls[-1:])
                calls = calls[:-1]
            elif kind < 0.2:
                second += calls[:1]
            first += calls
            second.append(root)
        self._later(now_s, first)
        self._later(now_s + self._random.random() * self._lasts_s, second)

    def _later(self, due_s: float, spans: list[Any]) -> None:
        self._count += 1
        heapq.heappush(self._due, (due_s, self._count, spans))

    def _send(self, export: Any, spans: list[Any]) -> None:
        request = payload(spans)
        while True:
            try:
                export(request)
                break
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    raise
                self.retries += 1
                self._ending.wait(0.5)
        for span in spans:
            self.answered.setdefault(int.from_bytes(span.trace_id, "big"), []).append(span)


def saturating_rate(sender: Sender, judges: list[Judge], partitions: int) -> float:
    """The rate, in traces a second, at which something falls behind: doubled each time, for some seconds.

    The sender sends at that rate then. What falls behind may be the sender itself, since all share one machine.
    """
    rate = sender.traces_a_second
    while True:
        sender.traces_a_second = rate
        begun_s, before, end_s = time.monotonic(), len(sender.answered), time.monotonic() + _TRIED_FOR_S
        eventually(lambda end_s=end_s: time.monotonic() > end_s, "some seconds", within_s=_TRIED_FOR_S + 60)
        sent = (len(sender.answered) - before) / (time.monotonic() - begun_s)
        lags = {number: lag for judge in judges for number, lag in judge.lags(0).items()}
        if sent < 0.85 * rate or len(lags) < partitions or max(lags.values()) > _BEHIND_S:
            return min(rate, sent)
        rate *= 2


def write_all(sender: Sender, path: Path) -> None:
    """Everything that was answered, as a file that replay reads."""
    request = ExportTraceServiceRequest()
    for spans in sender.answered.values():
        request.MergeFromString(payload(spans))
    path.write_bytes(request.SerializeToString())


def stored(store: str) -> dict[int, tuple[int, int, int]]:
    """Trace -> its spans, its evaluations, and how many of those differ, as they are in the store."""
    import psycopg  # an extra

    with psycopg.connect(store.replace("+psycopg", "")) as connection:
        rows = connection.execute(
            "SELECT t.trace_id, t.span_count, count(*), count(DISTINCT e.place) FROM traces t "
            "JOIN evaluations e ON e.trace = t.number WHERE t.members IS NULL "
            "GROUP BY t.number, t.trace_id, t.span_count"
        ).fetchall()
        doubled = [trace_id for trace_id, count in Counter(row[0] for row in rows).items() if count > 1]
        assert not doubled, f"stored twice: {[trace_id.hex() for trace_id in doubled]}"
    return {int.from_bytes(trace_id, "big"): (spans, all_, distinct) for trace_id, spans, all_, distinct in rows}


def stored_sessions(store: str) -> dict[str, tuple[int, bool, int]]:
    """Session -> its traces, whether it is complete, and how many evaluations it has, as they are in the store."""
    import psycopg

    with psycopg.connect(store.replace("+psycopg", "")) as connection:
        rows = connection.execute(
            "SELECT t.session, t.members, t.complete, count(*) FROM traces t JOIN evaluations e ON e.trace = t.number "
            "WHERE t.members IS NOT NULL GROUP BY t.number, t.session, t.members, t.complete"
        ).fetchall()
    assert len({row[0] for row in rows}) == len(rows), "a session is stored twice"
    return {name: (len(json.loads(members)), complete, count) for name, members, complete, count in rows}


def new_database(server: str, name: str) -> str:
    """An empty database of the server that `server`, an SQLAlchemy address, is on."""
    import psycopg

    with psycopg.connect(server.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    return server.rpartition("/")[0] + f"/{name}"


def wait_for_lag(judges: list[Judge], partitions: int, below_s: float) -> float:
    """How many seconds it takes until all partitions are read with less lag, from now on."""
    begun_ns = time.time_ns()
    shown: dict[int, float] = {}

    def is_low() -> bool:
        shown.clear()
        for judge in judges:
            judge.keep()
            shown.update(judge.lags(begun_ns))
        return len(shown) == partitions and max(shown.values()) < below_s

    eventually(is_low, f"lag below {below_s} s in all partitions", every_s=0.1)
    return (time.time_ns() - begun_ns) / 1e9
