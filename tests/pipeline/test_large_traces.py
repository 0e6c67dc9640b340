"""A trace with many decisions takes turns with what comes after it, and is lost or doubled by no kill in between."""

import pytest

from build.harness import Run, records
from build.otlp import Content, otlp_span, tool_span
from tracegrade.assemble.settings import TracesSettings
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

SETTINGS = TracesSettings(settle="1s", idle_timeout="3s", max_age="20s")
LARGE, SMALL, LATER = 1, 2, 3


@pytest.fixture
def rule_set() -> RuleSet:
    order = {"evaluator": "tool-call-order", "tool_calls_order": ["search"]}
    return RuleSet([Rule.model_validate({"id": "searched", "evaluate": [order]})])


def agents(trace: int, count: int, first: int = 1) -> list[Content]:
    """A trace of so many agents, with a call each."""
    made: list[Content] = []
    for number in range(first, first + count):
        name = f"agent-{number}"
        made.append(otlp_span(trace, 2 * number, gen_ai__operation__name="invoke_agent", gen_ai__agent__name=name))
        made.append(tool_span(trace, 2 * number + 1, 2 * number, "search"))
    return made


def given(run: Run) -> list[int]:
    """The traces whose results were given, in their order."""
    return [int(head.trace_id, 16) for head in run.store.heads]


def test_others_are_judged_before_its_last_decision(rule_set: RuleSet) -> None:
    journal = records([(0.0, agents(LARGE, 10)), (0.1, agents(SMALL, 1)), (9.0, agents(LATER, 1))])
    run = Run(rule_set, SETTINGS, decided_at_once=4)
    run.read(journal)  # both are due when the last one comes
    assert given(run) == [SMALL]
    assert run.position == journal[0].position  # after a kill it is read again
    assert run.judge.judged_to_ns < journal[2].received_ns == run.judge.clock_ns
    run.tick(9.0)
    assert given(run) == [SMALL, LARGE]
    assert run.position == journal[0].position
    run.read([])
    assert run.position == journal[2].position
    assert run.judge.judged_to_ns == run.judge.clock_ns
    whole = Run(rule_set, SETTINGS)
    whole.read(journal)
    whole.tick(9.0)
    assert run.store.canonical() == whole.store.canonical()


def test_after_a_kill_it_is_judged_from_its_first_decision(rule_set: RuleSet) -> None:
    journal = records([(0.0, agents(LARGE, 10)), (9.0, agents(LATER, 1))])
    run = Run(rule_set, SETTINGS, decided_at_once=4)
    run.read(journal)
    run.kill()
    assert not run.judge.is_judging
    run.read(journal)
    run.tick(9.0)
    assert [len(result.evaluations) for result in run.store.traces.values()] == [10]


def test_late_spans_revise_it_after_its_results_were_given(rule_set: RuleSet) -> None:
    journal = records([(0.0, agents(LARGE, 10)), (9.0, agents(LARGE, 1, first=11)), (18.0, agents(LATER, 1))])
    run = Run(rule_set, SETTINGS, decided_at_once=2)
    run.read(journal)
    assert [(int(head.trace_id, 16), head.revision) for head in run.store.heads] == [(LARGE, 20)]
    run.end()
    assert [head.revision for head in run.store.heads if int(head.trace_id, 16) == LARGE] == [20, 22]
    assert [len(result.evaluations) for result in run.store.traces.values()] == [11, 1]


def test_it_stays_held_for_late_spans_whatever_was_stored_meanwhile(rule_set: RuleSet) -> None:
    """What is stored lets earlier results go, and this one has no number before its last decision."""
    run = Run(rule_set, SETTINGS, decided_at_once=4)
    run.read(records([(0.0, agents(LARGE, 10)), (0.1, agents(SMALL, 1)), (9.0, agents(LATER, 1))]))
    run.judge.release(1)
    key = ("default", LARGE.to_bytes(16, "big"))
    assert key in run.judge._closed.find([key])
    run.tick(9.0)
    run.judge.release(2)
    del run.store.traces[key]
    assert key not in run.judge._closed.find([key])
