"""A session costs the extraction of each of its traces once, and what is remembered gives what extracting again gives.

Extraction is counted, not timed.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build.harness import Run, batches_of, records
from build.otlp import Content, otlp_span, tool_span
from pipeline.test_sessions import SETTINGS, turn
from tracegrade.extract.extract import extract
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

TURNS = 12

RULES = [
    {"id": "order", "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["find_order", "refund"]}]},
    {
        "id": "data-flow",
        "evaluate": [
            {
                "evaluator": "tool-call-args",
                "subset": True,
                "tool_calls": [{"name": "refund", "args": {"order": {"$from": "find_order.output.id"}}}],
            }
        ],
    },
    {"id": "budget", "evaluate": [{"evaluator": "budget", "max_tokens": 40, "max_calls": 3, "max_duration": "1s"}]},
    {"id": "schema", "evaluate": [{"evaluator": "args-schema"}]},
    {"id": "clauses", "match": {"attributes": {"tier": "gold"}, "cel": "trace.span_count < 3 && trace.complete"}},
]


def rules_of(*scopes: str) -> RuleSet:
    evaluate = RULES[0]["evaluate"]
    return RuleSet(
        [
            Rule.model_validate({"scope": scope, "evaluate": evaluate, **rule, "id": f"{scope}-{rule['id']}"})
            for scope in scopes
            for rule in RULES
        ]
    )


class Counted:
    """How often a trace was extracted, in all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0

        def counting(*given: Any) -> Any:
            self.count += 1
            return extract(*given)

        for module in ("tracegrade.judge", "tracegrade.pipeline.extracted_traces", "tracegrade.pipeline.record_judge"):
            monkeypatch.setattr(f"{module}.extract", counting)


@pytest.fixture
def extractions(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def conversation(turns: int, session: str = "chat-1", first: int = 1) -> list[tuple[float, list[Content]]]:
    """One turn each two seconds, so that each closes before the next comes."""
    tools = ("find_order", "refund", "other")
    return [
        (2.0 * number, turn(first + number, session, tools[number % 3], 1000 * (number + 1))) for number in range(turns)
    ]


def test_so_many_turns_are_so_many_extractions(extractions: Counted) -> None:
    run = Run(rules_of("session", "agent"), SETTINGS)
    run.read(records(conversation(TURNS)))
    run.tick(1000.0)
    assert len(run.session_heads) == TURNS + 1
    assert extractions.count == TURNS


def test_a_late_span_costs_the_extraction_of_its_trace_alone(extractions: Counted) -> None:
    batches = conversation(TURNS)
    late = tool_span(3, 9, 1, "refund", start=3050, end=3060)
    run = Run(rules_of("session"), SETTINGS)
    run.read(records([*batches, (2.0 * TURNS, [late])]))
    run.tick(1000.0)
    assert len(run.session_heads) == TURNS + 2
    assert extractions.count == TURNS + 1


def test_a_conversation_that_goes_on_after_it_was_quiet_extracts_nothing_again(extractions: Counted) -> None:
    batches = [(100.0 * received_s, contents) for received_s, contents in conversation(4)]
    run = Run(rules_of("session"), SETTINGS)
    run.read(records(batches))
    run.tick(10_000.0)
    assert [head.close_reason for head in run.session_heads] == ["turn", "quiet"] * 4
    assert extractions.count == 4


def test_after_a_restart_the_earlier_turns_are_extracted_once(extractions: Counted) -> None:
    journal = records(conversation(TURNS))
    run = Run(rules_of("session"), SETTINGS)
    run.read(journal[:6])
    run.tick(journal[5].received_ns / 1e9 + 1.5)
    assert extractions.count == 6
    run.kill()
    run.read(journal)
    run.tick(1000.0)
    assert extractions.count == 6 + 6 + (TURNS - 6)


@pytest.mark.parametrize(("max_spans", "expected"), [(2 * TURNS, TURNS), (4, None)])
def test_no_more_is_remembered_than_may_be(extractions: Counted, max_spans: int, expected: int | None) -> None:
    traces = SETTINGS.model_copy(update={"max_unpacked_spans": max_spans})
    run = Run(rules_of("session"), traces)
    run.read(records(conversation(TURNS)))
    run.tick(1000.0)
    assert len(run.session_heads) == TURNS + 1
    assert extractions.count == expected if expected is not None else extractions.count > 2 * TURNS


def test_sessions_that_ended_make_room_first(extractions: Counted) -> None:
    at_s = {1: 5.0, 2: 9.5, 3: 12.0, 4: 21.2}
    batches = [(at_s[n], turn(n, "quiet" if n == 2 else "goes on", "refund", 1000 * n)) for n in at_s]
    run = Run(rules_of("session"), SETTINGS.model_copy(update={"max_unpacked_spans": 6}))
    run.read(records(batches))
    run.tick(22.5)
    reasons = [(head.session, head.close_reason) for head in run.session_heads]
    turns = [("goes on", "turn"), ("quiet", "turn"), ("goes on", "turn"), ("quiet", "quiet"), ("goes on", "turn")]
    assert reasons == turns
    assert extractions.count == 4, "the trace of the session that ended was let go of, none of the one that goes on"


def chat(trace: int, start: int, asks: str | None = None, told: str | None = None) -> list[Content]:
    """A model call without a span around it: it asks for a call, and was given the result of an earlier one."""
    given = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": told, "response": {"id": "A-1"}}]}]
    call = {"type": "tool_call", "id": asks, "name": "find_order", "arguments": {"order": "A-1"}}
    parameters = {"type": "object", "required": ["order"]}
    span = otlp_span(
        trace,
        1,
        start=start,
        end=start + 50,
        gen_ai__operation__name="chat",
        gen_ai__request__model="m",
        gen_ai__conversation__id="chat-1",
        gen_ai__tool__definitions=json.dumps([{"type": "function", "name": "refund", "parameters": parameters}]),
        tier="gold",
    )
    span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 15
    for key, messages in (
        ("input", given if told else None),
        ("output", asks and [{"role": "assistant", "parts": [call]}]),
    ):
        if messages:
            span.attributes.add(key=f"gen_ai.{key}.messages").value.string_value = json.dumps(messages)
    return [span]


# Each turn has something that is read of its spans beside its own calls, or that changes those of another turn.
CONTENTS: list[Content] = [
    *chat(1, 1000, asks="c1"),
    *chat(2, 1500, asks="c2", told="c1"),
    *turn(3, "chat-1", "refund", 2000),
    tool_span(3, 3, 1, "refund", '{"order": "A-1"}', start=2030, end=2040),
    tool_span(3, 4, 9, "find_order", start=2050, end=2060),  # its parent never comes
    *turn(4, "chat-1", "refund", 2001),
    *turn(5, "chat-2", "find_order", 3000),
    # Names another session than before: the later end wins.
    *turn(6, "chat-1", "find_order", 500),
    otlp_span(6, 1, start=500, end=700, gen_ai__operation__name="invoke_agent", gen_ai__conversation__id="chat-2"),
    *chat(7, 4000, told="c2"),
]


def test_every_rule_has_something_to_say_of_these_turns() -> None:
    run = Run(rules_of("session"), SETTINGS)
    run.read(records([(0.0, CONTENTS)]))
    run.end()
    decided = {(d.pair.rule_id, d.kind, d.outcome) for item in run.store.traces.values() for d in item.decisions}
    assert decided == {
        *((f"session-{name}", "evaluated", "pass") for name in ("order", "data-flow", "clauses")),
        *((f"session-{name}", "evaluated", "fail") for name in ("order", "data-flow", "budget", "schema")),
        *((f"session-{name}", "not_evaluable", None) for name in ("budget", "schema")),
    }


@settings(max_examples=settings().max_examples // 2)
@given(st.data())
def test_what_is_remembered_changes_no_record(data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(CONTENTS), max_size=4), label="sent again")
    journal = records(batches_of(data.draw(st.permutations([*CONTENTS, *again]), label="arrival order"), data))
    rule_sets = data.draw(st.sampled_from([("session",), ("session", "trace"), ("session", "agent")]), label="scopes")
    steps: list[tuple[int, float, bool]] = []
    while not steps or steps[-1][0] < len(journal):
        seen = min(len(journal), (steps[-1][0] if steps else 0) + data.draw(st.integers(1, 4), label="records more"))
        waits_s = data.draw(st.sampled_from([0.0, 2.0, 15.0]), label="then waits")
        steps.append((seen, waits_s, data.draw(st.booleans(), label="then is killed")))
    room = data.draw(st.integers(1, 8), label="spans remembered")

    def written(max_spans: int) -> list[bytes]:
        run = Run(rules_of(*rule_sets), SETTINGS.model_copy(update={"max_unpacked_spans": max_spans}))
        for seen, waits_s, killed in steps:
            run.read(journal[:seen])
            until_s = journal[seen - 1].received_ns / 1e9 + waits_s
            run.tick(min(until_s, journal[seen].received_ns / 1e9) if seen < len(journal) else until_s)
            if killed:
                run.kill()
        run.end()
        return run.store.written

    from_scratch = written(0)
    assert written(100_000) == from_scratch
    assert written(room) == from_scratch
