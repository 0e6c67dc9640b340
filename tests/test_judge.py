"""One trace judged: how evaluations combine, and what becomes of what goes wrong."""

import gc
from types import FunctionType
from typing import Any

import pytest

from build.otlp import agent_span, payload, tool_span
from tracegrade import semconv
from tracegrade.assemble.decode import Decoder
from tracegrade.assemble.settings import TracesSettings
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.judge import Judgement, judge
from tracegrade.model.sample_point import sample_point
from tracegrade.model.span import Resource
from tracegrade.model.trace import Trace
from tracegrade.pipeline.record_judge import attribute_filter_for
from tracegrade.rule.load import load_rules
from tracegrade.rule.prices import Price, Prices
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

ORDER = {"evaluator": "tool-call-order", "tool_calls_order": ["check_inventory", "create_order"]}
WRONG_ORDER = {
    "evaluator": "tool-call-order",
    "name": "reversed",
    "tool_calls_order": ["create_order", "check_inventory"],
}
ARGUMENTS = {"evaluator": "tool-call-args", "tool_calls": [{"name": "create_order", "args": {}}]}


def rules(*evaluate: dict[str, Any], **fields: Any) -> RuleSet:
    return RuleSet([Rule.model_validate({"id": "a-rule", "evaluate": list(evaluate), **fields})])


def trace(arguments: str = "{}", redacted: str = "") -> Trace:
    check = tool_span(1, 2, 1, "check_inventory", start=10, end=20)
    create = tool_span(1, 3, 1, "create_order", arguments, start=30, end=40)
    if redacted:
        create.attributes.add(key=semconv.REDACTED).value.string_value = redacted
    spans = [agent_span(1, 1), check, create]
    decoded = Decoder(attribute_filter_for(RuleSet([]), TracesSettings())).spans(payload(spans))
    return Trace(decoded[0].trace_id, "default", decoded, "settled", [], len(decoded))


def outcome(judgement: Judgement) -> tuple[str, str | None, str]:
    (decision,) = judgement.decisions
    return decision.kind, decision.outcome, decision.reason


def test_a_rule_passes_when_all_its_evaluations_pass() -> None:
    assert outcome(judge(trace(), rules(ORDER, ARGUMENTS))) == ("evaluated", "pass", "")


def test_one_failing_evaluation_fails_the_rule() -> None:
    judgement = judge(trace(), rules(ORDER, WRONG_ORDER))
    assert outcome(judgement)[:2] == ("evaluated", "fail")
    assert [(e.evaluation, e.outcome, e.score) for e in judgement.evaluations] == [
        ("tool-call-order", "pass", 1.0),
        ("reversed", "fail", 0.5),
    ]


def test_a_fail_weighs_more_than_what_cannot_be_evaluated_and_that_more_than_a_pass() -> None:
    unreadable = trace("not json at all")
    assert outcome(judge(unreadable, rules(WRONG_ORDER, ARGUMENTS)))[1] == "fail"
    kind, found, reason = outcome(judge(unreadable, rules(ORDER, ARGUMENTS)))
    assert (kind, found) == ("not_evaluable", None)
    assert "create_order" in reason


def test_what_was_redacted_and_could_not_change_the_outcome_leaves_it() -> None:
    masked = trace('{"qty": "[redacted]"}', redacted='{"gen_ai.tool.call.arguments": [["qty"]]}')
    wrong = {"name": "check_inventory", "args": {"sku": "A-1"}}
    both = {"evaluator": "tool-call-args", "tool_calls": [wrong, {"name": "create_order", "args": {"qty": 1}}]}
    judged = [judge(masked, rules(both | {"threshold": bound})).evaluations for bound in (1, 0.5)]
    assert [(one.outcome, one.score) for (one,) in judged] == [("fail", 0.0), ("not_evaluable", None)]


_OF_JUDGING = tuple(f"tracegrade.{part}" for part in ("cel", "extract", "evaluate", "judge", "match", "model", "rule"))


def test_what_was_judged_is_freed_at_once() -> None:
    """Collected once a minute, garbage of cycles would hold every trace of that minute.

    What other tests left, and is given up meanwhile, is none of it.
    """
    rule_set = load_rules(["builtin:all"])
    judged = [trace(), trace()]
    judge(judged.pop(), rule_set)  # what is learnt once
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        judge(judged.pop(), rule_set)
        gc.collect()
        found = {one.__module__ if isinstance(one, FunctionType) else type(one).__module__ for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not [module for module in found if module.startswith(_OF_JUDGING)]


def test_a_threshold_is_reached_within_rounding() -> None:
    third = {"evaluator": "tool-call-order", "tool_calls_order": ["a", "create_order", "b"], "threshold": 0.333333333}
    assert outcome(judge(trace(), rules(third)))[1] == "pass"


@pytest.mark.parametrize("reason", ["hung", "crashed: SIGKILL"])
def test_a_pair_that_was_set_aside_is_an_error_and_is_not_tried_again(reason: str) -> None:
    the_trace = trace()
    tried: list[str] = []
    judgement = judge(
        the_trace,
        rules(ORDER),
        set_aside={(the_trace.trace_id.hex(), "a-rule"): reason},
        working_on=lambda rule: tried.append(rule.id),
    )
    assert outcome(judgement) == ("error", None, reason)
    assert [(e.outcome, e.score, e.reason) for e in judgement.evaluations] == [("error", None, reason)]
    assert tried == []


def test_a_crash_in_an_evaluator_is_named_and_takes_nothing_along(monkeypatch: pytest.MonkeyPatch) -> None:
    rule_set = rules(ORDER, ARGUMENTS)
    crashing = rule_set.rules[0].evaluate[0].evaluator
    evaluate = Evaluator.evaluate

    def evaluate_or_crash(self: Evaluator[Any, Any], *arguments: Any) -> Any:
        if self is crashing:
            raise ZeroDivisionError("a bug")
        return evaluate(self, *arguments)

    monkeypatch.setattr(Evaluator, "evaluate", evaluate_or_crash)
    judgement = judge(trace(), rule_set)
    assert outcome(judgement)[0] == "error"
    assert [e.outcome for e in judgement.evaluations] == ["error", "pass"]
    assert judgement.evaluations[0].reason == "ZeroDivisionError: a bug"


def test_a_readable_trace_without_calls_is_judged() -> None:
    decoded = Decoder(attribute_filter_for(RuleSet([]), TracesSettings())).spans(payload([agent_span(1, 1)]))
    empty = Trace(decoded[0].trace_id, "default", decoded, "settled", [], 1)
    (evaluation,) = judge(empty, rules(ORDER)).evaluations
    assert (evaluation.outcome, evaluation.score) == ("fail", 0.0)


def test_evaluations_carry_what_they_are_of() -> None:
    rule_set = rules(WRONG_ORDER | {"threshold": 0.75}, level="high")
    (evaluation,) = judge(trace(), rule_set, run="try").evaluations
    assert len(evaluation.id) == 32
    assert judge(trace(), rule_set, run="other").evaluations[0].id != evaluation.id
    assert evaluation.to_json() == {
        "id": evaluation.id,
        "tenant": "default",
        "run": "try",
        "rule_id": "a-rule",
        "rule_hash": rule_set.rules[0].hash,
        "evaluation": "reversed",
        "evaluator": "tool-call-order",
        "case": None,
        "subject": {"kind": "agent", "id": "0000000000000001"},
        "trace_id": trace().trace_id.hex(),
        "span_id": "0000000000000001",
        "session": None,
        "agent": "order-agent",
        "service": "demo-shop",
        "release": None,
        "level": "high",
        "score": 0.5,
        "label": "fail",
        "threshold": 0.75,
        "outcome": "fail",
        "reason": "",
        "explanation": evaluation.explanation,
        "details": evaluation.details,
        "close_reason": "settled",
        "complete": True,
        "missing": [],
        "revision": 3,
        "probability": 1.0,
        "time": 1000,
    }
    assert evaluation.explanation.startswith("1 of 2 expected calls were made in the expected order")
    assert evaluation.details["lcs_length"] == 1


def test_evaluations_carry_the_service_that_clauses_read() -> None:
    two_services = trace()
    two_services.spans[1].resource = Resource({"service.name": "stock-service"})
    by_scope = {
        scope: [e.subject.service for e in judge(two_services, rules(ORDER, scope=scope)).evaluations]
        for scope in ("trace", "tool-call")
    }
    assert by_scope == {"trace": ["demo-shop"], "tool-call": ["stock-service", "demo-shop"]}


class TestSampling:
    """The trace of these tests stands at about 0.83."""

    def decided(self, evaluate: dict[str, Any], sample: Any) -> list[tuple[str, str | None, float, int]]:
        judgement = judge(trace(), rules(evaluate, sample=sample))
        return [(d.kind, d.outcome, d.pair.probability, len(d.evaluations)) for d in judgement.decisions]

    def test_a_trace_beyond_the_share_is_sampled_out(self) -> None:
        assert 0.8 < sample_point(trace().trace_id.hex()) < 0.9
        assert self.decided(ORDER, 0.8) == [("sampled_out", None, 0.8, 0)]
        assert self.decided(WRONG_ORDER, {"share": 0.8}) == [("sampled_out", None, 0.8, 0)]

    def test_what_is_sampled_says_with_what_chance(self) -> None:
        assert self.decided(ORDER, 0.9) == [("evaluated", "pass", 0.9, 1)]
        assert judge(trace(), rules(ORDER, sample=0.9)).evaluations[0].to_json()["probability"] == 0.9

    def test_failures_are_kept_on_request(self) -> None:
        for share in (0.8, 0.9):
            sample = {"share": share, "keep_failures": True}
            assert self.decided(WRONG_ORDER, sample) == [("evaluated", "fail", 1.0, 1)]
        assert self.decided(ORDER, {"share": 0.8, "keep_failures": True}) == [("sampled_out", None, 0.8, 0)]
        assert self.decided(ORDER, {"share": 0.9, "keep_failures": True}) == [("evaluated", "pass", 0.9, 1)]

    def test_what_is_sampled_out_is_not_evaluated(self) -> None:
        asked: list[str] = []
        judge(trace(), rules(ORDER, sample=0.8), working_on=lambda rule: asked.append(rule.id))
        assert asked == []


CASE = {"id": "checkout", "match": {"attributes": {"service.name": "*"}}}


class TestCases:
    def judged(self, *evaluate: dict[str, Any], unread: bool = False, **case: Any) -> Judgement:
        fields = {"evaluate": list(evaluate)} if evaluate else {}
        rule = Rule.model_validate({"id": "a-rule", "cases": [{**CASE, **case}], **fields})
        judged = trace()
        if unread:
            judged.spans[0].attributes.pop("gen_ai.input.messages")
        return judge(judged, RuleSet([rule]))

    def test_a_case_is_an_evaluation_of_its_own(self) -> None:
        judgement = self.judged(ORDER, **WRONG_ORDER)
        found = [(e.evaluation, e.case, e.outcome) for e in judgement.evaluations]
        assert found == [("tool-call-order", None, "pass"), ("reversed", "checkout", "fail")]
        assert outcome(judgement)[:2] == ("evaluated", "fail")
        assert judgement.evaluations[1].to_json()["case"] == "checkout"

    def test_a_rule_may_be_made_of_cases_alone(self) -> None:
        assert outcome(self.judged(**ORDER))[:2] == ("evaluated", "pass")

    def test_cases_of_one_name_have_ids_of_their_own(self) -> None:
        one, other = self.judged(**ORDER), self.judged(**{**ORDER, "id": "other"})
        assert one.evaluations[0].id != other.evaluations[0].id

    def test_nobody_can_tell_the_case_without_the_prompt(self) -> None:
        prompted = {"match": {"prompt": "hello"}}
        judgement = self.judged(ORDER, unread=True, **WRONG_ORDER, **prompted)
        assert [(e.evaluation, e.case, e.outcome) for e in judgement.evaluations] == [
            ("tool-call-order", None, "pass"),
            ("reversed", None, "not_evaluable"),
        ]
        alone = self.judged(unread=True, **WRONG_ORDER, **prompted)
        assert [(e.evaluation, e.case, e.outcome) for e in alone.evaluations] == [("reversed", None, "not_evaluable")]


TOKENS = {"above": 5000, "of": "tokens"}


def spending(rule_set: RuleSet, input_tokens: int | None = 700) -> Trace:
    """A run of 100 ns with two model calls, as the rules let it be kept."""
    spans = [agent_span(1, 1)]
    for number in (2, 3):
        chat = tool_span(1, number, 1, "unused", start=10, end=20)
        del chat.attributes[:]
        for key, value in (("gen_ai.operation.name", "chat"), ("gen_ai.request.model", "small")):
            chat.attributes.add(key=key).value.string_value = value
        if input_tokens is not None:
            chat.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = input_tokens
            chat.attributes.add(key="gen_ai.usage.output_tokens").value.int_value = 50
        spans.append(chat)
    decoded = Decoder(attribute_filter_for(rule_set, TracesSettings())).spans(payload(spans))
    return Trace(decoded[0].trace_id, "default", decoded, "settled", [], len(decoded))


def test_what_alerts_watch_is_measured_once_and_nothing_else() -> None:
    alerts = [TOKENS, {"rise": {"against": "7d"}, "of": "tokens"}, {"above": 30, "of": "duration"}, {"below": 0.9}]
    watching = rules(ORDER, alert=alerts)
    (decision,) = judge(spending(watching), watching).decisions
    (run,) = judge(spending(watching), watching).extraction.runs
    assert decision.measured == (("tokens", 1500), ("duration", (run.end_ns - run.start_ns) / 1e9))
    plain = rules(ORDER, alert=[{"below": 0.9}])
    assert judge(spending(plain), plain).decisions[0].measured == ()


def test_what_is_not_known_is_measured_as_that() -> None:
    watching = rules(ORDER, alert=[TOKENS, {"above": 0.1, "of": "cost"}])
    (unknown,) = judge(spending(watching, None), watching).decisions
    assert unknown.measured == (("tokens", None), ("cost", None))
    prices = Prices({"small": Price(input=1, output=10)})
    (known,) = judge(spending(watching), watching, cost_of=prices).decisions
    assert known.measured == (("tokens", 1500), ("cost", pytest.approx((1400 + 1000) / 1e6)))


def test_what_cannot_be_evaluated_is_measured_and_what_is_sampled_out_is_not() -> None:
    watching = rules(ARGUMENTS, alert=[TOKENS], match={"cel": "calls[0].name == 'x'"})
    (decision,) = judge(spending(watching), watching).decisions
    assert decision.kind in ("not_evaluable", "error")
    assert decision.measured == (("tokens", 1500),)
    sampled = rules(ORDER, alert=[TOKENS], sample=0.000001)
    (out,) = judge(spending(sampled), sampled).decisions
    assert (out.kind, out.measured) == ("sampled_out", ())


def test_an_alert_on_tokens_is_no_part_of_what_is_judged() -> None:
    watching, plain = rules(ORDER, alert=[TOKENS]), rules(ORDER)
    assert watching.rules[0].hash == plain.rules[0].hash
    assert watching.attributes_read == plain.attributes_read


CONDITION = {"evaluator": "condition", "expression": "tokens <= 1500 && cost < 2.0 && attributes['team.name'] == 'a'"}


def test_a_condition_reads_what_the_trace_says_beside_the_calls() -> None:
    judging = rules(CONDITION)
    found = spending(judging)
    found.spans[0].attributes["team.name"] = "a"
    assert "team.name" in judging.attributes_read
    prices = Prices({"small": Price(input=1000.0, output=1000.0)})
    (evaluation,) = judge(found, judging, cost_of=prices).evaluations
    assert (evaluation.outcome, evaluation.details["read"]) == (
        "pass",
        {"tokens": 1500, "cost": 1.5, "attributes['team.name']": "a"},
    )
    (unpriced,) = judge(found, judging).evaluations
    assert (unpriced.outcome, unpriced.reason) == ("not_evaluable", "what the model calls cost is not known")
