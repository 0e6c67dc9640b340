from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from build import call, each
from tracegrade.evaluate.constraints.forms import FORMS, Counted, NotBoth, Paired
from tracegrade.evaluate.evaluators.constraints import EVALUATOR
from tracegrade.evaluate.evidence import Evidence
from tracegrade.rule.rule import Rule
from tracegrade.rule.warnings import unknown_tools, warnings_of


def warned(constraints: list[Any], **fields: Any) -> list[tuple[Any, str]]:
    item = {"evaluator": "constraints", "constraints": constraints}
    return [
        (where[3], says) for where, says in warnings_of(Rule.model_validate({"id": "r", "evaluate": [item], **fields}))
    ]


PAY = {"before": "pay", "comes": "look"}
BIG = {"tool": "pay", "where": {"args": {"n": {"$gt": 1}}}}


@each(
    ("constraints", "found"),
    [
        ([PAY], []),
        ([PAY, PAY], [(1, "it says again what evaluate[0].constraints[0] says; remove it")]),
        ([PAY | {"same": "id"}, {"right_before": "pay", "comes": "look"}], []),
        ([PAY, {"before": "pay", "comes": "approve"}], []),
        ([{"at_most": 1, "of": "pay", "same": "id"}, {"at_most": 2, "of": "pay"}], []),
        (
            [{"at_least": 3, "of": "pay"}, {"at_most": 2, "of": "pay"}],
            [(0, "it contradicts 'pay is called at most twice")],
        ),
        ([{"never": "l*"}, PAY], [(1, "no pay can be right, as look is never to be called")]),
        ([{"never": "pay"}, PAY], [(1, "it is never triggered: pay is never to be called")]),
        ([{"never": BIG}, PAY], []),
        (
            [{"never": "pay"}, {"before": BIG, "comes": "look"}],
            [(1, "it is never triggered: pay (args.n as in the rule) is never to be called")],
        ),
        ([{"never": BIG}, {"never": BIG}], [(1, "it says again what evaluate[0].constraints[0] says; remove it")]),
        (
            [
                {"between_two": "pay", "comes": "ok", "within": "1m"},
                {"before_each": "pay", "comes_a_new": "ok", "within": "60s"},
            ],
            [(1, "it says again what evaluate[0].constraints[0] says; remove it")],
        ),
        ([PAY | {"within": "5s"}, PAY | {"same": "id"}], []),
        ([{"first": "look"}, PAY | {"same": "id"}], []),
        ([{"first": "look"}, {"right_before": "pay", "comes": "look"}], []),
        ([{"last": "mail"}, {"at_least": 2, "of": "m*"}], []),
        (
            [{"first": "pay"}, {"before": "p*", "comes": "look"}],
            [(0, "it contradicts 'look comes before every p*', unless calls of both are made together")],
        ),
        (
            [{"first": BIG}, {"right_before": BIG, "comes": "look", "same": "id"}],
            [
                (
                    0,
                    "it contradicts 'look comes right before every pay (args.n as in the rule) with the same id'",
                )
            ],
        ),
        ([{"first": "pay"}, {"before": BIG, "comes": "look"}], []),
        (
            [{"last": "pay"}, {"after": "pay", "comes": "mail"}],
            [(0, "it contradicts 'mail comes after every pay', unless calls of both are made together")],
        ),
        ([{"last": "mail"}, {"after": "pay", "comes": "tell"}], []),
        (
            [{"at_most": 1, "of": "*"}, {"at_least": 2, "of": "pay"}],
            [(1, "it contradicts 'any tool is called at most once'")],
        ),
        ([{"at_most": 1, "of": "pay", "same": "id"}, {"at_most": 2, "of": "pay", "same": "to"}], []),
        (
            [{"exactly": 0, "of": "a"}, {"exactly": 0, "of": "a"}, {"first": "a"}],
            [(1, "again"), (2, "contradicts that a")],
        ),
        ([{"never": "pay"}, {"first": "pay"}], [(1, "it contradicts that pay is never called")]),
        ([{"never": "pay"}, {"exactly": 1, "of": "pay"}], [(1, "it contradicts that pay is never called")]),
        ([{"before": "a", "comes": ["b", "c"]}, {"before": "b", "comes": "a"}], []),
        (
            [{"before": "a", "comes": "a"}],
            [(0, "no a can be the first to be called: each has to come after another one")],
        ),
        (
            [{"after": "a", "comes": "b"}, {"right_after": "b", "comes": "a"}],
            [(1, "neither a nor b can be the last to be called: each has to come before the other")],
        ),
        ([{"after": "a", "comes": "b"}, {"before": "b", "comes": "a"}], []),
        ([{"first": "a"}, {"first": ["a", "c"]}], []),
        ([{"first": "a"}, {"first": "*"}], []),
        ([{"first": "a"}, {"last": "b"}], []),
        ([{"after": "a", "comes": "b"}, {"after": "a", "comes": "c"}], []),
        ([{"not_both": ["a", "b"]}, {"at_least": 1, "of": "a"}], []),
        ([{"not_both": ["a", "*"]}, {"first": "a"}], []),
        ([{"not_both": ["a", "*"]}, {"first": "a"}, {"last": "a"}], []),
        ([{"first": "a"}, {"at_most": 0, "of": "a"}], [(0, "it contradicts that a is never called")]),
        ([{"at_most": 1, "of": "a"}, {"at_least": 2, "of": ["a"]}], [(1, "it contradicts 'a is called at most once")]),
        ([{"after": "a", "comes": "b"}, {"after": "b", "comes": "c"}, {"right_after": "a", "comes": "c"}], []),
        ([PAY, {"before": "look", "comes": "ok", "same": "id"}, {"before": "pay", "comes": "ok", "same": "id"}], []),
        (
            [{"never": {"tool": "pay", "where": {"args": {"n": {"$gte": 5, "$lt": 3}}}}}],
            [(0, "no call can be meant: no value meets {$gte: 5, $lt: 3}")],
        ),
        ([{"never": {"tool": "pay", "where": {"output": [{"$gt": 3, "$lt": 3}]}}}], [(0, "no call can be meant")]),
        ([{"never": {"tool": "pay", "where": {"args": {"n": {"$gte": 3, "$lte": 3}}}}}], []),
    ],
)
def test_what_cannot_be_meant_is_named_with_its_place(constraints: list[Any], found: list[tuple[int, str]]) -> None:
    said = warned(constraints)
    assert [place for place, _ in said] == [place for place, _ in found], said
    assert all(part in text for (_, text), (_, part) in zip(said, found, strict=True)), said


@each("form", [{"never": "pay"}, {"exactly": 0, "of": "p*"}, {"at_most": 0, "of": ["pay", "x"]}])
@each("scope", ["agent", "trace"])
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


def test_evaluations_that_contradict_each_other_are_named() -> None:
    def said(threshold: float) -> list[tuple[Any, str]]:
        one = {"evaluator": "constraints", "name": "one", "constraints": [{"never": "pay"}]}
        other = {"evaluator": "constraints", "name": "other", "constraints": [{"at_least": 1, "of": "pay"}, PAY]}
        items = [one, other | {"threshold": threshold}]
        return list(warnings_of(Rule.model_validate({"id": "r", "evaluate": items})))

    assert said(1) == [
        (("evaluate", 1, "constraints", 0), "it contradicts that pay is never called"),
        (("evaluate", 1, "constraints", 1), "it is never triggered: pay is never to be called"),
    ]
    assert said(0.5) == []


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
    assert list(unknown_tools(rule, {"shop": {"pay", "look"}})) == [
        (("evaluate", 0, "constraints", 0, "before"), "no stored trace calls 'payy'; did you mean 'pay'?")
    ]


TOOLS = ["a", "b", "c", "*", ["a", "b"], ["b", "c"], {"tool": "a", "where": {"args": {"id": 1}}}]
sides = st.sampled_from(TOOLS)


@st.composite
def written_constraints(draw: st.DrawFn) -> dict[str, Any]:
    form = draw(st.sampled_from(FORMS))
    if issubclass(form, Paired):
        conditions = draw(st.sampled_from([{}, {}, {"same": "id"}, {"within": "1s"}, {"within": "9s"}]))
        other = "also" if form.word == "if" else "comes"
        return {form.word: draw(sides), other: draw(sides), **conditions}
    if issubclass(form, Counted):
        same = draw(st.sampled_from([{}, {"same": "id"}])) if form.word == "at_most" else {}
        return {form.word: draw(st.integers(1 if form.word == "at_least" else 0, 2)), "of": draw(sides), **same}
    if form is NotBoth:
        return {"not_both": [draw(sides), draw(sides)], **draw(st.sampled_from([{}, {"same": "id"}]))}
    return {form.word: draw(sides)}


runs = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 2)), max_size=4)


def keeps(constraint: dict[str, Any], run: list[tuple[str, int]]) -> bool:
    criteria = EVALUATOR.read_criteria({"constraints": [constraint]})
    second = 1_000_000_000
    calls = [
        call(name, {"id": number}, start_ns=place * 4 * second, end_ns=place * 4 * second + second)
        for place, (name, number) in enumerate(run, 1)
    ]
    return EVALUATOR.evaluate(Evidence(calls), criteria, EVALUATOR.read_settings({"vacuous": "pass"})).score == 1.0


@given(one=written_constraints(), other=written_constraints(), of=st.lists(runs, min_size=20, max_size=20))
@settings(max_examples=2 * settings().max_examples)
def test_what_is_said_of_two_is_so_in_every_run(
    one: dict[str, Any], other: dict[str, Any], of: list[list[tuple[str, int]]]
) -> None:
    pair = [one, other]
    for _, says in warned(pair):
        for run in of:
            if says.startswith("it contradicts") and any({"first", "last", "at_least"} & each.keys() for each in pair):
                assert not (keeps(one, run) and keeps(other, run)), (pair, says, run)
