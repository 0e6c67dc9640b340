"""What ends the judge is suspected, then set aside, passed over, and read again when somebody asks."""

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build.canonical import canonical_line
from build.harness import batches_of, records
from build.otlp import Content, agent_span, otlp_span, payload, spans_of, tool_span
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry, Record
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.heartbeat import Beat, Heartbeat, read_heartbeat
from tracegrade.pipeline.judged import evaluations_of
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.replay import replay_records
from tracegrade.pipeline.set_aside import Aside, SetAside, SetAsideRecord
from tracegrade.pipeline.watched_judge import Watchdog
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule_set import RuleSet
from tracegrade.serve.supervising.judge_process import note_what_ended_the_last
from tracegrade.telemetry.conditions import Conditions

SETTINGS = TracesSettings(settle="1s", idle_timeout="3s", max_age="20s")


@pytest.fixture(scope="module")
def rule_set() -> RuleSet:
    return load_rules(["builtin:demo"])


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    """With a journal of three records, of 1, 2 and 3 spans; they begin at `places(folder)`."""
    folder = DataFolder(tmp_path)
    journal = LocalJournal.open(folder.journal)
    for spans in (1, 2, 3):
        request = payload([otlp_span(spans, number) for number in range(1, spans + 1)])
        journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", spans, request)).result()
    journal.close()
    return folder


def journalled(folder: DataFolder) -> list[Record]:
    reader = JournalReader(folder.journal)
    try:
        return reader.read(0)
    finally:
        reader.close()


def at(position: int) -> Beat:
    """The last beat of a judge that ended while it read the record at `position`."""
    return Beat(1, 0, position, None, None)


def test_the_second_death_at_a_record_sets_it_aside_with_its_request(folder: DataFolder) -> None:
    _, second, _ = journalled(folder)
    folder.set_aside.note_death(at(second.position), "hung")
    assert folder.set_aside.load().records == []
    assert folder.set_aside.load().suspects("judge") == [second.position]
    folder.set_aside.note_death(at(second.position), "SIGKILL")
    aside = folder.set_aside.load()
    (record,) = aside.records
    assert (record.position, record.end, record.items, record.signal, record.reason, record.what) == (
        second.position,
        second.end,
        2,
        "traces",
        "SIGKILL",
        "2 spans",
    )
    assert aside.suspects("judge") == []
    path = folder.set_aside.request_path(record)
    assert path is not None
    assert gzip.decompress(path.read_bytes()) == second.payload


def test_a_judge_that_gets_past_a_suspected_record_clears_it(folder: DataFolder) -> None:
    first, second, third = journalled(folder)
    folder.set_aside.note_death(at(second.position), "SIGKILL")
    folder.set_aside.passed(second.position)
    assert folder.set_aside.load().suspects("judge") == [second.position]
    folder.set_aside.passed(second.end)
    assert folder.set_aside.load().suspects("judge") == []
    folder.set_aside.note_death(at(second.position), "SIGKILL")
    folder.set_aside.note_death(at(third.position), "SIGKILL")
    folder.set_aside.note_death(at(first.position), "SIGKILL")
    assert folder.set_aside.load().records == []


def test_what_retention_has_deleted_is_not_set_aside(folder: DataFolder) -> None:
    for _ in range(2):
        folder.set_aside.note_death(at(10**9), "hung")
    assert folder.set_aside.load() == Aside()


def test_a_trace_that_ends_two_judges_before_any_rule_is_set_aside_whole(folder: DataFolder) -> None:
    beat = Beat(1, 0, None, "ab" * 16, None)
    folder.set_aside.note_death(beat, "SIGSEGV")
    assert folder.set_aside.load().traces == frozenset()
    folder.set_aside.note_death(beat, "SIGSEGV")
    assert folder.set_aside.load().traces == {bytes.fromhex("ab" * 16)}
    folder.set_aside.retry_trace("ab" * 16)
    assert folder.set_aside.load().pairs == {}
    with pytest.raises(TraceGradeError):
        folder.set_aside.retry_trace("ab" * 16)


def test_a_death_between_records_and_traces_is_nobodys_fault(folder: DataFolder) -> None:
    for _ in range(5):
        folder.set_aside.note_death(Beat(1, 5, None, None, None), "SIGKILL")
    assert folder.set_aside.load() == Aside()


def test_deaths_are_counted_when_everything_was_killed_and_once_each(folder: DataFolder) -> None:
    _, second, _ = journalled(folder)
    for deaths in (1, 2):
        heartbeat = Heartbeat(folder.heartbeat("judge"))
        heartbeat.reading(second.position)
        heartbeat.close()
        for _ in range(3):  # starts of a keeper that does not get as far as starting a judge
            note_what_ended_the_last(DataFolder(folder.path))
        assert len(folder.set_aside.load().records) == deaths - 1


def test_a_look_into_the_store_is_not_the_records_fault(tmp_path: Path) -> None:
    heartbeat = Heartbeat(tmp_path / "beat")
    heartbeat.reading(42)
    with heartbeat.elsewhere():
        beat = read_heartbeat(tmp_path / "beat")
        assert beat is not None
        assert (beat.record, beat.trace_id) == (None, None)
    beat = read_heartbeat(tmp_path / "beat")
    assert beat is not None
    assert beat.record == 42
    heartbeat.working(b"t" * 16)
    beat = read_heartbeat(tmp_path / "beat")
    assert beat is not None
    assert (beat.record, beat.trace_id, beat.rule_id) == (None, (b"t" * 16).hex(), None)
    heartbeat.close()


def set_second_aside(folder: DataFolder) -> SetAsideRecord:
    _, second, _ = journalled(folder)
    for _ in range(2):
        folder.set_aside.note_death(at(second.position), "hung")
    (record,) = folder.set_aside.load().records
    return record


def test_what_is_asked_for_goes_to_the_journals_end_for_the_judge_alone(folder: DataFolder) -> None:
    record = set_second_aside(folder)
    with pytest.raises(TraceGradeError):
        folder.set_aside.ask_to_retry(record.position + 1)
    folder.set_aside.ask_to_retry(record.position)
    journal = LocalJournal.open(folder.journal)
    done = folder.set_aside.retry(lambda entry: journal.append(entry).result())
    assert folder.set_aside.retry(lambda entry: journal.append(entry).result()) == []
    journal.close()
    assert [again.position for again in done] == [record.position]
    last = journalled(folder)[-1]
    assert last.payload == journalled(folder)[1].payload
    assert last.encoding is Encoding.READ_AGAIN
    aside = folder.set_aside.load()
    assert aside.waiting == []
    assert aside.positions == {record.position}  # where it stood it stays passed over
    assert folder.set_aside.request_path(record) is None
    folder.set_aside.forget(record.end - 1)
    assert folder.set_aside.load().positions == {record.position}
    folder.set_aside.forget(record.end)
    assert folder.set_aside.load().positions == frozenset()


def test_a_deletion_takes_the_request_with_it(folder: DataFolder) -> None:
    record = set_second_aside(folder)
    folder.set_aside.erase({bytes(15) + b"\x09"})
    assert folder.set_aside.request_path(record) is not None
    folder.set_aside.erase({bytes(15) + b"\x02"})
    assert folder.set_aside.request_path(record) is None
    with pytest.raises(TraceGradeError):
        folder.set_aside.ask_to_retry(record.position)


def test_no_more_is_kept_than_the_bound(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.pipeline.set_aside.MAX_KEPT_BYTES", 1)
    first, second, _ = journalled(folder)
    for position in (first.position, second.position):
        for _ in range(2):
            folder.set_aside.note_death(at(position), "hung")
    aside = folder.set_aside.load()
    assert [folder.set_aside.request_path(record) is not None for record in aside.records] == [False, True]
    assert aside.positions == {first.position, second.position}


def test_it_is_a_condition_while_something_is_set_aside(folder: DataFolder) -> None:
    conditions = Conditions()
    folder.set_aside.report(conditions)
    assert conditions.current() == []
    record = set_second_aside(folder)
    folder.set_aside.report(conditions)
    (condition,) = conditions.current()
    assert condition.name == "record_set_aside"
    assert condition.message == f"the record at {record.position} (2 spans): hung"
    folder.set_aside.ask_to_retry(record.position)
    folder.set_aside.retry(lambda entry: None)
    folder.set_aside.report(conditions)
    assert conditions.current() == []


def test_the_pairs_that_the_first_version_wrote_are_read(tmp_path: Path) -> None:
    set_aside = SetAside(tmp_path)
    set_aside.path.write_text(json.dumps([["ab" * 16, "slow-rule", "hung"]]))
    assert set_aside.load().pairs == {("ab" * 16, "slow-rule"): "hung"}
    set_aside.add_pair("cd" * 16, "slow-rule", "hung")
    assert len(set_aside.load().pairs) == 2


def test_kills_at_random_set_no_innocent_record_aside(folder: DataFolder) -> None:
    """Judges are killed wherever they are; each gets at least past where the last one was suspected."""
    placed = journalled(folder)
    chance = random.Random(4)
    for _ in range(200):
        victim = chance.choice(placed)
        folder.set_aside.note_death(at(victim.position), "SIGKILL")
        folder.set_aside.passed(placed[-1].end)
    assert folder.set_aside.load() == Aside()


CONTENTS: list[Content] = [
    *(agent_span(trace, 1) for trace in (1, 2, 3)),
    *(tool_span(trace, number, 1, "validate_user") for trace in (1, 2, 3) for number in (2, 3)),
    *(otlp_span(trace, 9, 999) for trace in (1, 2, 3)),
]


@given(st.data())
def test_live_and_replay_pass_over_the_same_and_count_it(rule_set: RuleSet, data: st.DataObject) -> None:
    journal = records(batches_of(data.draw(st.permutations(CONTENTS), label="arrival order"), data))
    chosen = data.draw(st.sets(st.sampled_from([record.position for record in journal])), label="records set aside")
    trace = data.draw(st.sampled_from([None, 1, 3]), label="trace set aside")
    pairs = {} if trace is None else {(trace.to_bytes(16, "big").hex(), ""): "hung"}
    aside = Aside(pairs, [SetAsideRecord(position, 0, 0, "default", "traces", 0, "hung", 0) for position in chosen])
    closed = ClosedTraces(set_aside=aside.traces)
    judge = RecordJudge(SETTINGS, rule_set, closed, watchdog=Watchdog(aside.pairs, aside.positions))
    judged = []
    for record in journal:
        # What ends a judge must not be touched: were it decoded, this would raise.
        read = replace(record, payload=b"\xff") if record.position in chosen else record
        judged += list(judge.read(read))
        assert sum(judge.intake.span_dispositions.values()) + judge.live.open_spans == judge.intake.read_spans
    judged += list(judge.end())
    assert judge.intake.read_spans == len(spans_of(CONTENTS)) == sum(judge.intake.span_dispositions.values())
    aside_spans = sum(record.items for record in journal if record.position in chosen)
    dropped = judge.intake.span_dispositions.get(("dropped", "set_aside"), 0)
    assert dropped == aside_spans if trace is None else dropped >= aside_spans
    assert trace is None or all(item.key[1] != trace.to_bytes(16, "big") for item in judged)
    replayed = replay_records(journal, SETTINGS, rule_set, "replay", aside=aside)
    live, again = (
        {item.key: [canonical_line(e.to_json()) for e in evaluations_of(item)] for item in results}
        for results in (judged, replayed)
    )
    assert live == again
