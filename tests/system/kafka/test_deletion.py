"""A deletion asked for at one judge's data folder reaches what another judge has, also spans that come later."""

import os
import subprocess
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest
from kafka.broker import Broker
from kafka.group import LOGS, SPANS, Judge, new_database, settings, stored, wait_for_lag

from build.otlp import agent_span, payload, tool_span
from build.served import Server, export
from tracegrade.codec.results import decode_result, is_erased
from tracegrade.deletion.request import Deletions
from tracegrade.journal.reader import JournalReader
from waiting import eventually

POSTGRESQL = os.environ.get("TRACEGRADE_TEST_POSTGRESQL", "") if find_spec("psycopg") else ""
PARTITIONS = 4

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not POSTGRESQL,
        reason="needs pip install -e '.[postgresql]' and TRACEGRADE_TEST_POSTGRESQL=postgresql+psycopg://...",
    ),
]


def _judged(judge: Judge) -> set[int]:
    """The traces of which its results journal has a result."""
    reader = JournalReader(judge.folder / "data" / "results")
    try:
        records = reader.read(reader.first(), max_bytes=1 << 30)
    finally:
        reader.close()
    return {int(decode_result(each.payload).trace.trace_id, 16) for each in records if not is_erased(each.payload)}


def test_what_is_deleted_at_one_judge_is_gone_from_all(broker: Broker, tmp_path: Path, at_end: ExitStack) -> None:
    store = new_database(POSTGRESQL, "kafka_deletion")
    for topic in (SPANS, LOGS):
        broker.create_topic(topic, PARTITIONS)
    common = settings(broker, store)
    (tmp_path / "receive").mkdir()
    receiver = Server(tmp_path / "receive", **common)
    receiver.start(role="receive")
    at_end.callback(receiver.kill)
    asked, other = judges = [Judge(tmp_path, f"judge-{number}", common) for number in range(2)]
    for judge in judges:
        judge.start()
        at_end.callback(judge.kill)
    wait_for_lag(judges, PARTITIONS, 1.0)

    def send(trace: int, span: int) -> None:
        call = tool_span(trace, span, 1, "create_order")
        export(receiver.endpoints["grpc"], payload([agent_span(trace, 1), call]))

    for trace in range(1, 13):
        send(trace, 2)
    eventually(lambda: len(stored(store)) == 12, "all in the store")
    trace = min(_judged(other))
    command = [sys.executable, "-m", "tracegrade", "traces", "delete", f"{trace:032x}", "--yes"]
    deleted = subprocess.run([*command, "-c", str(asked.config)], capture_output=True, text=True, check=False)
    assert deleted.returncode == 0, deleted.stderr
    eventually(lambda: trace not in _judged(other), "nothing at the other one")
    assert trace.to_bytes(16, "big") in Deletions(other.folder / "data").tombstones()
    send(trace, 3)
    send(20, 2)
    eventually(lambda: 20 in stored(store), "what came after it")
    assert set(stored(store)) == {*range(1, 13), 20} - {trace}
    assert trace not in _judged(other)
