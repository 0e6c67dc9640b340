from typing import Any

import pytest

import build
from build import each
from build.extractions import ROOT, SUB, TOOL, call_of, extraction_of, span_of
from tracegrade.extract.extract import extract
from tracegrade.match.facts import UNREADABLE_PROMPT
from tracegrade.match.select import explain, match_trace
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction, UnreadWork
from tracegrade.model.span import Resource
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet


def why_not(extraction: Extraction, **fields: Any) -> str | None:
    """The clause that kept the rule from the only subject; what `match` says must agree."""
    rule = build.rule(**fields)
    [explanation] = explain(rule, extraction)
    matches = list(match_trace(RuleSet([rule]), extraction))
    assert len(matches) == (explanation.clause is None)
    assert all(found.not_evaluable == explanation.not_evaluable for found in matches)
    return explanation.clause


@each(
    ("clauses", "unmatched"),
    [
        ({}, None),
        ({"service": "shop-*"}, None),
        ({"service": ["bank", "shop-eu"]}, None),
        ({"service": "Shop-*"}, "service"),
        ({"service": "shop"}, "service"),
        ({"environment": "prod"}, None),
        ({"environment": "staging"}, "environment"),
        ({"release": "1.*"}, None),
        ({"release": "2.*"}, "release"),
        ({"agent": "sup*"}, None),
        ({"agent": "sales"}, "agent"),
        ({"tools": "create_order"}, None),
        ({"tools": ["refund", "create_*"]}, None),
        ({"tools": "refund"}, "tools"),
        ({"prompt": " Please order\n2 pens "}, None),
        ({"prompt": "Please order*"}, "prompt"),
        ({"prompt": {"$regex": "(?i)PLEASE ORDER"}}, "prompt"),
        ({"prompt": {"$regex": "(?i)PLEASE +ORDER"}}, None),
        ({"prompt": ["no", {"$regex": "pens$"}]}, None),
        ({"service": "shop-eu", "agent": "sales", "tools": "refund"}, "agent"),
        ({"service": "shop-eu", "agent": "support", "tools": "create_order", "release": "1.4.0"}, None),
        ({"attributes": {"tenant.tier": "gold"}}, "attributes.tenant.tier"),
    ],
)
def test_a_rule_matches_when_all_its_clauses_hold(clauses: dict[str, Any], unmatched: str | None) -> None:
    assert why_not(extraction_of(), match=clauses) == unmatched


@each(
    ("unless", "unmatched"),
    [
        ({"environment": "prod"}, "unless"),
        ({"environment": "staging"}, None),
        ({"environment": "prod", "agent": "support"}, "unless"),
        ({"environment": "prod", "agent": "sales"}, None),
        ({"prompt": {"$regex": "pens"}}, "unless"),
    ],
)
def test_a_subject_is_excluded_when_all_clauses_of_unless_hold(unless: dict[str, Any], unmatched: str | None) -> None:
    assert why_not(extraction_of(), unless=unless) == unmatched


def test_match_is_named_before_unless() -> None:
    assert why_not(extraction_of(), match={"agent": "sales"}, unless={"environment": "prod"}) == "agent"


@each(
    ("cel", "unmatched"),
    [
        ('service == "shop-eu" && agent.startsWith("sup")', None),
        ('environment == "staging"', "cel"),
        ('"create_order" in tools', None),
        ("tools.size() > 1", "cel"),
        ('prompt.matches("(?i)pens$")', None),
        ("trace.duration_ms < 60000", None),
        ("trace.span_count == 2 && trace.complete", None),
        ('calls.all(c, c.name == "create_order" && !c.failed)', None),
        ("calls.exists(c, c.duration_ms > 5.0)", "cel"),
        ('attributes["tenant.tier"] in ["gold", "silver"]', None),
        ('attributes.size == "XL"', None),
        ('"missing" in attributes', "cel"),
    ],
)
def test_a_cel_expression_is_a_clause(cel: str, unmatched: str | None) -> None:
    spans = [span_of(ROOT, **{"tenant.tier": "gold", "size": "XL"}), span_of(TOOL, ROOT)]
    assert why_not(extraction_of(spans=spans), match={"cel": cel}) == unmatched
    excluded = why_not(extraction_of(spans=spans), unless={"cel": cel})
    assert excluded == ("unless" if unmatched is None else None)


@each(
    ("cel", "reason"),
    [
        ('attributes["missing"] == 1', "cel: there is no missing"),
        ('attributes["service.name"] > 5', "cel: No such overload"),
        ('attributes["service.name"]', "cel: expected true or false, found a value of type str"),
        ("attributes.nope.deeper > 1", "cel: there is no nope"),
        ("calls.all(a, calls.all(b, calls.all(c, true)))", None),
    ],
)
def test_an_expression_that_fails_is_not_evaluable(cel: str, reason: str | None) -> None:
    extraction = extraction_of()
    for place in ("match", "unless"):
        found = [
            match.not_evaluable for match in match_trace(RuleSet([build.rule(**{place: {"cel": cel}})]), extraction)
        ]
        assert [why and why[: len(reason or "")] for why in found] == ([reason] if reason or place == "match" else [])


def test_a_clause_that_does_not_hold_is_named_before_an_expression_fails() -> None:
    clauses = {"agent": "sales", "cel": "attributes.nope > 1"}
    assert why_not(extraction_of(), match=clauses) == "agent"
    assert why_not(extraction_of(), unless=clauses) is None
    assert next(match_trace(RuleSet([build.rule(unless=clauses)]), extraction_of())).not_evaluable is None


def test_loops_inside_each_other_are_bounded() -> None:
    run = AgentRun(ROOT, "support", prompt="x")
    run.calls = [call_of("a") for _ in range(1001)]
    rule = build.rule(match={"cel": "calls.all(a, calls.all(b, true))"})
    [found] = match_trace(RuleSet([rule]), extraction_of([run]))
    assert found.not_evaluable == "cel: 2 loops over 1001 items inside each other are more than 1000000 turns"


def test_attributes_that_an_expression_reads_are_kept() -> None:
    cel = 'attributes["a.b"] == "it is \'attributes\'" || "c" in attributes || attributes.d'
    assert {"a.b", "c", "d"} <= RuleSet([build.rule(match={"cel": cel})]).attributes_read


class TestWithoutAReadablePrompt:
    extraction = extraction_of([AgentRun(ROOT, "support")])

    def judged(self, **fields: Any) -> list[str | None]:
        return [found.not_evaluable for found in match_trace(RuleSet([build.rule(**fields)]), self.extraction)]

    @pytest.mark.parametrize(
        "fields",
        [
            {"match": {"prompt": "Please order"}},
            {"match": {"prompt": {"$regex": "order"}}},
            {"match": {"service": "shop-eu", "prompt": "Please order"}},
            {"unless": {"prompt": "Please order"}},
            {"unless": {"environment": "prod", "prompt": "Please order"}},
            {"unless": {"cel": "trace.complete", "prompt": "Please order"}},
        ],
    )
    def test_a_rule_that_only_the_prompt_could_decide_is_not_evaluable(self, fields: dict[str, Any]) -> None:
        assert self.judged(**fields) == [UNREADABLE_PROMPT.said]

    @pytest.mark.parametrize(
        "fields",
        [
            {"match": {"service": "bank", "prompt": "Please order"}},
            {"match": {"prompt": "Please order"}, "unless": {"environment": "prod"}},
        ],
    )
    def test_another_clause_decides_all_the_same(self, fields: dict[str, Any]) -> None:
        assert self.judged(**fields) == []

    @pytest.mark.parametrize("fields", [{}, {"unless": {"environment": "staging", "prompt": "Please order"}}])
    def test_a_rule_that_needs_no_prompt_judges(self, fields: dict[str, Any]) -> None:
        assert self.judged(**fields) == [None]


class TestAttributes:
    def why_not(self, name: str, expected: Any) -> str | None:
        shop = Resource({"service.name": "shop", "where": "resource", "tier": "bronze"})
        tool_resource = Resource({"service.name": "shop", "rack": 7})
        spans = [
            span_of(ROOT, resource=shop, **{"where": "root", "tier": "gold", "flag": True, "list": ["a", "b"]}),
            span_of(TOOL, ROOT, resource=tool_resource, **{"where": "span"}),
        ]
        return why_not(extraction_of(spans=spans), scope="tool-call", match={"attributes": {name: expected}})

    @pytest.mark.parametrize(
        ("name", "expected"),
        [("where", "span"), ("tier", "gold"), ("rack", 7), ("flag", True), ("list", "b"), ("tier", ["x", "g*"])],
    )
    def test_are_looked_up_on_the_span_then_the_root_then_the_resource(self, name: str, expected: Any) -> None:
        assert self.why_not(name, expected) is None

    @pytest.mark.parametrize(
        ("name", "expected"), [("where", "root"), ("tier", "bronze"), ("rack", "7"), ("flag", 1), ("absent", "*")]
    )
    def test_what_stands_nearer_wins_and_what_is_absent_does_not_match(self, name: str, expected: Any) -> None:
        assert self.why_not(name, expected) == f"attributes.{name}"

    def test_of_a_call_those_of_the_run_that_made_it_come_before_the_roots(self) -> None:
        run, agent_id = "00000000000000bb", "gen_ai.agent.id"
        spans = [span_of(ROOT, **{agent_id: "outer"}), span_of(run, ROOT, **{agent_id: "inner"}), span_of(TOOL, run)]
        runs = [AgentRun(run, "support", calls=[call_of("create_order", run=run)])]
        found = extraction_of(runs, spans)
        assert why_not(found, scope="tool-call", match={"attributes": {agent_id: "inner"}}) is None
        assert why_not(found, scope="tool-call", match={"attributes": {agent_id: "outer"}}) == f"attributes.{agent_id}"


@pytest.mark.parametrize("name", ["deployment.environment.name", "deployment.environment"])
def test_the_environment_is_read_under_its_new_and_its_old_name(name: str) -> None:
    extraction = extraction_of(spans=[span_of(ROOT, resource=Resource({name: "prod"}))])
    assert why_not(extraction, match={"environment": "prod"}) is None


def test_what_the_resource_does_not_say_matches_no_glob() -> None:
    extraction = extraction_of(spans=[span_of(ROOT, resource=Resource({}))])
    assert why_not(extraction, match={"environment": "*"}) == "environment"
    assert why_not(extraction, match={"release": "*"}) == "release"
    assert why_not(extraction, unless={"environment": "*"}) is None


def test_a_run_in_another_service_is_judged_by_its_own_service() -> None:
    gateway = Resource({"service.name": "gateway"})
    extraction = extraction_of(
        runs=[AgentRun(SUB, "support")], spans=[span_of(ROOT, resource=gateway), span_of(SUB, ROOT)]
    )
    assert why_not(extraction, match={"service": "shop-*"}) is None
    assert why_not(extraction, scope="trace", match={"service": "shop-*"}) == "service"


def sub_agents() -> Extraction:
    outer = AgentRun(ROOT, "support", prompt="order", final_answer="ordered", calls=[call_of("ask_buyer")])
    inner = AgentRun(SUB, "buyer", parent_span_id=ROOT, prompt="buy", calls=[call_of("create_order", "dd" * 8, SUB)])
    return extraction_of(runs=[outer, inner], spans=[span_of(ROOT), span_of(SUB, ROOT)], session="chat-1")


def test_scope_agent_judges_each_run_with_its_own_calls() -> None:
    subjects = [found.subject for found in match_trace(RuleSet([build.rule()]), sub_agents())]
    assert [(subject.kind, subject.id, subject.agent, subject.prompt) for subject in subjects] == [
        ("agent", ROOT, "support", "order"),
        ("agent", SUB, "buyer", "buy"),
    ]
    assert [[call.name for call in subject.calls] for subject in subjects] == [["ask_buyer"], ["create_order"]]
    assert {subject.session for subject in subjects} == {"chat-1"}


def test_scope_trace_judges_all_calls_as_the_outermost_run() -> None:
    [subject] = [found.subject for found in match_trace(RuleSet([build.rule(scope="trace")]), sub_agents())]
    assert (subject.kind, subject.id, subject.span_id) == ("trace", "00" * 16, ROOT)
    assert (subject.agent, subject.prompt, subject.final_answer) == ("support", "order", "ordered")
    assert [call.name for call in subject.calls] == ["ask_buyer", "create_order"]


def test_a_trace_without_its_root_is_attached_to_the_earliest_span() -> None:
    extraction = extraction_of(runs=[AgentRun(TOOL, "support")], spans=[span_of(TOOL, ROOT)])
    [subject] = [found.subject for found in match_trace(RuleSet([build.rule(scope="trace")]), extraction)]
    assert subject.span_id == TOOL


def test_scope_tool_call_judges_the_calls_that_tools_names() -> None:
    rule = build.rule(scope="tool-call", match={"tools": "create_*"})
    [found] = match_trace(RuleSet([rule]), sub_agents())
    subject = found.subject
    assert (subject.kind, subject.id, subject.agent, subject.prompt) == ("tool-call", "dd" * 8, "support", "buy")
    assert [call.name for call in subject.calls] == ["create_order"]
    assert [(each.subject.calls[0].name, each.clause) for each in explain(rule, sub_agents())] == [
        ("ask_buyer", "tools"),
        ("create_order", None),
    ]


def test_a_call_read_from_a_message_has_its_place_in_its_id() -> None:
    run = AgentRun(ROOT, "support", calls=[call_of("create_order", message_path="1/0")])
    [found] = match_trace(RuleSet([build.rule(scope="tool-call")]), extraction_of([run]))
    assert found.subject.id == f"{TOOL}/1/0"
    assert found.subject.span_id == TOOL


def test_tools_may_name_a_call_as_the_sender_wrote_it() -> None:
    run = AgentRun(ROOT, "support", calls=[call_of("create_order", raw_name="shop__create_order")])
    for name in ("create_order", "shop__*"):
        assert why_not(extraction_of([run]), match={"tools": name}) is None


def test_without_tool_calls_there_is_nothing_to_judge_in_scope_tool_call() -> None:
    extraction = extraction_of([AgentRun(ROOT, "support")])
    assert explain(build.rule(scope="tool-call"), extraction) == []
    assert not list(match_trace(RuleSet([build.rule(scope="tool-call")]), extraction))


def test_without_tool_calls_a_run_is_judged() -> None:
    assert len(list(match_trace(RuleSet([build.rule()]), extraction_of([AgentRun(ROOT, "support")])))) == 1


def test_matches_come_by_scope_then_subject_then_rule_id() -> None:
    rules = [build.rule(id="b"), build.rule(id="a")]
    rules += [build.rule(id="d", scope="tool-call"), build.rule(id="c", scope="trace")]
    found = [(each.subject.id, each.rule.id) for each in match_trace(RuleSet(rules), sub_agents())]
    assert found == [
        (ROOT, "a"),
        (ROOT, "b"),
        (SUB, "a"),
        (SUB, "b"),
        ("00" * 16, "c"),
        (TOOL, "d"),
        ("dd" * 8, "d"),
    ]


def test_every_pair_of_subject_and_rule_is_explained_once() -> None:
    buyer = {"agent": "buyer"}
    rules = [build.rule(id="a"), build.rule(id="b", match=buyer), build.rule(id="c", unless=buyer)]
    matched = {(each.rule.id, each.subject.id) for each in match_trace(RuleSet(rules), sub_agents())}
    explained = {(rule.id, each.subject.id): each.clause for rule in rules for each in explain(rule, sub_agents())}
    assert len(explained) == 6
    assert {pair for pair, clause in explained.items() if clause is None} == matched
    assert {pair: clause for pair, clause in explained.items() if clause} == {
        ("b", ROOT): "agent",
        ("c", SUB): "unless",
    }


def test_the_root_of_a_suite_s_case_is_judged_with_all_calls_and_its_agents_meet_no_case() -> None:
    case = {"id": "order", "expected_tool": "create_order"}
    rule = Rule.model_validate({"id": "suite", "cases": [case]})
    extraction = sub_agents()
    root = extraction.trace.root
    assert root is not None
    root.attributes["tracegrade.case.id"] = "order"
    assert len(list(match_trace(RuleSet([rule]), extraction))) == 2  # as live traffic, each agent is one
    root.scope = "tracegrade.suite"
    (found,) = match_trace(RuleSet([rule]), extraction)
    assert (found.subject.id, found.subject.calls) == (ROOT, extraction.calls)
    assert [item.clause for item in explain(rule, extraction)] == [None, "cases"]
    assert len(list(match_trace(RuleSet([build.rule()]), extraction))) == 2  # rules without cases judge the agents, too
    (whole, _) = match_trace(RuleSet([build.rule(depth=1)]), extraction)
    assert whole.subject.calls == extraction.calls


def test_an_agent_is_judged_with_its_sub_agents_down_to_a_depth() -> None:
    leaf = "dd" * 8
    runs = [
        AgentRun(ROOT, "lead", calls=[call_of("plan", "01" * 8, ROOT)]),
        AgentRun(SUB, "buyer", parent_span_id=ROOT, calls=[call_of("buy", "02" * 8, SUB)]),
        AgentRun(leaf, "payer", parent_span_id=SUB, calls=[call_of("pay", "03" * 8, leaf)]),
    ]
    extraction = extraction_of(runs, [span_of(ROOT), span_of(SUB, ROOT), span_of(leaf, SUB)])
    deep = [build.rule(id=f"deep-{depth}", depth=depth) for depth in range(4)]
    rules = RuleSet([*deep, build.rule(id="pays", match={"tools": "pay"}, depth=2)])
    found = {
        (matched.rule.id, matched.subject.agent): [call.name for call in matched.subject.calls]
        for matched in match_trace(rules, extraction)
    }
    assert found == {
        ("deep-0", "lead"): ["plan"],
        ("deep-1", "lead"): ["plan", "buy"],
        ("deep-2", "lead"): ["plan", "buy", "pay"],
        ("deep-3", "lead"): ["plan", "buy", "pay"],
        ("deep-0", "buyer"): ["buy"],
        ("deep-1", "buyer"): ["buy", "pay"],
        ("deep-2", "buyer"): ["buy", "pay"],
        ("deep-3", "buyer"): ["buy", "pay"],
        **{(f"deep-{depth}", "payer"): ["pay"] for depth in range(4)},
        **{("pays", agent): found["deep-2", agent] for agent in ("lead", "buyer", "payer")},
    }
    for rule in rules.rules:
        assert [why.clause for why in explain(rule, extraction)] == [None] * 3


def test_the_handoffs_that_an_expression_sees_are_those_of_the_runs_that_are_judged() -> None:
    leaf = "dd" * 8
    handed = [call_of("transfer_to_buyer", "01" * 8, ROOT), call_of("transfer_to_payer", "02" * 8, SUB)]
    handed[1].start_ns = 3
    runs = [
        AgentRun(ROOT, "lead", calls=[handed[0]]),
        AgentRun(SUB, "buyer", parent_span_id=ROOT, calls=[handed[1]], start_ns=2, end_ns=9),
        AgentRun(leaf, "payer", parent_span_id=SUB, start_ns=4, end_ns=9),
    ]
    extraction = extraction_of(runs, [span_of(ROOT), span_of(SUB, ROOT), span_of(leaf, SUB)])

    def matched(cel: str, **fields: Any) -> list[str]:
        return [
            found.subject.agent
            for found in match_trace(RuleSet([build.rule(match={"cel": cel}, **fields)]), extraction)
        ]

    assert matched("handoffs.exists(h, h.to == 'buyer')") == ["lead"]
    assert matched("handoffs.exists(h, h.to == 'payer')") == ["buyer"]
    assert matched("handoffs.exists(h, h.to == 'payer')", depth=1) == ["lead", "buyer"]
    assert matched("size(handoffs) == 2", scope="trace") == ["lead"]
    assert matched("handoffs.all(h, handoffs.exists(g, g.start_ms >= h.start_ms))", scope="trace") == ["lead"]


def test_runs_that_name_each_other_as_parents_are_judged_all_the_same() -> None:
    runs = [AgentRun(ROOT, "a", parent_span_id=SUB), AgentRun(SUB, "b", parent_span_id=ROOT)]
    extraction = extraction_of(runs, [span_of(ROOT), span_of(SUB, ROOT)])
    assert len(list(match_trace(RuleSet([build.rule(depth=9)]), extraction))) == 2


def with_unread_work() -> Extraction:
    """One support run that created an order; a further span of the run is a tool call and names no tool."""
    unnamed = span_of("dd" * 8, ROOT, **{"acme.note": "for issue_refund"})
    extraction = extraction_of(spans=[span_of(ROOT), span_of(TOOL, ROOT), unnamed])
    extraction.unread.append(UnreadWork("dd" * 8, 1, "tool span without a name", "agents"))
    return extraction


@each(
    ("fields", "decided"),
    [
        ({"match": {"tools": "create_order"}}, True),
        ({"match": {"tools": "issue_refund"}}, False),
        ({"match": {"tools": "issue_*"}}, False),
        ({"match": {"tools": "cancel_all"}}, True),  # which is nowhere in the trace
        ({"unless": {"tools": "create_order"}}, True),
        ({"unless": {"tools": "issue_refund"}}, False),
        ({"match": {"cel": "tools.exists(t, t == 'create_order')"}}, True),
        ({"match": {"cel": "!tools.exists(t, t == 'issue_refund')"}}, False),
        ({"match": {"cel": "service == 'other'"}}, True),
    ],
)
def test_work_that_could_not_be_read_may_be_a_call_of_any_tool(fields: dict[str, Any], decided: bool) -> None:
    known, found = explain(build.rule(**fields), extraction_of()), explain(build.rule(**fields), with_unread_work())
    assert known[0].not_evaluable is None
    why = found[0].not_evaluable
    assert (why is None) is decided, found
    if decided:
        assert found[0].clause == known[0].clause
    else:
        assert why == f"the tool of a call cannot be read (span {'dd' * 8}, scope agents)"
        assert [each.not_evaluable for each in match_trace(RuleSet([build.rule(**fields)]), with_unread_work())] == [
            why
        ]


def test_a_call_judged_alone_is_known_whatever_else_could_not_be_read() -> None:
    assert explain(build.rule(scope="tool-call", match={"tools": "issue_*"}), with_unread_work())[0].clause == "tools"


def test_a_redacted_name_is_unknown_also_beside_work_that_could_not_be_read() -> None:
    extraction = with_unread_work()
    extraction.redacted = True
    call = extraction.calls[0]
    call.name = call.raw_name = "[redacted:name]"
    (found,) = explain(build.rule(match={"tools": "cancel_all"}), extraction)
    assert found.not_evaluable == "the name of a tool was redacted, and a clause asks for it"


HEAVY = {"$regex": "[ab]*a[ab]{990}c"}  # for each byte, a search may look at as many places


@each(
    ("fields", "why"),
    [
        ({"match": {"prompt": HEAVY}}, "the prompt"),
        ({"match": {"attributes": {"topic": HEAVY}}}, "topic"),
        ({"match": {"prompt": HEAVY, "attributes": {"topic": HEAVY}}}, "the prompt"),  # which is asked for last
        ({"unless": {"prompt": HEAVY}}, "the prompt"),
        ({"match": {"prompt": [HEAVY, {"$regex": "abab"}]}}, "the prompt"),
    ],
)
def test_what_is_too_long_for_an_expression_is_not_evaluable(fields: dict[str, Any], why: str) -> None:
    def judged(length: int) -> list[str | None]:
        runs = [AgentRun(ROOT, "support", prompt="ab" * length)]
        found = extraction_of(runs, [span_of(ROOT, topic="ab" * length)])
        return [one.not_evaluable for one in match_trace(RuleSet([build.rule(**fields)]), found)]

    assert judged(50_000) == [f"{why} is too long for the expressions of a clause"]
    assert judged(500) != judged(50_000)


@each("scope", ["trace", "agent", "tool-call"])
def test_a_trace_in_which_nothing_ran_has_nothing_to_judge(scope: str) -> None:
    prepared = extract(build.trace([{"id": 1, "attributes": {"gen_ai.operation.name": "create_agent"}}]))
    assert list(match_trace(RuleSet([build.rule(scope=scope)]), prepared)) == []
