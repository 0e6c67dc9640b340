"""The fixture ``tracegrade`` as an agent's own tests use it."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from tracegrade.testing.agent_test import AgentTest
from tracegrade.testing.collected import Collected
from waiting import WITHIN_S

TRACER = trace.get_tracer("shop")

RULES = """\
id: {id}
match: {{tools: [issue_refund]}}
evaluate:
  - {{evaluator: tool-call-order, tool_calls_order: [look_up_order, issue_refund]}}
"""
ARGUMENTS = {
    "evaluator": "tool-call-args",
    "subset": True,
    "tool_calls": [{"name": "issue_refund", "args": {"order_id": "A-17"}}],
}


def agent(looks_up: bool = True, *, records: bool = True, session: str = "", tracer: trace.Tracer = TRACER) -> None:
    """A run that refunds an order."""
    with tracer.start_as_current_span("invoke_agent support") as span:
        span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"})
        if session:
            span.set_attribute("gen_ai.conversation.id", session)
        for name in ("look_up_order", "issue_refund") if looks_up else ("issue_refund",):
            call(name, records, tracer)


def call(name: str, records: bool = True, tracer: trace.Tracer = TRACER) -> None:
    with tracer.start_as_current_span(f"execute_tool {name}") as span:
        span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name})
        if records:
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"order_id": "A-17"}))
            span.set_attribute("gen_ai.tool.call.result", "{}")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "rule.yaml").write_text(RULES.format(id="refund-without-lookup"))
    return tmp_path


def failure(assertion: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    """What the test would fail with."""
    with pytest.raises(pytest.fail.Exception) as raised:
        assertion(*arguments, **named)
    return str(raised.value)


def test_runs_that_pass_are_enough_at_the_share_asked_for(tracegrade: AgentTest, rules: Path) -> None:
    for number in tracegrade.runs(10):
        agent(looks_up=number != 5)
    judged = tracegrade.judge(rules)
    assert len(judged.traces) == 10
    assert sorted(judged.outcomes("refund-without-lookup")) == ["fail"] + ["pass"] * 9
    judged.assert_passes("refund-without-lookup", at_least=0.9, runs=10)
    tracegrade.assert_passes("refund-without-lookup", rules=rules, at_least=0.9, runs=10)


def test_a_failure_says_what_why_says_of_the_traces_that_failed(tracegrade: AgentTest, rules: Path) -> None:
    for number in tracegrade.runs(6):
        agent(looks_up=number > 4)
    text = failure(tracegrade.judge(rules).assert_passes, "refund-without-lookup", at_least=0.9)
    assert text.startswith("refund-without-lookup: 2 of 6 passed (0.3333), expected at least 0.9: 4 fail, 2 pass\n")
    assert text.count("1 of 2 expected calls were made in the expected order; missing: look_up_order") == 3
    assert "... and 1 more" in text


def test_fewer_runs_than_asked_for_fail_though_all_pass(tracegrade: AgentTest, rules: Path) -> None:
    for _ in tracegrade.runs(9):
        agent()
    text = failure(tracegrade.assert_passes, "refund-without-lookup", rules=rules, runs=10, within=0.01)
    assert text == "refund-without-lookup: 9 agent runs judged, expected at least 10: 9 pass"


def test_what_is_not_evaluable_is_no_pass_and_the_failure_says_how_content_is_recorded(tracegrade: AgentTest) -> None:
    for number in tracegrade.runs(2):
        agent(records=number == 1)
    text = failure(tracegrade.assert_passes, ARGUMENTS)
    assert "1 of 2 passed (0.5), expected at least 1: 1 not_evaluable, 1 pass" in text
    assert "the arguments of a call were not recorded (issue_refund" in text


def test_content_that_is_off_is_said_with_the_switch_that_turns_it_on(tracegrade: AgentTest) -> None:
    agent(records=False)
    text = failure(tracegrade.assert_passes, ARGUMENTS)
    assert "to record it: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in text


def test_no_span_fails_and_says_what_to_look_at(tracegrade: AgentTest, rules: Path) -> None:
    text = failure(tracegrade.judge, rules, within=0.01)
    assert "no span was collected" in text
    assert "tracegrade.listen()" in text


def test_no_rule_matched_fails_and_names_the_clause(tracegrade: AgentTest, rules: Path) -> None:
    call("look_up_order")
    text = failure(tracegrade.judge(rules).assert_passes)
    assert "refund-without-lookup matched nothing: 1 trace collected, in which 1 tool call was read" in text
    assert 'match.tools does not hold: expected ["issue_refund"]' in text


def test_every_rule_that_matched_has_to_pass_when_none_is_named(tracegrade: AgentTest, rules: Path) -> None:
    (rules / "other.rule.yaml").write_text(RULES.format(id="other").replace("[look_up_order, ", "[other_tool, "))
    agent()
    assert failure(tracegrade.judge(rules).assert_passes).startswith("other: 0 of 1 passed")


def test_a_rule_that_is_not_there_fails_with_the_nearest_name(tracegrade: AgentTest, rules: Path) -> None:
    agent()
    text = failure(tracegrade.judge(rules).assert_passes, "refund-without-look")
    assert text == "no rule 'refund-without-look' among those that judged; did you mean 'refund-without-lookup'?"


def test_mistakes_in_a_rule_fail_with_their_place(tracegrade: AgentTest, rules: Path) -> None:
    (rules / "rule.yaml").write_text("id: x\nevaluate: [{evaluator: tool-call-ordr}]\n")
    agent()
    assert "rule.yaml:2:13" in failure(tracegrade.judge, rules)
    assert "unknown key 'order'" in failure(tracegrade.assert_passes, {"evaluator": "tool-call-order", "order": []})
    assert "no rules to judge by" in failure(tracegrade.judge)
    path = str(rules / "rule.yaml")
    assert (
        failure(tracegrade.assert_passes, path)
        == f"{path!r} is a path, not the id of a rule: assert_passes(ID, rules={path!r})"
    )


def test_a_share_beyond_1_is_refused(tracegrade: AgentTest) -> None:
    agent()
    with pytest.raises(ValueError, match="at_least: expected a share from 0 to 1, found 90"):
        tracegrade.assert_passes(ARGUMENTS, at_least=90)


def test_a_whole_rule_and_a_list_of_evaluators_may_stand_in_the_test(tracegrade: AgentTest) -> None:
    agent()
    tracegrade.assert_passes([ARGUMENTS, {"evaluator": "budget", "max_calls": 2}])
    tracegrade.assert_passes({"scope": "trace", "evaluate": [ARGUMENTS]})
    tracegrade.assert_passes({"scope": "tool-call", "evaluate": [{"evaluator": "budget", "max_errors": 0}]}, runs=2)


def test_a_sampled_rule_judges_every_trace_of_a_test(tracegrade: AgentTest) -> None:
    for _ in tracegrade.runs(3):
        agent()
    tracegrade.assert_passes({"sample": 0.000001, "evaluate": [ARGUMENTS]}, runs=3)


def test_a_session_goes_over_several_traces(tracegrade: AgentTest) -> None:
    rule = {"scope": "session", "evaluate": [{"evaluator": "budget", "max_calls": 4}]}
    for _ in tracegrade.runs(2):
        agent(session="s-1")
    tracegrade.assert_passes(rule)
    agent(session="s-1")
    text = failure(tracegrade.assert_passes, rule)
    assert "inline: 0 of 1 passed" in text
    assert "session s-1" in text


def test_spans_that_end_in_a_thread_after_the_call_returned_are_waited_for(tracegrade: AgentTest) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def late() -> None:
        with TRACER.start_as_current_span("invoke_agent late") as span:
            span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "late"})
            begun.set()
            go_on.wait(WITHIN_S)
            call("issue_refund")

    thread = threading.Thread(target=late)
    thread.start()
    begun.wait(WITHIN_S)
    releasing = threading.Timer(0.05, go_on.set)
    releasing.start()
    tracegrade.assert_passes(ARGUMENTS)
    thread.join()
    releasing.join()


def test_a_run_that_has_only_begun_elsewhere_is_waited_for_though_another_is_whole(
    tracegrade: AgentTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def late() -> None:
        with TRACER.start_as_current_span("invoke_agent support") as span:
            span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"})
            begun.set()
            go_on.wait(WITHIN_S)
            call("issue_refund")

    agent()  # whole: nothing is known to be missing
    thread = threading.Thread(target=late)
    thread.start()
    assert begun.wait(WITHIN_S)
    releasing = threading.Timer(0.05, go_on.set)
    wait = Collected.wait

    def waiting(*arguments: Any) -> None:
        releasing.start()
        wait(*arguments)

    monkeypatch.setattr(Collected, "wait", waiting)  # reading rules takes longer than the run
    assert [len(judged.trace.spans) for judged in tracegrade.judge("builtin:default").traces] == [3, 2]
    thread.join()
    releasing.join()


def test_a_thread_that_has_not_begun_is_waited_for_where_its_run_is_expected(tracegrade: AgentTest) -> None:
    agent()
    late = threading.Timer(0.05, agent)
    late.start()
    tracegrade.assert_passes(ARGUMENTS, runs=2)
    late.join()


def test_a_coroutine_makes_runs_of_their_own(tracegrade: AgentTest) -> None:
    async def answer() -> None:
        with TRACER.start_as_current_span("invoke_agent async") as span:
            span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "async"})
            await asyncio.gather(*(asyncio.to_thread(call, "issue_refund") for _ in range(2)))

    async def test() -> None:
        with trace.get_tracer("outside").start_as_current_span("the test"):
            for _ in tracegrade.runs(3):
                await answer()

    asyncio.run(test())
    assert len(tracegrade.judge("builtin:default").traces) == 4
    tracegrade.assert_passes(
        {"match": {"agent": "async"}, "evaluate": [{"evaluator": "budget", "max_calls": 2}]}, runs=3
    )


def test_judging_within_an_open_span_fails_at_once(tracegrade: AgentTest) -> None:
    with TRACER.start_as_current_span("outer"):
        agent()
        text = failure(tracegrade.assert_passes, ARGUMENTS)
    assert text == "judged within the span 'outer', which has not ended: judge after its 'with' block"


def test_a_span_left_open_elsewhere_makes_the_trace_incomplete_and_so_no_pass(tracegrade: AgentTest) -> None:
    outer = TRACER.start_span("outer")
    with trace.use_span(outer):
        agent()
    text = failure(tracegrade.assert_passes, ARGUMENTS, within=0.01)
    outer.end()
    assert "0 of 1 passed (0), expected at least 1: 1 incomplete" in text
    assert "A trace is incomplete while a span that encloses others has not ended" in text
    tracegrade.assert_passes(ARGUMENTS)


def test_what_a_set_up_did_can_be_forgotten(tracegrade: AgentTest) -> None:
    agent(looks_up=False)
    tracegrade.clear()
    agent()
    tracegrade.assert_passes({"evaluator": "tool-call-count", "tool_calls_count": {"look_up_order": ["=", 1]}})


def test_a_provider_made_during_the_test_is_collected_though_it_is_never_set(tracegrade: AgentTest) -> None:
    agent(tracer=TracerProvider().get_tracer("its own"))
    tracegrade.assert_passes(ARGUMENTS)


def test_a_provider_from_before_the_test_is_collected_when_named(tracegrade: AgentTest) -> None:
    agent(tracer=EARLIER.get_tracer("its own"))
    assert "no span was collected" in failure(tracegrade.assert_passes, ARGUMENTS, within=0.01)
    tracegrade.collect_from(EARLIER)
    tracegrade.collect_from(EARLIER)
    agent(tracer=EARLIER.get_tracer("its own"))
    assert len(tracegrade.judge("builtin:default").traces) == 1
    with pytest.raises(TypeError, match="expected a TracerProvider"):
        tracegrade.collect_from(object())


EARLIER = TracerProvider()

IN_ANOTHER_PROCESS = """
import sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
if sys.argv[1] == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
else:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
with provider.get_tracer("other").start_as_current_span("invoke_agent other") as span:
    span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "other"})
provider.shutdown()
"""


def test_other_processes_send_to_one_port_by_either_protocol(tracegrade: AgentTest) -> None:
    endpoint = tracegrade.listen(set_environment=True)
    assert os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] == endpoint == tracegrade.listen()
    started = [subprocess.Popen([sys.executable, "-c", IN_ANOTHER_PROCESS, name]) for name in ("grpc", "http")]
    judged = tracegrade.judge("builtin:default", traces=2, within=30)
    assert [process.wait(WITHIN_S) for process in started] == [0, 0]
    assert {run.agent for item in judged.traces for run in item.judgement.extraction.runs} == {"other"}
    assert len(judged.traces) == 2
