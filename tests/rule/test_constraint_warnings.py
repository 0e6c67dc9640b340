from typing import Any

import pytest

from tracegrade.rule.rule import Rule
from tracegrade.rule.warnings import unknown_tools, warnings_of


def warned(constraints: list[Any], **fields: Any) -> list[tuple[Any, str]]:
    item = {"evaluator": "constraints", "constraints": constraints}
    return [
        (where[3], says) for where, says in warnings_of(Rule.model_validate({"id": "r", "evaluate": [item], **fields}))
    ]


PAY = {"before": "pay", "comes": "look"}
BIG = {"tool": "pay", "where": {"args": {"n": {"$gt": 1}}}}


@pytest.mark.parametrize(
    ("constraints", "found"),
    [
        ([PAY], []),
        ([PAY, PAY], [(1, "it says again what constraint 1 says")]),
        ([PAY, {"right_before": "pay", "comes": "look"}], [(0, "it follows from constraint 2; remove it")]),
        (
            [{"between_two": "pay", "comes": "look"}, {"if": "pay", "also": "look"}],
            [(1, "it follows from constraint 1")],
        ),
        ([PAY | {"same": "id"}, {"right_before": "pay", "comes": "look"}], []),
        ([PAY | {"same": "id"}, {"right_before": "pay", "comes": "look", "same": "id"}], [(0, "follows")]),
        ([PAY, {"before": "pay", "comes": "approve"}], []),
        ([{"exactly": 1, "of": "pay"}, {"at_most": 2, "of": "pay"}], [(1, "it follows from constraint 1")]),
        ([{"at_most": 1, "of": "pay"}, {"at_most": 2, "of": "pay"}], [(1, "it follows from constraint 1")]),
        ([{"at_most": 1, "of": "pay", "same": "id"}, {"at_most": 2, "of": "pay"}], []),
        ([{"never": "pay"}, {"at_most": 2, "of": "pay"}], [(1, "it follows from constraint 1")]),
        ([{"at_least": 3, "of": "pay"}, {"at_most": 2, "of": "pay"}], [(0, "it contradicts 'pay is called at most 2")]),
        ([{"never": "l*"}, PAY], [(1, "no pay can be right, as look is never to be called")]),
        ([{"never": "pay"}, PAY], [(1, "it is about calls that are never to be made: pay")]),
        ([{"never": BIG}, PAY], []),
        ([{"never": "pay"}, {"before": BIG, "comes": "look"}], []),
        ([{"never": "pay"}, {"first": "pay"}], [(1, "it contradicts that pay is never called")]),
        ([{"never": "pay"}, {"exactly": 1, "of": "pay"}], [(1, "it contradicts that pay is never called")]),
        ([{"if": "a", "also": "b"}, {"not_both": ["b", "a"]}], [(0, "it contradicts 'b and a are not both called'")]),
        (
            [{"before": "a", "comes": "b"}, {"before": "b", "comes": "c"}, {"right_before": "c", "comes": "a"}],
            [(0, "none of a, b, c can be the first to be called: each has to come after another")],
        ),
        ([{"before": "a", "comes": ["b", "c"]}, {"before": "b", "comes": "a"}], []),
        (
            [{"before": "a", "comes": "a"}],
            [(0, "no a can be the first to be called: each has to come after another one")],
        ),
        (
            [{"after": "a", "comes": "b"}, {"right_after": "b", "comes": "a"}],
            [(0, "none of a, b can be the last to be called: each has to come before another")],
        ),
        ([{"after": "a", "comes": "b"}, {"before": "b", "comes": "a"}], []),
        (
            [{"first": "a"}, {"first": ["b", "c"]}],
            [
                (0, "it contradicts 'the first call is b or c', unless"),
                (1, "it contradicts 'the first call is a', unless"),
            ],
        ),
        ([{"first": "a"}, {"first": ["a", "c"]}], []),
        ([{"first": "a"}, {"first": "*"}], []),
        ([{"first": "a"}, {"last": "b"}], []),
        (
            [{"right_after": "a", "comes": "b"}, {"right_after": ["a"], "comes": "c"}],
            [(0, "it contradicts 'right after every a comes c'"), (1, "it contradicts 'right after every a comes b'")],
        ),
        ([{"after": "a", "comes": "b"}, {"after": "a", "comes": "c"}], []),
        (
            [{"not_both": ["a", "b"]}, {"before": "a", "comes": "b"}],
            [(1, "it contradicts 'a and b are not both called'")],
        ),
        (
            [{"not_both": ["a", "b"]}, {"at_least": 1, "of": "a"}, {"last": "b"}],
            [(0, "it contradicts that a and b have to be called")],
        ),
        ([{"not_both": ["a", "b"]}, {"at_least": 1, "of": "a"}], []),
        ([{"first": "a"}, {"at_most": 0, "of": "a"}], [(0, "it contradicts that a is never called")]),
        ([{"at_most": 1, "of": "a"}, {"at_least": 2, "of": ["a"]}], [(1, "it contradicts 'a is called at most 1")]),
    ],
)
def test_what_cannot_be_meant_is_named_with_its_place(constraints: list[Any], found: list[tuple[int, str]]) -> None:
    said = warned(constraints)
    assert [place for place, _ in said] == [place for place, _ in found], said
    assert all(part in text for (_, text), (_, part) in zip(said, found, strict=True)), said


@pytest.mark.parametrize("form", [{"never": "pay"}, {"exactly": 0, "of": "p*"}, {"at_most": 0, "of": ["pay", "x"]}])
@pytest.mark.parametrize("scope", ["agent", "trace"])
def test_what_nothing_that_is_judged_can_keep_is_named(form: Any, scope: str) -> None:
    ((_, says),) = warned([form], scope=scope, match={"tools": ["pay"]})
    assert says.startswith("nothing that is judged can keep it: match.tools asks for a call of p")
    assert warned([form], scope=scope) == []
    assert warned([form], scope=scope, match={"tools": ["pay", "look"]}) == []


def test_what_always_holds_and_what_is_never_triggered_is_named() -> None:
    ((_, says),) = warned([{"at_least": 1, "of": "p*"}], match={"tools": ["pay"]})
    assert says == "it always holds: match.tools asks for a call of p*"
    assert warned([{"at_least": 2, "of": "pay"}], match={"tools": ["pay"]}) == []
    ((_, says),) = warned([PAY], unless={"tools": ["pay", "x"]})
    assert says == "it is never triggered: unless.tools leaves out who calls pay"
    assert warned([PAY], unless={"tools": ["pay"], "service": "test-*"}) == []
    assert warned([PAY], unless={"tools": ["look"]}) == []


def test_conditions_leave_something_to_judge() -> None:
    assert warned([{"never": BIG}, {"at_most": 1, "of": "pay"}], match={"tools": ["pay"]}) == []


def test_two_sides_that_are_one_look_like_a_slip() -> None:
    ((_, says),) = warned([{"not_both": ["pay", "pay"]}])
    assert says == "both sides are pay; name two that differ, or write never or at_most"
    assert warned([{"not_both": ["pay", BIG]}]) == []


def test_a_single_call_has_no_order() -> None:
    ((place, says),) = warned([{"never": "x"}, PAY], scope="tool-call")
    assert (place, says) == (
        1,
        "scope: tool-call judges one call at a time, and this is about several; write scope: agent",
    )


def test_tools_that_no_stored_trace_has_are_named() -> None:
    item = {"evaluator": "constraints", "constraints": [{"before": "payy", "comes": ["look", BIG]}, {"never": "x"}]}
    rule = Rule.model_validate({"id": "r", "evaluate": [item]})
    assert list(unknown_tools(rule, {"pay", "look"})) == [
        (("evaluate", 0, "constraints", 0, "before"), "no stored trace calls 'payy'; did you mean 'pay'?")
    ]
