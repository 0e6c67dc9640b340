"""Disk, journal and processes."""

from pathlib import Path
from typing import Any

import pytest

from build import each
from tracegrade.config import Config
from tracegrade.doctor import installation
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry, Signal
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.telemetry.metrics import Telemetry


def config(folder: Path, **journal: Any) -> Config:
    return Config.model_validate({"data_dir": str(folder), "journal": journal})


def test_a_disk_with_less_room_than_the_journal_may_take_is_a_warning(tmp_path: Path) -> None:
    assert [found.level for found in installation.disk(config(tmp_path, max_size_mib=64))] in (["ok"], ["error"])
    (found,) = installation.disk(config(tmp_path, max_size_mib=2**40))
    assert found.level in ("warning", "error")


@each(("mode", "level"), [(0o755, "warning"), (0o701, "warning"), (0o750, "note"), (0o700, None)])
def test_a_data_folder_that_others_can_read_is_named(mode: int, level: str | None, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    assert [found.level for found in installation.privacy(config(tmp_path))] == ([level] if level else [])


def test_a_consumer_that_is_behind_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_BEHIND_BYTES", 1000)
    folder = DataFolder(tmp_path)
    journal = LocalJournal.open(folder.journal)
    try:
        for size in (10, 5000):
            end = journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 1, b"x" * size)).result()
        reader = JournalReader(folder.journal)
        found = list(installation.journal(config(tmp_path), folder, reader))
        assert [(item.level, item.where) for item in found] == [("ok", ""), ("warning", "judge")]
        position = Position(folder.position("judge"))
        position.commit(end)
        position.close()
        assert [item.level for item in installation.journal(config(tmp_path), folder, reader)] == ["ok"]
        reader.close()
    finally:
        journal.close()


def test_what_the_judge_lost_is_told(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    assert [(found.level, found.advice) for found in installation.processes(folder)] == [("note", "tracegrade serve")]
    telemetry = Telemetry("judge")
    telemetry.add("tracegrade.spans", 5, fate="judged", reason="")
    telemetry.add("tracegrade.spans", 7, fate="too_late", reason="")
    telemetry.add("tracegrade.spans", 8, fate="dropped", reason="span_cap")
    telemetry.add("tracegrade.spans", 9, fate="dropped", reason="ignored_scope")
    telemetry.add("tracegrade.sink.dropped_records", 2, sink="otlp", reason="rejected")
    folder.write_snapshot("judge", telemetry.snapshot())
    folder.set_aside.add_pair("ab" * 16, "slow-rule", "hung")
    folder.set_aside.add_pair("ab" * 16, "large-rule", "crashed: SIGKILL")
    folder.set_aside.add_pair("ab" * 16, "broken-rule", "crashed: SIGSEGV")
    found = {(item.check, item.level, item.where): item for item in installation.processes(folder)}
    assert set(found) == {
        ("judge", "error", "slow-rule"),
        ("judge", "error", "large-rule"),
        ("judge", "error", "broken-rule"),
        ("judge", "ok", ""),
        ("too late", "warning", ""),
        ("dropped", "warning", "span_cap"),
        ("judge", "warning", "otlp"),
    }
    assert "(hung)" in found["judge", "error", "slow-rule"].found
    assert "memory" in found["judge", "error", "large-rule"].advice
    assert "(crashed: SIGSEGV)" in found["judge", "error", "broken-rule"].found
    assert found["dropped", "warning", "span_cap"].advice == "set traces.max_spans_per_trace higher"


def test_what_is_wrong_now_is_told_of_processes_that_run(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    receive, judge = Telemetry("receive"), Telemetry("judge")
    receive.conditions.begin("disk_failing", "the disk is full", "journal")
    judge.conditions.begin("store_unavailable", "no answer")
    folder.write_published([receive.snapshot(), judge.snapshot()])
    first, second = installation.conditions(folder)
    assert (first.check, first.level, first.where) == ("disk failing", "error", "journal")
    assert first.found.startswith("the disk is full; since 20")
    assert (second.check, second.level, second.where) == ("store unavailable", "warning", "judge")
    assert second.advice
    old = [role.snapshot() for role in (receive, judge)]
    for snapshot in old:
        snapshot["time_ns"] -= 3_600_000_000_000
    folder.write_published(old)
    assert list(installation.conditions(folder)) == []


def test_a_judge_that_is_down_is_not_said_to_run(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    receive, judge = Telemetry("receive"), Telemetry("judge")
    folder.write_snapshot("judge", judge.snapshot())  # it tries to start, and ends again
    assert [found.found for found in installation.processes(folder)] == ["running"]
    receive.conditions.begin("judge_down", "it cannot start yet")
    folder.write_published([receive.snapshot(), judge.snapshot()])
    assert list(installation.processes(folder)) == []


def test_a_judge_that_said_nothing_for_long_is_not_running(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    snapshot = Telemetry("judge").snapshot()
    snapshot["time_ns"] -= 3_600_000_000_000
    folder.write_snapshot("judge", snapshot)
    (found,) = installation.processes(folder)
    assert found.found.startswith("not running: its last sign of life was 36")


@pytest.mark.parametrize(
    ("lags", "level", "where", "found"),
    [
        ({"0": 0.0, "3": 0.4}, "ok", "", "2 partitions read with less than 5 s of lag"),
        ({"0": 9.0, "3": 61.0, "5": 0.0}, "warning", "partition 3", "61 s behind, the most of 3 partitions"),
    ],
)
def test_how_far_a_judge_of_kafka_is_behind_is_told_in_seconds(
    lags: dict[str, float], level: str, where: str, found: str, tmp_path: Path
) -> None:
    folder = DataFolder(tmp_path)
    telemetry = Telemetry("judge")
    for partition, lag in lags.items():
        telemetry.set("tracegrade.kafka.lag", lag, partition=partition)
    telemetry.add("tracegrade.kafka.malformed", 2, topic="otlp_spans", reason="no_key")
    folder.write_snapshot("judge", telemetry.snapshot())
    running, malformed, lag = installation.processes(folder)
    assert running.level == "ok"
    assert (malformed.where, malformed.found) == ("otlp_spans", "2 messages were malformed since its start")
    assert (lag.check, lag.level, lag.where, lag.found) == ("lag", level, where, found)
