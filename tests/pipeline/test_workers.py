"""Replay by workers gives what replay in one process gives, in the same order, or says why not."""

import random
from collections.abc import Iterator
from multiprocessing import active_children
from pathlib import Path

import pytest

from build.harness import records
from build.otlp import Content, logged_trace
from build.shown import Shown, end_on_trace_4, everything
from pipeline.test_promises import SETTINGS, order_trace
from pipeline.test_sessions import turn
from tracegrade.assemble.settings import TracesSettings
from tracegrade.journal.record import Record
from tracegrade.model.errors import CannotTell
from tracegrade.pipeline import workers
from tracegrade.pipeline.judged import Judged
from tracegrade.pipeline.replay import replay_records
from tracegrade.pipeline.workers import ReplayJob, shown_by_workers
from tracegrade.rule.load import load_rules
from tracegrade.rule.reading import FILES_ALONE
from tracegrade.rule.rule_set import RuleSet

RULES = {
    "traces": """\
id: calls-of-a-trace
scope: trace
evaluate:
  - {evaluator: tool-call-count, tool_calls_count: {create_order: [">=", 1]}}
  - {evaluator: tool-call-order, tool_calls_order: [check_inventory, create_order]}
""",
    "sessions": """\
id: looked-up-first
scope: session
evaluate:
  - {evaluator: tool-call-order, tool_calls_order: [find_order, refund]}
""",
}


@pytest.fixture(autouse=True)
def workers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SPANS_HERE", 0)
    monkeypatch.setattr(workers, "SPANS_A_BATCH", 5)


@pytest.fixture
def rules(tmp_path: Path) -> str:
    """A folder with a rule."""
    (tmp_path / "traces.rule.yaml").write_text(RULES["traces"])
    return str(tmp_path)


def job(rule_set: RuleSet, rules: str, show: object = everything) -> ReplayJob[Shown]:
    return ReplayJob((rules,), FILES_ALONE, rule_set.hash, "replay", SETTINGS.tool_aliases, SETTINGS.prices, show)  # type: ignore[arg-type]


def journal(seed: int) -> list[Record]:
    """Traces and conversations whose spans come in any order, again, late and too late, in requests of any size."""
    chance = random.Random(seed)
    contents: list[Content] = [content for trace in range(1, 15) for content in order_trace(trace)]
    contents += [content for trace in range(20, 24) for content in logged_trace(trace)]
    tools = ("find_order", "refund", "create_order")
    contents += [
        content
        for trace in range(30, 45)
        for content in turn(trace, f"chat-{trace % 4}", chance.choice(tools), 1000 * trace)
    ]
    contents += chance.sample(contents, 20)
    chance.shuffle(contents)
    batches, now_s = [], 0.0
    while contents:
        size = chance.randint(1, 12)
        batches.append((now_s, contents[:size]))
        now_s += chance.choice([0.0, 0.2, 1.5, 5.0])
        del contents[:size]
    return records(batches)


def alone(records: list[Record], traces: TracesSettings, rule_set: RuleSet) -> list[Shown]:
    judged = replay_records(records, traces, rule_set, "replay")
    return [shown for item in judged if (shown := everything(item)) is not None]


def test_workers_show_what_one_process_shows_in_its_order(rules: str) -> None:
    (Path(rules) / "sessions.rule.yaml").write_text(RULES["sessions"])
    rule_set = load_rules([rules])
    traces = SETTINGS.model_copy(update={"session_quiet": 8.0, "reopen_for": 6.0, "max_live_traces": 20})
    records = [record for seed in range(3) for record in shifted(journal(seed), seed)]
    judged = replay_records(records, traces, rule_set, "replay", judges_traces=False)
    expected = alone(records, traces, rule_set)
    assert list(shown_by_workers(judged, job(rule_set, rules), rule_set, 2)) == expected
    assert len({key for key, _, _ in expected}) < len(expected), "some have come in several revisions"


def shifted(records: list[Record], hours: int) -> list[Record]:
    """`records`, hours later: the same traces, which come too late then."""
    for record in records:
        record.received_ns += hours * 3600 * 10**9
        record.position += hours * 10**9
        record.end += hours * 10**9
    return records


def test_a_worker_that_is_killed_is_named_with_what_it_worked_on(rules: str) -> None:
    rule_set = load_rules([rules])
    judged = replay_records(journal(1), SETTINGS, rule_set, "replay", judges_traces=False)
    with pytest.raises(CannotTell, match=r"ended by SIGKILL while it judged one of \d+ traces, the first [0-9a-f]{32}"):
        list(shown_by_workers(judged, job(rule_set, rules, end_on_trace_4), rule_set, 2))


def test_rules_that_change_meanwhile_are_noticed(rules: str) -> None:
    rule_set = load_rules([rules])
    (Path(rules) / "traces.rule.yaml").write_text(RULES["traces"].replace("1]", "2]"))
    judged = replay_records(journal(1), SETTINGS, rule_set, "replay", judges_traces=False)
    with pytest.raises(CannotTell, match="rules changed"):
        list(shown_by_workers(judged, job(rule_set, rules), rule_set, 1))


def test_whoever_stops_early_leaves_no_worker(rules: str) -> None:
    rule_set = load_rules([rules])
    judged = replay_records(journal(1), SETTINGS, rule_set, "replay", judges_traces=False)
    shown = shown_by_workers(judged, job(rule_set, rules), rule_set, 2)
    next(shown)
    assert len(active_children()) == 2
    shown.close()
    assert not active_children()


def test_what_is_small_is_judged_without_workers(rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SPANS_HERE", 10_000)
    rule_set = load_rules([rules])
    records = journal(1)
    before = {child.pid for child in active_children()}  # of other tests of this process, ending

    def judged() -> Iterator[Judged]:
        yield from replay_records(records, SETTINGS, rule_set, "replay", judges_traces=False)
        assert {child.pid for child in active_children()} <= before

    assert list(shown_by_workers(judged(), job(rule_set, rules), rule_set, 2)) == alone(records, SETTINGS, rule_set)
