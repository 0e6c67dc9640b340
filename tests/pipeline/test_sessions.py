"""Sessions: what holds for traces holds for what several of them make together (promises 2 to 5 and 7)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import each
from build.harness import Run, batches_of, packing, parts, records
from build.otlp import Content, otlp_span, tool_span
from pipeline.test_promises import check_replay
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.pipeline.judged import JudgedSession
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

SETTINGS = TracesSettings(
    settle="1s", idle_timeout="3s", max_age="20s", session_quiet="10s", session_end_attribute="chat.over"
)

LOOKED_UP_FIRST = Rule.model_validate(
    {
        "id": "looked-up-first",
        "scope": "session",
        "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["find_order", "refund"]}],
    }
)
PER_TRACE = Rule.model_validate(
    {
        "id": "per-trace",
        "scope": "trace",
        "evaluate": [{"evaluator": "tool-call-count", "tool_calls_count": {"refund": [">=", 1]}}],
    }
)


@pytest.fixture(scope="module")
def rule_set() -> RuleSet:
    return RuleSet([LOOKED_UP_FIRST, PER_TRACE])


def turn(trace: int, session: str, tool: str, start: int, **attributes: object) -> list[Content]:
    """A trace of one agent run with one call, which a user's turn in a conversation is."""
    agent = otlp_span(
        trace,
        1,
        start=start,
        end=start + 90,
        gen_ai__operation__name="invoke_agent",
        gen_ai__agent__name="support",
        gen_ai__conversation__id=session,
        **attributes,
    )
    return [agent, tool_span(trace, 2, 1, tool, start=start + 10, end=start + 20)]


CONTENTS: list[Content] = [
    *turn(1, "chat-1", "find_order", 1000),
    *turn(2, "chat-1", "refund", 2000),
    *turn(3, "chat-2", "refund", 1500),
    *turn(4, "chat-2", "find_order", 2500),
    *turn(5, "chat-2", "find_order", 3500),
    # Names another session than before: the later end wins, so chat-3 is what remains.
    *turn(6, "chat-1", "refund", 500),
    otlp_span(6, 1, start=500, end=700, gen_ai__operation__name="invoke_agent", gen_ai__conversation__id="chat-3"),
    *turn(7, "", "refund", 100),
]


def clean_results(rule_set: RuleSet, contents: list[Content]) -> list[str]:
    run = Run(rule_set, SETTINGS)
    run.read(records([(0.0, contents)]))
    run.end()
    return run.store.canonical()


def session_results(run: Run) -> dict[str, tuple[str, bool]]:
    """Session id -> (outcome, complete) of what is stored."""
    evaluations = [e for judged in run.store.traces.values() for e in judged.evaluations]
    return {e.subject.id: (e.outcome, e.subject.complete) for e in evaluations if e.subject.kind == "session"}


def test_a_session_is_judged_over_its_traces_in_order_of_start(rule_set: RuleSet) -> None:
    run = Run(rule_set, SETTINGS)
    run.read(records([(0.0, CONTENTS)]))
    run.end()
    assert session_results(run) == {"chat-1": ("pass", True), "chat-2": ("fail", True), "chat-3": ("fail", True)}


@given(st.data())
def test_order_batches_duplicates_lateness_and_kills_change_no_result(rule_set: RuleSet, data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(CONTENTS), max_size=8), label="sent again")
    journal = records(batches_of(data.draw(st.permutations([*CONTENTS, *again]), label="arrival order"), data))
    run = Run(rule_set, packing(SETTINGS, data), decided_at_once=parts(data))
    seen = 0
    while seen < len(journal):
        seen += data.draw(st.integers(1, 4), label="durable records more")
        run.read(journal[:seen], kill_before_commit=data.draw(st.booleans(), label="killed before the commit"))
        if data.draw(st.booleans(), label="killed"):
            run.kill()
        else:
            clock_s = journal[min(seen, len(journal)) - 1].received_ns / 1e9
            kept = data.draw(st.none() | st.integers(0, 3), label="results kept before a kill")
            run.tick(clock_s, kept)
            if kept is not None:
                run.kill()
    run.read(journal)
    run.end()
    assert run.store.canonical() == clean_results(rule_set, CONTENTS)


# Turns of conversations, and of none: session, tool and start, so that several start together.
turns = st.lists(
    st.tuples(
        st.sampled_from(["chat-1", "chat-2", ""]),
        st.sampled_from(["find_order", "refund", "other"]),
        st.sampled_from([1000, 1005, 2000, 3000]),
    ),
    min_size=1,
    max_size=6,
)


@given(turns, st.booleans(), st.data())
def test_any_conversations_are_judged_alike_however_they_arrive_once_they_are_quiet(
    rule_set: RuleSet, conversations: list[tuple[str, str, int]], is_quiet: bool, data: st.DataObject
) -> None:
    contents = [
        content
        for trace, (session, tool, start) in enumerate(conversations, 1)
        for content in turn(trace, session, tool, start)
    ]
    again = data.draw(st.lists(st.sampled_from(contents), max_size=4), label="sent again")
    journal = records(batches_of(data.draw(st.permutations([*contents, *again]), label="arrival order"), data))
    run = Run(rule_set, SETTINGS)
    for seen in range(1, len(journal) + 1):
        run.read(journal[:seen])
        if data.draw(st.booleans(), label="looked at before more comes"):
            run.tick(journal[seen - 1].received_ns / 1e9)
    if is_quiet:
        run.tick(journal[-1].received_ns / 1e9 + 1000)
    else:
        run.end()
    assert run.store.canonical() == clean_results(rule_set, contents)
    ended = [found for session, found in session_results(run).items() if session]
    assert len(ended) == len({session for session, _, _ in conversations if session})
    assert all(complete for _, complete in ended)


@given(st.data())
def test_replay_gives_the_lines_of_the_live_run(rule_set: RuleSet, data: st.DataObject) -> None:
    journal = records(batches_of(data.draw(st.permutations(CONTENTS), label="arrival order"), data))
    reopen_for = data.draw(st.sampled_from([4.0, 600.0]), label="reopen_for")
    check_replay(rule_set, SETTINGS.model_copy(update={"reopen_for": reopen_for}), journal, data)


def test_every_turn_is_a_revision_and_the_quiet_session_is_the_last(rule_set: RuleSet) -> None:
    run = Run(rule_set, SETTINGS)
    run.read(records([(0.0, turn(1, "chat-1", "find_order", 1000))]))
    run.tick(2.0)
    assert session_results(run) == {"chat-1": ("fail", False)}
    journal = records([(0.0, turn(1, "chat-1", "find_order", 1000)), (5.0, turn(2, "chat-1", "refund", 2000))])
    run.read(journal)
    run.tick(7.0)
    assert session_results(run) == {"chat-1": ("pass", False)}
    run.tick(15.9)
    assert session_results(run) == {"chat-1": ("pass", False)}
    run.tick(16.0)
    assert session_results(run) == {"chat-1": ("pass", True)}
    assert [head.close_reason for head in run.session_heads] == ["turn", "turn", "quiet"]
    assert [head.revision for head in run.session_heads] == [4, 8, 9]
    assert [head.supersedes for head in run.session_heads] == [None, 4, 8]


def test_a_session_that_was_quiet_goes_on_after_a_restart(rule_set: RuleSet) -> None:
    first, second = turn(1, "chat-1", "find_order", 1000), turn(2, "chat-1", "refund", 2000)
    journal = records([(0.0, first), (100.0, second)])
    run = Run(rule_set, SETTINGS)
    run.read(journal[:1])
    run.tick(50.0)
    assert session_results(run) == {"chat-1": ("fail", True)}
    run.kill()
    run.read(journal)
    run.tick(200.0)
    assert session_results(run) == {"chat-1": ("pass", True)}
    assert [head.close_reason for head in run.session_heads] == ["turn", "quiet", "turn", "quiet"]


def test_a_session_that_goes_on_at_a_restart_ends_without_another_trace(rule_set: RuleSet) -> None:
    run = Run(rule_set, SETTINGS)
    run.read(records([(0.0, turn(1, "chat-1", "refund", 1000))]))
    run.tick(2.0)
    run.kill()
    run.tick(60.0)
    assert session_results(run) == {"chat-1": ("fail", True)}


def test_the_end_attribute_ends_a_session_with_its_trace(rule_set: RuleSet) -> None:
    over = turn(2, "chat-1", "refund", 2000)
    over[0].attributes.add(key="chat.over").value.bool_value = True
    run = Run(rule_set, SETTINGS)
    run.read(records([(0.0, [*turn(1, "chat-1", "find_order", 1000), *over])]))
    run.tick(1.0)
    assert session_results(run) == {"chat-1": ("pass", True)}
    assert run.session_heads[-1].close_reason == "end_attribute"


@each(
    ("bound", "found"),
    [
        ({"max_traces_per_session": 2}, ("fail", ["max_traces_per_session"], 2)),
        ({"max_calls_per_session": 2}, ("fail", ["max_calls_per_session"], 2)),
        ({}, ("pass", [], 3)),
    ],
)
def test_a_session_beyond_a_bound_is_cut_and_says_so(rule_set: RuleSet, bound: dict[str, Any], found: Any) -> None:
    turns = [turn(1, "c", "find_order", 1000), turn(2, "c", "other", 2000), turn(3, "c", "refund", 3000)]
    run = Run(rule_set, SETTINGS.model_copy(update=bound))
    run.read(records([(float(place), contents) for place, contents in enumerate(turns)]))
    run.end()
    head = run.session_heads[-1]
    assert (session_results(run)["c"][0], head.missing, head.call_count) == found


def test_traces_that_are_no_longer_stored_are_missing_and_revisions_grow_on(rule_set: RuleSet) -> None:
    first, second = turn(1, "chat-1", "find_order", 1000), turn(2, "chat-1", "refund", 2000)
    journal = records([(0.0, first), (100.0, second)])
    run = Run(rule_set, SETTINGS)
    run.read(journal[:1])
    run.tick(50.0)
    run.kill()
    del run.store.traces["default", (1).to_bytes(16, "big")]
    run.position = journal[0].end
    run.kill()
    run.read(journal)
    run.tick(200.0)
    assert session_results(run) == {"chat-1": ("fail", False)}
    assert run.session_heads[-1].missing == [f"trace:{1:032x}"]
    assert [head.revision for head in run.session_heads] == [4, 5, 8, 9]


def test_rules_of_other_scopes_alone_know_no_sessions() -> None:
    run = Run(RuleSet([PER_TRACE]), SETTINGS)
    run.read(records([(0.0, CONTENTS)]))
    run.end()
    assert run.session_heads == []


def test_sessions_and_rules_have_one_decision_each(rule_set: RuleSet) -> None:
    judge = RecordJudge(SETTINGS, rule_set, ClosedTraces())
    for record in records([(0.0, CONTENTS)]):
        assert list(judge.read(record)) == []
    judged = {item.key: item for item in judge.end() if isinstance(item, JudgedSession)}
    pairs = [(d.pair.subject.id, d.pair.rule_id) for item in judged.values() for d in item.decisions]
    assert sorted(pairs) == [(f"chat-{number}", "looked-up-first") for number in (1, 2, 3)]


def test_a_trace_that_turns_out_to_be_of_another_session_leaves_one_that_has_ended(rule_set: RuleSet) -> None:
    first = turn(6, "chat-1", "refund", 500)
    run = Run(rule_set, SETTINGS)
    run.read(records([(0.0, first)]))
    run.tick(50.0)
    assert session_results(run) == {"chat-1": ("fail", True)}
    other = otlp_span(6, 1, start=500, end=700, gen_ai__operation__name="invoke_agent", gen_ai__conversation__id="c-3")
    run.read(records([(0.0, first), (100.0, [other])]))
    run.tick(200.0)
    assert session_results(run) == {"c-3": ("fail", True)}


@each("kept", [0, 1])
def test_a_kill_between_the_results_of_a_trace_and_of_its_session_loses_neither(rule_set: RuleSet, kept: int) -> None:
    journal = records([(0.0, turn(1, "chat-1", "refund", 1000))])
    run = Run(rule_set, SETTINGS)
    run.read(journal)
    run.tick(2.0, kept)
    run.kill()
    run.read(journal)
    run.tick(50.0)
    assert session_results(run) == {"chat-1": ("fail", True)}
    assert ("default", (1).to_bytes(16, "big")) in run.store.traces
