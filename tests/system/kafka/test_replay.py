"""Replay of what lies in Kafka: all of it, or what was first received in a time; by a real Kafka, which gives times."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from kafka.broker import Broker
from kafka.group import LOGS, SPANS

from build.canonical import canonical_line
from build.otlp import Content, payload, spans_of
from pipeline.test_sessions import turn
from tracegrade.cli import main
from waiting import eventually

pytestmark = pytest.mark.long

# A trace may have spans from 2 s after its first one, and no later.
TIMES = {"settle": "100ms", "idle_timeout": "500ms", "max_age": "1s", "reopen_for": "1s"}
STEP_S = 2.5


class Kafka:
    """Both topics, with traces sent to them, and ``replay`` of them."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self._producer = Producer({"bootstrap.servers": broker.address, "partitioner": "fnv1a"})
        self.config = folder / "config.yaml"
        settings = {
            "data_dir": str(folder / "data"),
            "journal": {"kafka": {"brokers": [broker.address]}},
            "store": {"url": "postgresql+psycopg://tracegrade@127.0.0.1:1/none"},
            "traces": TIMES,
            "rules": {"paths": ["builtin:demo"]},
        }
        self.config.write_text(json.dumps(settings))

    def send(self, trace: int, contents: list[Content]) -> None:
        self._producer.produce(SPANS, payload(spans_of(contents)), f"{trace:032x}")
        assert self._producer.flush(20) == 0

    def send_bytes(self, value: bytes) -> None:
        self._producer.produce(SPANS, value, f"{1:032x}")
        assert self._producer.flush(20) == 0

    def replay(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["replay", "-c", str(self.config), "--format", "json", *arguments])

    def traces(self, *arguments: str) -> set[int]:
        """Those whose results are shown."""
        done = self.replay(*arguments)
        assert done.exit_code == 0, done.stderr
        return {int(json.loads(line)["trace_id"], 16) for line in done.stdout.splitlines()}


@pytest.fixture(scope="module")
def kafka(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Kafka:
    broker.create_topic(SPANS, 4)
    broker.create_topic(LOGS, 4)
    return Kafka(broker, tmp_path_factory.mktemp("replay"))


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")


def _wait_until(at_s: float) -> None:
    eventually(lambda: time.time() >= at_s, f"{_time(at_s)}")


def test_a_range_has_the_traces_that_were_first_received_in_it(kafka: Kafka) -> None:
    begun_s = time.time()
    marks = [begun_s + STEP_S * step for step in range(4)]
    agent, call = turn(1, "chat", "find_order", 1000)
    sent: dict[int, list[Content]] = {2: turn(2, "chat", "refund", 2000), 3: turn(3, "chat", "refund", 3000)}
    kafka.send(2, sent[2])
    _wait_until(marks[1] - 0.3)
    kafka.send(1, [agent])
    _wait_until(marks[1] + 0.2)
    kafka.send(1, [call])  # of a trace that was first received before the mark
    _wait_until(marks[2] + 0.2)
    kafka.send(3, sent[3])
    kafka.send_bytes(b"no request")
    assert kafka.traces() == {1, 2, 3}
    assert kafka.traces("--since", _time(marks[1])) == {3}
    assert kafka.traces("--until", _time(marks[2])) == {1, 2}
    assert kafka.traces("--since", _time(marks[1] - 1), "--until", _time(marks[2])) == {1}
    assert kafka.traces("--since", _time(time.time() + 60)) == set()
    whole = _of(kafka.replay(), 1)
    assert whole
    assert _of(kafka.replay("--since", _time(marks[1] - 1), "--until", _time(marks[1])), 1) == whole, "its late call"


def test_what_no_judge_could_read_is_counted(kafka: Kafka) -> None:
    assert "Warning: left out 1 message that judges cannot read either" in kafka.replay().stderr


def _of(done: Result, trace: int) -> list[str]:
    found = map(json.loads, done.stdout.splitlines())
    return sorted(canonical_line(line) for line in found if int(line["trace_id"], 16) == trace)
