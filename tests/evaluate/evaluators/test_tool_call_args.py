from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import build
from build import call, each, score
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.json_values import json_equal
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.evaluate.work import Work


def _expect(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": args} for name, args in calls]}


@each(
    ("expected", "actual", "settings", "share"),
    [
        # further arguments
        ([("a", {"x": 1})], [("a", {"x": 1, "y": 2})], {}, 0.0),
        ([("a", {"x": 1})], [("a", {"x": 1, "y": 2})], {"subset": True}, 1.0),
        ([("a", {})], [("a", {"x": 1})], {}, 0.0),
        ([("a", {"x": {"p": 1}})], [("a", {"x": {"p": 1, "q": 2}})], {"subset": True}, 0.0),  # top level only
        # absent arguments are none
        ([("a", {})], ["a"], {}, 1.0),
        ([("a", {"x": 1})], ["a"], {}, 0.0),
        # each call serves once, the first that matches
        ([("a", {"x": 1}), ("a", {"x": 1})], [("a", {"x": 1})], {}, 0.5),
        ([("a", {"x": 2}), ("a", {"x": 1})], [("a", {"x": 1}), ("a", {"x": 2})], {"strict": True}, 1.0),
        # literal, so by a scan: {x} takes the call that {x, y} needs
        (
            [("a", {"x": 1}), ("a", {"x": 1, "y": 2})],
            [("a", {"x": 1, "y": 2}), ("a", {"x": 1})],
            {"subset": True},
            0.5,
        ),
        ([("a", {"x": 2}), ("a", {"x": 1})], [("a", {"x": 1}), ("a", {"x": 2})], {"pairing": "positional"}, 0.0),
        ([("a", {"x": 1})], [("a", {"x": 0}), ("a", {"x": 1})], {"pairing": "positional"}, 0.0),
        ([("b", {}), ("a", {"x": 1})], [("a", {"x": 1}), ("b", {})], {"pairing": "positional"}, 1.0),
        # all or nothing
        ([("a", {"x": 1}), ("b", {})], [("a", {"x": 1})], {"strict": True}, 0.0),
        # empty sides
        ([], [], {}, 1.0),
        ([], ["a"], {}, 0.0),
        ([("a", {})], [], {}, 0.0),
        # types
        ([("a", {"x": True})], [("a", {"x": 1})], {}, 0.0),
        ([("a", {"x": 2**53 + 1})], [("a", {"x": 2**53})], {}, 0.0),
        ([("a", {"x": None})], [("a", {})], {}, 0.0),
        # matchers
        ([("a", {"x": {"$regex": "^O"}, "y": 1})], [("a", {"x": "OK", "y": 1})], {}, 1.0),
        ([("a", {"x": [{"k": {"$regex": "^O"}}]})], [("a", {"x": [{"k": "no"}]})], {}, 0.0),
    ],
)
def test_the_score_is_the_share_of_expected_calls_made(expected: Any, actual: Any, settings: Any, share: float) -> None:
    assert score("tool-call-args", _expect(*expected), actual, **settings).score == share


LITERAL, OVER_TWO = [{"x": 5}, {"x": 5, "y": 1}], {"x": {"$gt": 2}}


@each(
    ("expected", "criteria", "settings", "matched"),
    [
        # The first that fits is the default while everything is literal.
        (LITERAL, {}, {}, 1),
        (LITERAL, {}, {"pairing": "best"}, 2),
        (LITERAL, {}, {"pairing": "positional"}, 1),
        ([{"x": {"$literal": 5}}, *LITERAL[1:]], {}, {}, 1),
        ([OVER_TWO, *LITERAL[1:]], {}, {}, 2),
        ([OVER_TWO, *LITERAL[1:]], {}, {"pairing": "first"}, 1),
        (LITERAL, {"values": "numeric_tolerance"}, {}, 2),
        (LITERAL, {"values": "numeric_tolerance"}, {"pairing": "first"}, 1),
    ],
)
@each("name", ["tool-call-args", "tool-call-output"])
def test_matchers_make_the_best_pairing_the_default(
    name: str, expected: Any, criteria: Any, settings: Any, matched: int
) -> None:
    field, part = ("tool_calls", "args") if name == "tool-call-args" else ("tool_outputs", "output")
    written = {field: [{"name": "a", part: each} for each in expected], **criteria}
    made = [call("a", value, output=value) for value in ({"x": 5, "y": 1}, {"x": 5})]
    assert score(name, written, made, subset=True, **settings).score == matched / 2
    assert score(name, written, made, subset=True, strict=True, **settings).score == float(
        matched == 2 and (name == "tool-call-args" or "pairing" in settings)  # strict outputs are positional
    )


def test_arguments_that_are_no_object_read_as_none() -> None:
    assert score("tool-call-args", _expect(("a", {})), [call("a", "text", arguments_status="text")]).score == 1.0


def test_every_expected_call_is_justified() -> None:
    found = score(
        "tool-call-args",
        _expect(("a", {"x": 1}), ("a", {"x": 2}), ("b", {"y": {"z": [1, 2]}}), ("c", {})),
        [("b", {"y": {"z": [1, 3]}, "secret": "s3cr3t"}), ("a", {"x": 2})],
    )
    assert found.score == 0.25
    assert found.details["explained_tool_calls_args"] == {
        "a_0": 'Actual: not called, Expected: {"x": 1}, Score: 0.0',
        "a_1": 'Actual: {"x": 2}, Expected: {"x": 2}, Score: 1.0',
        "b_0": 'Actual: {"y": {"z": [1, 3]}, "secret": "s3cr3t"}, Expected: {"y": {"z": [1, 2]}}, Score: 0.0',
        "c_0": "Actual: not called, Expected: {}, Score: 0.0",
    }
    assert found.details["differences"] == [
        {"call": "b_0", "path": "args.y.z[1]", "problem": "different", "expected": 2, "found": 3},
        {"call": "b_0", "path": "args.secret", "problem": "unexpected", "found": "s3cr3t"},
    ]
    assert found.explanation == (
        "1 of 4 expected calls were made with the expected arguments; missing: a, c; "
        "mismatched: b args.y.z[1] (different), b args.secret (unexpected)."
    )


few_calls = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.dictionaries(st.sampled_from("xy"), st.sampled_from([0, 1, True, "1"]), max_size=2)
    ),
    max_size=4,
)


@given(few_calls, few_calls, st.booleans(), st.booleans())
@example([("a", {"x": 1})] * 2, [("a", {"x": True}), ("a", {"x": 1})], False, False)
def test_each_expected_call_takes_the_first_that_matches(expected: Any, made: Any, subset: bool, same: bool) -> None:
    made = [*expected, *made] if same else made  # often called as expected, one by one
    free = list(made)
    matched = 0
    for name, args in expected:
        for place, (called, given_args) in enumerate(free):
            found = {key: value for key, value in given_args.items() if key in args} if subset else given_args
            if called == name and json_equal(args, found, Work()):
                del free[place]  # by its place: to Python, true and 1 are equal
                matched += 1
                break
    evaluator = EVALUATORS["tool-call-args"]
    evidence = Evidence([build.call(name, args) for name, args in made])
    score = evaluator.evaluate(
        evidence, evaluator.read_criteria(_expect(*expected)), evaluator.read_settings({"subset": subset})
    )
    nothing = float(not made)
    assert score.score == (matched / len(expected) if expected else nothing)


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({"x": 1, "y": True}, '{"x": 1, "y": true}'),
        ({"y": True, "x": 1.0}, '{"y": true, "x": 1.0}'),  # equal, and written otherwise
        ({"x": 2**70}, '{"x": 1180591620717411303424}'),
    ],
)
def test_a_call_as_expected_is_shown_as_it_was_made(args: dict[str, Any], shown: str) -> None:
    expected = {"x": 1, "y": True} if "y" in args else args
    wanted = '{"x": 1, "y": true}' if "y" in args else shown
    found = score("tool-call-args", _expect(("a", expected)), [("a", args)])
    assert found.details["explained_tool_calls_args"] == {"a_0": f"Actual: {shown}, Expected: {wanted}, Score: 1.0"}


@each("found", ["p", ["p"], 1, None])
def test_what_is_no_object_where_one_is_expected_differs_as_a_whole(found: Any) -> None:
    judged = score("tool-call-args", _expect(("a", {"x": {"p": {"$gte": 1}}})), [("a", {"x": found})])
    [difference] = judged.details["differences"]
    assert (difference["path"], difference["problem"]) == ("args.x", "different")


@pytest.mark.long
def test_details_are_bounded() -> None:
    expected = [("a", {f"k{j}": "x" * 5000 for j in range(50)}) for _ in range(500)]
    found = score("tool-call-args", _expect(*expected), [("a", {"long": "y" * 5000, "list": [[0] * 5000]})] * 500)
    assert len(found.details["explained_tool_calls_args"]) == 200
    assert max(map(len, found.details["explained_tool_calls_args"].values())) < 1000
    assert len(found.details["differences"]) == 20
    assert max(len(str(item)) for item in found.details["differences"]) < 500


def test_nothing_expected_is_said() -> None:
    found = score("tool-call-args", _expect(), ["a"])
    assert found.details["explained_tool_calls_args"] == {"_result": found.explanation}
    assert found.explanation == "No calls were expected, but 1 call was made."


@each(
    ("criteria", "message"),
    [
        ({"tool_calls": [{"name": "a"}]}, r"tool_calls\[0\]: key 'args' is missing"),
        ({"tool_calls": [{"args": {}}]}, r"tool_calls\[0\]: key 'name' is missing"),
        ({"tool_calls": [{"name": 1, "args": {}}]}, r"tool_calls\[0\].name: expected"),
        ({"tool_calls": [{"name": "a", "args": {"x": {"$any": 1}}}]}, r"tool_calls\[0\].args.x.\$any: expected true"),
        ({"calls": []}, "unknown key 'calls'; did you mean 'tool_calls'"),
        ([], "criteria: "),
    ],
)
def test_malformed_criteria_are_refused_with_their_place(criteria: Any, message: str) -> None:
    with pytest.raises(EvaluatorError, match=message) as error:
        score("tool-call-args", criteria, [])
    assert error.value.type == "invalid_criteria"


def test_work_is_bounded() -> None:
    expected = [("a", {"x": i}) for i in range(2000)]
    with pytest.raises(EvaluatorError, match="steps") as error:
        score("tool-call-args", _expect(*expected), [("a", {"x": -1})] * 2000)
    assert error.value.type == "work_bound"
