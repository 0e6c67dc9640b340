"""Rules that judge nothing, and why."""

from collections.abc import Sequence

import build
from tracegrade.doctor.finding import Finding
from tracegrade.doctor.judging import idle_rules
from tracegrade.extract.extract import extract
from tracegrade.judge import judge
from tracegrade.model.evaluation import Decision, JudgedSubject, Pair
from tracegrade.model.span import Resource
from tracegrade.model.trace import Trace
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

ARGS = {"evaluator": "tool-call-args", "tool_calls": [{"name": "find", "args": {"q": 1}}]}
ORDER = {"evaluator": "tool-call-order", "tool_calls_order": ["find"]}


def rule(rule_id: str, **changes: object) -> Rule:
    return Rule.model_validate({"id": rule_id, "evaluate": [ORDER], **changes})


def findings(
    *rules: Rule,
    judged_by: RuleSet | None = None,
    session: str | None = None,
    decisions: Sequence[Decision] = (),
    more: Sequence[Trace] = (),
) -> list[Finding]:
    """What is found of `rules` over two traces with a call without arguments each."""
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    if session is not None:
        attributes["gen_ai.conversation.id"] = session
    spans = [{"id": 1, "attributes": attributes}]
    traces = [build.trace(spans, number.to_bytes(16, "big")) for number in (1, 2)]
    traces += more
    rule_set = RuleSet(rules)
    decided = [
        found for trace in traces for found in judge(trace, rule_set if judged_by is None else judged_by).decisions
    ]
    return list(idle_rules(rule_set, [extract(trace) for trace in traces], len(decisions), [*decided, *decisions]))


def test_rules_that_judge_are_well() -> None:
    assert [(found.level, found.found) for found in findings(rule("fine"))] == [
        ("ok", "all 1 rules judged something in 2 traces")
    ]


def test_a_rule_that_never_matches_names_the_clause() -> None:
    (found,) = findings(rule("other", match={"service": "bank", "tools": ["find"]}))
    assert (found.level, found.where) == ("note", "other")
    assert (
        found.found
        == "matched nothing in 2 traces; mostly (2 of 2 subjects of the newest 2 traces) because of match.service"
    )


def test_a_rule_that_excludes_everything_names_unless() -> None:
    (found,) = findings(rule("excluded", unless={"service": "shop"}))
    assert found.found.endswith("because of unless")


def test_a_rule_that_is_never_evaluable_gives_the_reason() -> None:
    (found,) = findings(rule("blind", evaluate=[ARGS]))
    assert (found.level, found.where) == ("warning", "blind, shop")
    assert found.found.startswith("matched 2 times in 2 traces and was never evaluable; mostly (2 times): ")
    assert "arguments" in found.found


def test_a_ready_made_rule_that_nobody_sends_what_it_reads_is_only_noted() -> None:
    (ready_made,) = load_rules(["builtin:arguments-invalid-by-schema"]).rules  # no sender records schemas here
    (found,) = findings(ready_made)
    assert (found.level, found.where) == ("note", "arguments-invalid-by-schema, shop")
    own = ready_made.model_copy(update={"level": "critical"})  # changed by a user, who expects it to judge
    changed = Rule.model_validate({**own.model_dump(exclude_unset=True), "match": {"service": "shop"}})
    (found,) = findings(changed)
    assert found.level == "warning"


def test_a_rule_that_is_blind_for_one_service_names_it_though_it_judges_another() -> None:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    attributes["gen_ai.tool.call.arguments"] = '{"q": 1}'
    seen = build.trace([{"id": 1, "attributes": attributes}], bytes(15) + b"9")
    for span in seen.spans:
        span.resource = Resource({"service.name": "bank"})
    (found,) = findings(rule("half", evaluate=[ARGS]), more=[seen])
    assert (found.level, found.where, found.evidence["decisions"]) == ("warning", "half, shop", 2)


def test_a_rule_that_came_after_the_traces_is_new() -> None:
    (found,) = findings(rule("late"), judged_by=RuleSet([]))
    assert "though 2 subjects of the newest 2 traces match now: it is new, or changed" in found.found


def test_a_rule_of_which_no_trace_was_drawn_says_so() -> None:
    (found,) = findings(rule("rare", sample=0.01), judged_by=RuleSet([]))
    assert found.found.endswith("or none of them is in its sample of 0.01")


def test_a_rule_that_judged_sessions_is_well_though_no_trace_holds_one() -> None:
    shared = JudgedSubject(
        "default", "live", "ab", 2, "turn", False, ["end"], None, "session", "chat", "", "chat", "", "", 0
    )
    judged = Decision(Pair(shared, "of-sessions", "hash", "high"), "evaluated", "pass", "", [])
    (found,) = findings(rule("of-sessions", scope="session"), decisions=[judged])
    assert (found.level, found.found) == ("ok", "all 1 rules judged something in 2 traces and 1 session")


def test_a_session_rule_that_never_matched_names_the_clause_or_that_there_are_no_sessions() -> None:
    (found,) = findings(rule("of-sessions", scope="session"))
    assert found.found == "none of the newest 2 traces says which session it is part of"
    (found,) = findings(rule("of-sessions", scope="session", match={"service": "bank"}), session="chat")
    assert "(1 of 1 subjects of the newest 2 traces) because of match.service" in found.found
    (found,) = findings(rule("of-sessions", scope="session"), session="chat")
    assert "though 1 subject of the newest 2 traces matches now" in found.found


def test_no_rules_are_a_warning() -> None:
    assert [found.level for found in findings()] == ["warning"]
