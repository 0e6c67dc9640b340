from pathlib import Path

import pytest

from build.harness import Run
from build.otlp import agent_span, log_payload, otlp_log, payload, tool_span
from tracegrade.assemble.settings import TracesSettings
from tracegrade.history.lateness import LateArrival, late_arrivals
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.signal import Signal
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule_set import RuleSet

SETTINGS = TracesSettings(settle="0s", reopen_for="0s", idle_timeout="0s")


@pytest.fixture(scope="module")
def rule_set() -> RuleSet:
    return load_rules(["builtin:demo"])


def entry(request: bytes, items: int, signal: Signal = Signal.TRACES) -> Entry:
    return Entry(signal, Encoding.PROTOBUF, "default", items, request)


def test_what_came_too_late_is_found_in_the_journal_and_nothing_else(tmp_path: Path, rule_set: RuleSet) -> None:
    first = [agent_span(1, 1), tool_span(1, 2, 1, "find")]
    late = [tool_span(1, 3, 1, "find"), tool_span(1, 4, 1, "find")]
    journal = LocalJournal.open(tmp_path)
    for item in (
        entry(payload(first), 2),
        entry(payload([agent_span(2, 1)]), 1),
        entry(payload([*first, *late, agent_span(3, 1)]), 5),
        entry(log_payload([otlp_log(1, 2, "gen_ai.choice"), otlp_log(2, 1, "gen_ai.choice")]), 2, Signal.LOGS),
    ):
        journal.append(item).result()
    reader = JournalReader(tmp_path)
    records = reader.read(0)
    reader.close()
    journal.close()
    run = Run(rule_set, SETTINGS)
    run.read(records)
    run.end()
    assert (
        run.judge.live.span_dispositions["too_late", ""],
        run.judge.live.log_record_dispositions["too_late", ""],
    ) == (2, 2)

    (judged,) = [item for item in run.store.traces.values() if item.trace.trace_id == f"{1:032x}"]
    assert late_arrivals(tmp_path, judged, SETTINGS, rule_set) == [
        LateArrival(records[2].received_ns, 2, 0, "too_late"),
        LateArrival(records[3].received_ns, 0, 1, "too_late"),
    ]
    assert late_arrivals(tmp_path / "elsewhere", judged, SETTINGS, rule_set) == []


def test_what_a_cap_cut_off_is_named_by_it(tmp_path: Path, rule_set: RuleSet) -> None:
    capped = TracesSettings(max_spans_per_trace=1)
    journal = LocalJournal.open(tmp_path)
    journal.append(entry(payload([agent_span(1, 1), tool_span(1, 2, 1, "find")]), 2)).result()
    journal.append(entry(payload([tool_span(1, 3, 1, "find")]), 1)).result()
    reader = JournalReader(tmp_path)
    records = reader.read(0)
    reader.close()
    journal.close()
    run = Run(rule_set, capped)
    run.read(records)
    run.end()
    (judged,) = run.store.traces.values()
    assert late_arrivals(tmp_path, judged, capped, rule_set) == [LateArrival(records[1].received_ns, 1, 0, "span_cap")]
