import gc
import json
from typing import Any

import pytest
from pydantic import ValidationError

import build
from build import each
from tracegrade.evaluate.evaluators.constraints import EVALUATOR
from tracegrade.evaluate.evidence import Evidence
from tracegrade.judge_case import judge_case
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.rule.rule import Rule


def call(name: str, **arguments: JsonValue) -> dict[str, Any]:
    return {"name": name, "args": arguments}


def judged(constraints: list[Any], calls: list[dict[str, Any]], **case: Any) -> dict[str, Any]:
    settings = case.pop("config", {})
    return judge_case(
        {
            "evaluator": "constraints",
            "criteria": {"constraints": constraints},
            "config": {**settings, "matchers": True},
            "calls": calls,
            "gate": True,
            **case,
        }
    ).to_json()


BIG_REFUND = {"tool": "refund", "where": {"args": {"amount": {"$gte": 100}}}}


@each(
    ("constraint", "calls", "outcome", "score", "says"),
    [
        (
            {"before": "create", "comes": "validate"},
            [call("create"), call("validate")],
            "fail",
            0.0,
            "create (call 1) was made without an earlier validate; validate (call 2) came after it.",
        ),
        (
            {"precedence": "create", "comes": "validate", "same": "id"},
            [call("validate", id=1), call("create", id="1"), call("create", id=2)],
            "fail",
            0.5,
            "1 of 2 checks failed: create (call 3) was made without an earlier validate with the same id; "
            "validate (call 1) does not have the same id.",
        ),
        (
            {"after": "reserve", "comes": ["charge", "release"]},
            [call("reserve"), call("release")],
            "pass",
            1.0,
            "No violation in 1 check: charge or release comes after every reserve.",
        ),
        (
            {"never": "delete_*"},
            [call("delete_user")],
            "fail",
            0.0,
            "delete_user (call 1) was made, and delete_* is forbidden",
        ),
        ({"never": BIG_REFUND}, [call("refund", amount=99)], "pass", 1.0, "No violation"),
        (
            {"never": BIG_REFUND},
            [call("refund", amount=100)],
            "fail",
            0.0,
            "and refund (args.amount as in the rule) is forbidden.",
        ),
        ({"never": {"tool": "pay", "where": {"error": True}}}, [{"name": "pay", "error": "x"}], "fail", 0.0, "pay"),
        (
            {"never": {"tool": "pay", "where": {"error": {"$contains": "timed out"}}}},
            [call("pay"), call("pay") | {"error": "it timed out"}],
            "fail",
            0.0,
            "pay (call 2) was made, and pay (error.message as in the rule) is forbidden.",
        ),
        (
            {"never": {"tool": "pay", "where": {"error": {"type": "Declined", "message": {"$regex": "card"}}}}},
            [call("pay") | {"error": {"type": "Declined", "message": "no funds"}}, call("pay")],
            "pass",
            1.0,
            "No violation in 1 check: pay (error.type, error.message as in the rule) is never called.",
        ),
        (
            {"at_most": 1, "of": {"tool": "pay", "where": {"error": {"type": "Timeout"}}}},
            [call("pay") | {"error": "no type was recorded"}] * 2,
            "not_evaluable",
            None,
            "",
        ),
        ({"never": {"where": {"agent": "bill*"}}}, [call("pay")], "pass", 1.0, "No violation"),
        (
            {"never": {"tool": "pay", "where": {"agent": "bill*", "error": True}}},
            [call("pay") | {"agent": "billing", "error": "no"}],
            "fail",
            0.0,
            "pay (call 1) was made, and failed pay (by agent bill*) is forbidden.",
        ),
        (
            {"at_most": 1, "of": "pay"},
            [call("pay"), call("pay")],
            "fail",
            0.0,
            "pay was called twice, where at most 1 call is",
        ),
        (
            {"at_most": 1, "of": "pay", "same": "id"},
            [call("pay", id=1), call("pay", id=2)],
            "pass",
            1.0,
            "No violation",
        ),
        (
            {"at_most": 1, "of": "pay", "same": "id"},
            [call("pay", id=1), call("pay", id=1)],
            "fail",
            0.0,
            "more than once with",
        ),
        ({"at_least": 2, "of": "search"}, [call("search")], "fail", 0.0, "called once, where at least 2 calls are"),
        ({"exactly": 0, "of": "search"}, [], "pass", 1.0, "No violation"),
        ({"not_both": ["refund", "ship"]}, [call("refund"), call("ship")], "fail", 0.0, "refund (call 1) and ship"),
        ({"not_both": ["refund", "ship"], "same": "id"}, [call("refund", id=1), call("ship", id=2)], "pass", 1.0, ""),
        ({"not_both": ["*", "*_it"]}, [call("do_it")], "pass", 1.0, "No violation"),
        ({"if": "lookup", "also": "reply"}, [call("reply"), call("lookup")], "pass", 1.0, "No violation"),
        (
            {"first": "log_in"},
            [call("pay"), call("log_in")],
            "fail",
            0.0,
            "was pay, where log_in was required.",
        ),
        ({"last": "log_out"}, [], "fail", 0.0, "no call was made, where log_out was required."),
        (
            {"before_each": "refund", "comes_a_new": "ok"},
            [call("ok"), call("refund"), call("refund")],
            "fail",
            0.5,
            "1 of 2 checks failed: refund (call 3) was made without an earlier ok of its own; "
            "ok (call 1) belongs to an earlier call.",
        ),
    ],
)
def test_a_constraint_is_one_sentence(
    constraint: dict[str, Any], calls: list[dict[str, Any]], outcome: str, score: float, says: str
) -> None:
    found = judged([constraint], calls)
    assert (found["outcome"], found["score"]) == (outcome, score), found
    assert says in found["explanation"]


def test_paths_differ_where_the_calls_name_the_value_differently() -> None:
    constraint = {"before": "refund", "comes": "find", "same": {"order.id": "output.orders[1].id"}}
    calls = [{"name": "find", "output": '{"orders": [{"id": 1}, {"id": 2}]}'}, call("refund", order={"id": "2"})]
    assert judged([constraint], calls)["outcome"] == "pass"
    calls[1]["args"]["order"]["id"] = 1
    assert judged([constraint], calls)["outcome"] == "fail"


def test_a_call_without_the_value_agrees_with_none() -> None:
    constraint = {"before": "refund", "comes": "find", "same": {"order_id": "id"}}
    said = [
        judged([constraint], [call("find", **one), call("refund", **other)])["explanation"]
        for one, other in (({"id": 1}, {}), ({}, {"order_id": 1}), ({"id": None}, {"order_id": None}))
    ]
    assert said[0].endswith("with the same order_id as its id; it has no order_id.")
    assert said[1].endswith("with the same order_id as its id; find (call 1) has no id.")
    assert said[2] == said[0]


def test_a_value_may_have_to_come_from_an_earlier_call() -> None:
    looked_up = {"tool": "refund", "where": {"args": {"amount": {"$from": "find.output.total"}}}}
    constraint = {"after": "find", "comes": looked_up}
    found = {"name": "find", "output": {"total": 20}}
    assert judged([constraint], [found, call("refund", amount=20)])["outcome"] == "pass"
    assert judged([constraint], [found, call("refund", amount=21)])["outcome"] == "fail"
    cut = {"name": "find", "output": "x", "output_status": "truncated"}
    assert judged([constraint], [cut, call("refund", amount=21)])["outcome"] == "not_evaluable"


def test_what_cannot_be_read_matters_only_where_it_could_change_the_outcome() -> None:
    same = {"before": "refund", "comes": "find", "same": "id"}
    unread = {"name": "refund"}
    open_ = judged([same], [call("find", id=1), unread])
    assert (open_["outcome"], open_["score"]) == ("not_evaluable", None)
    assert open_["explanation"] == "the arguments of a call were not recorded (refund, span 0000000000000002)"
    assert judged([same], [unread])["outcome"] == "fail", "no find came before it, whatever its id"
    assert judged([same, {"never": "find"}], [call("find", id=1), unread])["outcome"] == "fail"
    assert judged([same, {"never": "find"}], [call("find", id=1), unread], threshold=0.5)["outcome"] == "not_evaluable"
    assert judged([{"never": BIG_REFUND}], [unread])["outcome"] == "not_evaluable"
    assert judged([{"never": BIG_REFUND}], [unread, call("refund", amount=100)])["outcome"] == "fail"
    nameless = {"name": "", "args": {}}
    assert judged([{"never": "refund"}], [nameless])["outcome"] == "not_evaluable"


def test_a_bound_in_time_needs_times() -> None:
    constraint = {"before": "b", "comes": "a", "within": "1s"}
    assert judged([constraint], [call("a"), call("b")])["explanation"] == (
        "a constraint has a time limit, and the times of calls were not recorded"
    )


def test_what_was_never_triggered_is_named_and_left_out() -> None:
    untouched = {"after": "reserve", "comes": "charge"}
    found = judged([untouched], [call("x")])
    assert (found["outcome"], found["explanation"]) == (
        "not_evaluable",
        "No constraint applies: reserve was not called.",
    )
    assert judged([untouched], [call("x")], config={"vacuous": "pass"})["score"] == 1.0
    both = judged([untouched, {"never": "delete_*"}], [call("delete_x")])
    assert both["score"] == 0.0
    assert both["details"]["never_triggered"] == ["charge comes after every reserve"]


@each(
    ("constraint", "says"),
    [
        (
            {"never": {"where": {"error": "timeout"}}},
            "where.error: expected true, false, a matcher of the message, or {type:",
        ),
        (
            {"never": {"where": {"error": {"code": 7}}}},
            "where.error.code: unknown key 'code'; expected one of type, message",
        ),
        ({"before": "a", "never": "b"}, "found 'before' and 'never' in one constraint; write a constraint for each"),
        ({"befor": "a", "comes": "b"}, "did you mean 'before'?"),
        ({"before": "a"}, "constraints[0]: key 'comes' is missing; write {before: ..., comes: ...}"),
        ({"if": "a"}, "constraints[0]: key 'also' is missing; write {if: ..., also: ...}"),
        ({"at_most": 1}, "constraints[0]: key 'of' is missing; write {at_most: ..., of: ...}"),
        ({"x": "a"}, "constraints[0]: expected one of before, after, right_after,"),
        ({"not_both": "a"}, "constraints[0].not_both: expected a list of two, such as [refund, ship], of which each"),
        ({"not_both": ["a", "b", "c"]}, "of which each may be a list; found a list of 3"),
        ({"before": "a", "comes": "b", "same": "args"}, "constraints[0].same: expected an argument's name"),
        ({"before": "a", "comes": "b", "within": "3"}, "constraints[0].within: expected a duration"),
        ({"before": ["a", {"tool": "b", "where": {"arg": {}}}], "comes": "c"}, "constraints[0].before[1].where.arg"),
        ({"never": "a", "same": "id"}, "constraints[0].same: unknown key 'same'"),
        ({"at_least": 0, "of": "a"}, "expected a number of at least 1, found 0"),
        ("never delete", "expected an object such as {before: create_order, comes: validate_user}"),
        ({"before": "a", "comes": {"tool": "b", "where": {"args": {"x": {"$more": 1}}}}}, "no matcher '$more'"),
    ],
)
def test_a_mistake_is_said_in_one_sentence(constraint: Any, says: str) -> None:
    found = judged([constraint], [])
    assert found["error"]["type"] == "invalid_criteria"
    assert says in found["error"]["message"]


@each("names", ["", "or", "r", "oror", "oorr", "rorr", "orxor"])
def test_a_new_is_another_way_to_say_between_two(names: str) -> None:
    calls = [call({"o": "ok", "r": "refund"}.get(name, name), id=1) for name in names]
    for conditions in ({}, {"same": "id"}):
        one, other, declare = (
            judged([{first: "refund", second: "ok", **conditions}], calls)
            for first, second in (
                ("before_each", "comes_a_new"),
                ("between_two", "comes"),
                ("alternate_precedence", "comes"),
            )
        )
        assert one == other == declare
        assert names not in ("r", "oorr") or one["outcome"] == "fail", "the first needs one, and two before serve one"


@each(
    ("constraint", "says"),
    [
        ({"before_each": "a", "comes": "b"}, ".before_each: expected 'comes_a_new' beside it"),
        ({"before": "a", "comes_a_new": "b"}, ".comes_a_new: expected 'before_each' beside it"),
        (
            {"before_each": "a", "comes_a_new": "b", "comes": "c"},
            ".comes: unknown key 'comes' beside 'comes_a_new'",
        ),
        (
            {"before_each": {"tool": "a", "were": {}}, "comes_a_new": "b"},
            ".before_each.were: unknown key 'were'; did you mean 'where'?",
        ),
        ({"existence": 0, "of": "a"}, ".existence: expected a number of at least 1, found 0"),
        ({"never": {"tool": "a", "were": {}}}, ".never.were: unknown key 'were'; did you mean 'where'?"),
        (
            {"never": {"tool": "a", "foo": 1}},
            ".never.foo: unknown key 'foo'; key 'where' is missing",
        ),
        (
            {"never": {"tool": "a", "args": {"n": 1}}},
            ".never.args: unknown key 'args'; write it under 'where': {tool: ..., where: {args: ...}}",
        ),
        ({"if": "a", "then": "b"}, ".then: unknown key 'then'; key 'also' is missing"),
        ({"before": "a", "come": "b"}, ".come: unknown key 'come'; did you mean 'comes'?"),
        (
            {"at_most": 1, "of": "a", "same": {"amount": None}},
            '.same: expected an argument\'s name, several, or pairs of paths, found {"amount":null}',
        ),
        (
            {"at_most": 1, "of": "a", "same": ["id", "args"]},
            ".same: expected an argument's name, args.PATH or output.PATH, found 'args'",
        ),
        (
            {"at_most": 1, "of": "a", "same": []},
            ".same: expected an argument's name, several, or pairs of paths, found []",
        ),
    ],
)
def test_one_mistake_is_told_once(constraint: Any, says: str) -> None:
    item = {"evaluator": "constraints", "constraints": [constraint]}
    with pytest.raises(ValidationError) as caught:
        Rule.model_validate({"id": "r", "evaluate": [item]})
    found = [(".".join(map(str, error["loc"][4:])), error["msg"]) for error in caught.value.errors()]
    assert [f".{place}: {message.removeprefix('Value error, ')}" for place, message in found] == [says]


@pytest.mark.long
def test_a_constraint_on_very_many_calls_made_together_ends_at_the_bound_on_work() -> None:
    calls = [{"name": "ab"[number % 2], "args": {"id": number}, "batch": 1} for number in range(6000)]
    found = judged([{"right_after": "a", "comes": "b", "within": "1s"}], calls)
    assert found["error"]["type"] == "work_bound"


@pytest.mark.long
@pytest.mark.parametrize(
    "names", [["create"], ["validate", "create"], ["other"]], ids=["broken", "kept", "untriggered"]
)
def test_what_is_remembered_of_names_holds_nothing_of_the_calls(names: list[str]) -> None:
    criteria = EVALUATOR.read_criteria({"constraints": [{"before": "create", "comes": "validate"}]})
    calls = [build.call(name) for name in names]
    EVALUATOR.evaluate(Evidence(calls, "to be forgotten"), criteria, EVALUATOR.read_settings({}))
    gc.collect()
    kept = [item for item in gc.get_objects() if isinstance(item, Evidence) and item.prompt == "to be forgotten"]
    assert kept == []


def test_a_run_with_the_names_of_another_one_is_judged_alike_and_names_its_own_calls() -> None:
    criteria = EVALUATOR.read_criteria({"constraints": [{"before": "create", "comes": "validate"}]})
    for names, score in ((["create"], 0.0), (["validate", "create"], 1.0), (["other"], None)):
        for span_id in ("0a", "0b"):
            calls = [build.call(name, span_id=span_id) for name in names]
            found = EVALUATOR.evaluate(Evidence(calls), criteria, EVALUATOR.read_settings({}))
            assert found.score == score
            assert (f'"span_id": "{span_id}"' in json.dumps(found.details)) is (score == 0.0)
    passes = EVALUATOR.evaluate(Evidence([build.call("other")]), criteria, EVALUATOR.read_settings({"vacuous": "pass"}))
    assert passes.score == 1.0


def test_each_is_said_with_the_name_that_declare_has_for_it() -> None:
    criteria = EVALUATOR.read_criteria({"constraints": [{"never": BIG_REFUND}, {"chain_response": "a", "comes": "b"}]})
    assert EVALUATOR.sentences(criteria, EVALUATOR.read_settings({})) == [
        "refund (where args.amount is at least 100) is never called (absence)",
        "b comes right after every a (chain_response)",
    ]
    criteria = EVALUATOR.read_criteria({"constraints": [{"never": {"where": {"error": {"$contains": "timed out"}}}}]})
    (sentence,) = EVALUATOR.sentences(criteria, EVALUATOR.read_settings({}))
    assert sentence == "any tool (where error.message contains 'timed out') is never called (absence)"


def test_an_agent_that_is_no_text_is_refused_with_its_place() -> None:
    found = judged([{"never": "pay"}], [call("look"), call("pay") | {"agent": 7}])
    assert found["error"]["message"] == "calls[1].agent: expected a text, found 7"


class _OtherRuns:
    """A trace in which another agent called tools before."""

    def unread_before(self, call: ToolCall | None) -> None:
        return None

    def agent_that_called(self, tool: str, before: ToolCall) -> str | None:
        return {"find": "clerk", "ask": ""}.get(tool)


@each(
    ("constraint", "says"),
    [
        (
            {"before": "refund", "comes": "find"},
            "without an earlier find; find was called by agent clerk, which counts only with scope: trace.",
        ),
        (
            {"if": "refund", "also": ["x", "ask"]},
            "without x or ask; ask was called by another agent, which counts only with scope: trace.",
        ),
        ({"before": "refund", "comes": "x"}, "refund (call 1) was made without an earlier x."),
        ({"after": "refund", "comes": "find"}, "refund (call 1) was not followed by find."),
    ],
)
def test_what_another_agent_called_is_told_of(constraint: dict[str, Any], says: str) -> None:
    context: Any = _OtherRuns()
    criteria = EVALUATOR.read_criteria({"constraints": [constraint]})
    evidence = Evidence([build.call("refund")], trace_context=context)
    found = EVALUATOR.evaluate(evidence, criteria, EVALUATOR.read_settings({}))
    assert found.explanation.endswith(says)


def test_tools_that_were_not_called_before_are_named_so_that_earlier_turns_can_be_asked() -> None:
    found = judged(
        [{"before": "refund", "comes": ["find", "ask"]}, {"after": "refund", "comes": "mail"}], [call("refund")]
    )
    assert found["details"]["not_called"] == ["find", "ask"]
    found = judged([{"before": "refund", "comes": "find"}], [call("refund"), call("find")])
    assert "not_called" not in found["details"]


def test_of_what_cannot_be_read_it_is_not_said_that_it_was_broken() -> None:
    unread = {"name": "refund", "arguments_status": "absent"}
    found = judged([{"before": "refund", "comes": "approve"}, {"never": BIG_REFUND}], [unread])
    assert (found["outcome"], found["score"]) == ("fail", 0.0)
    assert found["explanation"].startswith(
        "1 of 2 checks failed: refund (call 1) was made without an earlier approve; "
        "1 more cannot be decided: the arguments of a call were not recorded (refund"
    )
    assert [
        violation.get("unknown") for item in found["details"]["constraints"] for violation in item["violations"]
    ] == [
        None,
        True,
    ]


@each(
    ("constraint", "groups", "outcome"),
    [
        # Of b, b, a in one message two orders keep it: b b a, and only that, has a call right after each b.
        ({"right_after": "b", "comes": "*"}, ["bba"], "pass"),
        ({"right_before": "a", "comes": "[ab]"}, ["baa"], "pass"),
        # The a before waits for an a that stands first, and c for one that stands last: b comes in between.
        ({"right_after": "a", "comes": ["a", "c"]}, ["a", "aab", "c"], "fail"),
        ({"right_after": "a", "comes": ["a", "c"]}, ["a", "aa", "c"], "pass"),
    ],
)
def test_calls_of_one_message_that_both_sides_mean_are_taken_in_one_order(
    constraint: dict[str, Any], groups: list[str], outcome: str
) -> None:
    calls = [{"name": name, "step": step} for step, names in enumerate(groups) for name in names]
    assert judged([constraint], calls)["outcome"] == outcome


@each(
    ("constraint", "outcome"),
    [
        ({"exactly": 2, "of": "*"}, "pass"),
        ({"last": "*"}, "pass"),
        ({"never": {"tool": "*", "where": {"args": {"id": 1}}}}, "fail"),
        ({"never": {"tool": ["refund", "pay"], "where": {"args": {"id": 1}}}}, "not_evaluable"),
        ({"before_each": "refund", "comes_a_new": "approve"}, "not_evaluable"),  # it may be the approval
    ],
)
def test_a_call_without_a_name_is_a_call_of_any_tool(constraint: dict[str, Any], outcome: str) -> None:
    assert judged([constraint], [call("", id=1), call("refund")])["outcome"] == outcome


def test_very_many_calls_of_one_message_that_are_alike_take_few_steps() -> None:
    calls = [{"name": "a", "step": step} for step in range(5) for _ in range(50)]
    assert judged([{"right_after": "a", "comes": "a"}], calls)["score"] == 249 / 250


@pytest.mark.parametrize(
    ("message", "outcome"),
    [("it timed out", "fail"), ("[redacted:email] failed", "not_evaluable"), ("declined", "pass")],
)
def test_what_was_redacted_in_an_error_leaves_open_what_it_says(message: str, outcome: str) -> None:
    criteria = EVALUATOR.read_criteria({"constraints": [{"never": {"where": {"error": {"$contains": "timed out"}}}}]})
    failed = build.call("pay", error=ToolError("", message))
    score = EVALUATOR.evaluate(Evidence([failed], redacted=True), criteria, EVALUATOR.read_settings({}))
    assert score.outcome(1.0) == outcome


@each(
    ("calls", "least", "most"),
    [
        ("ok 1, refund ?", 0.0, 1.0),
        ("ok ?, refund 1", 0.0, 1.0),
        ("ok 1, refund ?, refund 1", 0.0, 1.0),  # the first of the two may take the approval of the other one
        ("refund ?", 0.0, 0.0),
        ("ok ?, refund 1, refund 2", 0.0, 1.0),
        ("ok 1, refund 1, ok 2, refund 3", 0.5, 0.5),
    ],
)
def test_what_is_unknown_may_be_a_new_one_for_each_and_may_take_that_of_each(
    calls: str, least: float, most: float
) -> None:
    made = [build.call(name, {"id": "[redacted:id]" if number == "?" else number}, arguments_status="ok")
            for name, _, number in (one.partition(" ") for one in calls.split(", "))]  # fmt: skip
    criteria = {"constraints": [{"before_each": "refund", "comes_a_new": "ok", "same": "id"}]}
    score = EVALUATOR.evaluate(
        Evidence(made, redacted=True), EVALUATOR.read_criteria(criteria), EVALUATOR.read_settings({})
    )
    assert score.ends[:2] == (least, most)
