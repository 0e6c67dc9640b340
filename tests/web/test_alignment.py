"""What is shown beside what: each row of the table is calls made, calls expected, and the lines, worked by hand."""

from collections.abc import Iterator
from typing import Any

import pytest

from build import each
from tracegrade.evaluate import registry
from tracegrade.evaluate.criteria.expected import Difference
from tracegrade.evaluate.evaluator import (
    Evaluator,
    Evidence,
    ExpectedCall,
    ExpectedCalls,
    Pairing,
    ParameterModel,
    Score,
)
from tracegrade.evaluate.work import Work
from tracegrade.model.evaluation import MAX_PAIRS
from tracegrade.model.tool_call import ToolCall
from tracegrade.rule.evaluation_spec import read_item
from tracegrade.web.alignment import NOT_STORED, READ_OTHERWISE, Alignment, aligned, beside


def made(name: str, arguments: Any = None, output: Any = None, batch: int | None = None) -> ToolCall:
    return ToolCall(
        name,
        name,
        None,
        arguments or {},
        "ok",
        output,
        "ok",
        None,
        0,
        0,
        "00f067aa0ba902b8",
        "support",
        "a",
        batch=batch,
    )


def judged(item: dict[str, Any], *calls: ToolCall) -> Alignment | None:
    """What the page shows of the evaluation of `calls`."""
    spec, evidence = read_item(item), Evidence(calls)
    return aligned(spec, evidence, spec.evaluator.evaluate(evidence, spec.criteria, spec.settings).pairing)


def _lines(found: Alignment | None) -> list[tuple[str, int | None, int | None]]:
    assert found is not None
    return [(row.state, row.index, row.position) for row in found.rows]


def lines(item: dict[str, Any], *calls: ToolCall) -> list[tuple[str, int | None, int | None]]:
    return _lines(judged(item, *calls))


def order(*names: str, **settings: Any) -> dict[str, Any]:
    return {"evaluator": "tool-call-order", "tool_calls_order": list(names), **settings}


def args(*calls: tuple[str, dict[str, Any]], **settings: Any) -> dict[str, Any]:
    expected = [{"name": name, "args": arguments} for name, arguments in calls]
    return {"evaluator": "tool-call-args", "tool_calls": expected, **settings}


def steps(*items: Any) -> dict[str, Any]:
    return {"evaluator": "partial-order", "steps": list(items)}


@each(
    ("item", "calls", "expected"),
    [
        pytest.param(
            args(("a", {"x": {"$gte": 0}}), ("a", {"x": {"$gte": 5}})),
            [made("a", {"x": 7}), made("a", {"x": 1})],
            [("matched", 2, 1), ("matched", 1, 2)],
            id="calls are paired as the evaluator pairs them",
        ),
        pytest.param(
            steps("a", {"choice": ["pay", ["invoice", "remind"]]}, "ship"),
            [made("a"), made("pay"), made("ship")],
            [("matched", 1, 1), ("matched", 2, 2), ("matched", 5, 3)],
            id="a branch that was not gone is not missing",
        ),
        pytest.param(
            steps("a", {"choice": ["pay", ["invoice", "remind"]]}, "ship"),
            [made("a"), made("invoice"), made("ship")],
            [("matched", 1, 1), ("matched", 3, 2), ("missing", 4, None), ("matched", 5, 3)],
            id="of a branch that was gone the rest is missing",
        ),
        pytest.param(
            steps({"parallel": ["a", "b"]}, {"tool": "c", "optional": True}, {"tool": "d", "repeat": [1, 3]}),
            [made("b"), made("a"), made("d")],
            [("matched", 2, 1), ("matched", 1, 2), ("matched", 4, 3)],
            id="what may be left out is not missing, and branches have no order",
        ),
        pytest.param(
            steps("a", "b"),
            [made("b"), made("a")],
            [("matched", 2, 1), ("out_of_order", 1, 2)],
            id="a step made too late",
        ),
        pytest.param(order("a", "b"), [made("a"), made("b")], [("matched", 1, 1), ("matched", 2, 2)], id="as expected"),
        pytest.param(
            order("a", "b"), [made("b"), made("a")], [("matched", 2, 1), ("out_of_order", 1, 2)],
            id="swapped, and a longest order keeps one"
        ),
        pytest.param(order("a", "b"), [made("a")], [("matched", 1, 1), ("missing", 2, None)], id="the last is missing"),
        pytest.param(order("a"), [], [("missing", 1, None)], id="nothing was called"),
        pytest.param(
            order("a"), [made("x"), made("a"), made("y")], [("extra", None, 1), ("matched", 1, 2), ("extra", None, 3)],
            id="further calls around it",
        ),
        pytest.param(
            order("a", "b", "c"), [made("c"), made("a"), made("b")],
            [("out_of_order", 3, 1), ("matched", 1, 2), ("matched", 2, 3)], id="the last came first",
        ),
        pytest.param(
            order("a", "b"), [made("b", batch=0), made("a", batch=0)], [("matched", 2, 1), ("matched", 1, 2)],
            id="made together, in any order",
        ),
        pytest.param(
            args(("a", {"x": 1})), [made("a", {"x": 2}), made("a", {"x": 1})], [("extra", None, 1), ("matched", 1, 2)],
            id="the one whose arguments fit",
        ),
        pytest.param(args(("a", {"x": 1})), [made("a", {"x": 2})], [("differs", 1, 1)], id="other arguments"),
        pytest.param(
            args(("a", {"x": 1}), ("b", {})), [made("b"), made("a", {"x": 1})], [("matched", 2, 1), ("matched", 1, 2)],
            id="order does not count",
        ),
        pytest.param(
            {"evaluator": "tool-call-output", "tool_outputs": [{"name": "a", "output": {"ok": True}}]},
            [made("a", output={"ok": False})], [("differs", 1, 1)], id="another output",
        ),
        pytest.param(
            {"evaluator": "trajectory", "match": "any_order", "tool_calls": [{"name": ["a", "b"]}]}, [made("b")],
            [("matched", 1, 1)], id="any of several tools",
        ),
        pytest.param(
            {"evaluator": "tool-case", "expected_tool": "a", "expected_params": {"x": 1}},
            [made("a", {"x": 1, "y": 2})], [("matched", 1, 1)], id="a case, further parameters are free",
        ),
    ],
)  # fmt: skip
def test_lines(item: dict[str, Any], calls: list[ToolCall], expected: list[tuple[str, int | None, int | None]]) -> None:
    assert lines(item, *calls) == expected


def _found(item: dict[str, Any], *calls: ToolCall) -> Alignment:
    found = judged(item, *calls)
    assert found is not None
    return found


def test_differences_are_told_by_path() -> None:
    (row,) = _found(args(("a", {"x": {"y": 1}, "z": 2})), made("a", {"x": {"y": 3}, "w": 4})).rows
    told = [(item.path, item.problem, item.expected, item.found) for item in row.differences]
    assert told == [
        (("x", "y"), "different", 1, 3),
        (("z",), "missing", 2, None),
        (("w",), "unexpected", None, 4),
    ]


def test_matchers_that_hold_are_no_difference() -> None:
    (row,) = _found(args(("a", {"x": {"$gte": 2}})), made("a", {"x": 3})).rows
    assert row.state == "matched"


def test_a_value_that_came_from_an_earlier_call_is_no_difference() -> None:
    item = args(("b", {"id": {"$from": "a.output.id"}}))
    seen = made("a", output={"id": 7})
    assert lines(item, seen, made("b", {"id": 7})) == [("extra", None, 1), ("matched", 1, 2)]
    assert lines(item, seen, made("b", {"id": 8})) == [("extra", None, 1), ("differs", 1, 2)]


def test_a_thousand_further_calls_are_one_line() -> None:
    found = _found(order("a"), *(made(f"x{number}") for number in range(1000)), made("a"))
    assert [(row.state, len(row.folded)) for row in found.rows] == [("extra", 999), ("matched", 0)]
    assert found.count("extra") == 1000


def test_what_compares_no_calls_has_no_lines() -> None:
    item = {"evaluator": "contains", "search_text": "x"}
    assert judged(item, made("a")) is None


def test_what_takes_too_much_work_is_left_out() -> None:
    calls = [made("a", {"x": [*range(300)], "y": number}) for number in range(700)]
    expected = [("a", {"x": [*range(300)], "y": number}) for number in range(700)]
    assert judged(args(*expected), *calls) is None


def test_seven_hundred_calls_none_of_which_fits_are_shown() -> None:
    calls = [made("a", {"x": number}) for number in range(700)]
    found = judged(args(*[("a", {"x": -number - 1}) for number in range(700)]), *calls)
    assert found is not None
    assert found.count("differs") == 700


def test_a_result_without_pairs_has_its_calls_apart_and_says_so() -> None:
    spec, evidence = read_item(order("a", "b")), Evidence([made("b"), made("a")])
    found = aligned(spec, evidence, None)
    assert _lines(found) == [("apart", 1, None), ("apart", 2, None), ("apart", None, 1), ("apart", None, 2)]
    assert found is not None
    assert found.note == NOT_STORED
    many = aligned(spec, Evidence([made("a")] * 1000), None)
    assert many is not None
    assert [len(row.folded) for row in many.rows] == [0, 0, 999]


@each("pairing", [Pairing([0, 2]), Pairing([0]), Pairing([0, 1, None])])
def test_pairs_of_other_calls_than_are_read_now_are_not_shown(pairing: Pairing) -> None:
    found = aligned(read_item(order("a", "b")), Evidence([made("a"), made("b")]), pairing)
    assert found is not None
    assert {row.state for row in found.rows} == {"apart"}
    assert found.note == READ_OTHERWISE


def test_beyond_a_thousand_expected_calls_the_page_says_which_it_shows() -> None:
    spec, evidence = read_item(order(*["a"] * 1001)), Evidence([made("a")] * 1001)
    pairing = spec.evaluator.evaluate(evidence, spec.criteria, spec.settings).pairing
    assert pairing is not None
    found = aligned(spec, evidence, Pairing(pairing.positions[:MAX_PAIRS]))
    assert found is not None
    assert [found.count("matched"), found.count("missing"), found.count("extra")] == [1000, 0, 1]
    assert found.note == "The pairs of the first 1,000 of 1,001 expected calls are stored; the others are not shown."


@each(
    ("item", "calls", "expected"),
    [
        pytest.param(
            {"evaluator": "tool-case", "expected_tool": "a"},
            [made("b"), made("a")],
            [("extra", None, 1), ("out_of_order", 1, 2)],
            id="tool-case scores the first call alone",
        ),
        pytest.param(
            {"evaluator": "trajectory", "match": "exact", "tool_calls": ["a", "b"]},
            [made("a"), made("x"), made("b")],
            [("matched", 1, 1), ("extra", None, 2), ("out_of_order", 2, 3)],
            id="trajectory with match: exact compares position by position",
        ),
        pytest.param(
            order("a", "b", strict=True),
            [made("a"), made("x"), made("b")],
            [("matched", 1, 1), ("extra", None, 2), ("matched", 2, 3)],
            id="a strict order is compared as a whole",
        ),
        pytest.param(
            {"evaluator": "trajectory", "tool_calls": [{"name": "a", "args": {"x": 1}}, "b"]},
            [made("a", {"x": 2}), made("b")],
            [("differs", 1, 1), ("matched", 2, 2)],
            id="a call with other arguments in its place",
        ),
        pytest.param(
            {"evaluator": "ragas-tool-call-f1", "reference_tool_calls": [{"name": "a"}, {"name": "a"}]},
            [made("a"), made("a")],
            [("matched", 1, 1), ("extra", None, 2)],
            id="ragas-tool-call-f1 counts repeated calls once",
        ),
        pytest.param(
            {"evaluator": "ragas-tool-call-accuracy", "reference_tool_calls": [{"name": "a"}, {"name": "b"}]},
            [made("b")],
            [("missing", 1, None), ("matched", 2, 1)],
            id="ragas-tool-call-accuracy, where the names are not those expected",
        ),
        pytest.param(
            {
                "evaluator": "tool-call-output",
                "strict": True,
                "tool_outputs": [{"name": "a", "output": output} for output in "xy"],
            },
            [made("a", output="y"), made("a", output="y")],
            [("differs", 1, 1), ("matched", 2, 2)],
            id="strict outputs are compared turn by turn",
        ),
    ],
)  # fmt: skip
def test_the_pairs_are_those_of_the_score(
    item: dict[str, Any], calls: list[ToolCall], expected: list[tuple[str, int | None, int | None]]
) -> None:
    assert lines(item, *calls) == expected


class CalledEarly:
    """An evaluator that an installed package might add: it expects one tool, and may say so wrongly."""

    class Criteria(ParameterModel):
        tool: str
        broken: bool = False

    class Settings(ParameterModel):
        within: int = 3

    @staticmethod
    def score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
        names = [call.name for call in evidence.calls]
        place = names.index(criteria.tool) if criteria.tool in names else None
        return Score(float(place is not None and place < settings.within), pairing=Pairing([place]))

    @staticmethod
    def expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
        if criteria.broken:
            raise ZeroDivisionError
        return ExpectedCalls([ExpectedCall([criteria.tool], arguments={"id": 1}, differ=CalledEarly.differ)])

    @staticmethod
    def differ(evidence: Evidence, position: int, work: Work) -> list[Difference]:
        found = (evidence.calls[position].arguments or {})["id"]
        return [] if found == 1 else [Difference(("id",), "different", expected=1, found=found)]


@pytest.fixture
def called_early() -> Iterator[None]:
    evaluator = Evaluator(
        name="called-early",
        summary="Was a tool called within the first calls of the run?",
        Criteria=CalledEarly.Criteria,
        Settings=CalledEarly.Settings,
        score=CalledEarly.score,
        expected_calls=CalledEarly.expected_calls,
    )
    registry.put_beside([evaluator], {evaluator.name: registry.Package("acme-evaluators", "2.0")})
    yield
    registry.put_beside([], {})


@pytest.mark.usefixtures("called_early")
def test_what_the_evaluator_of_a_package_expects_is_shown_too() -> None:
    item = {"evaluator": "called-early", "tool": "find"}
    calls = [made("login"), made("find", {"id": 2})]
    assert lines(item, *calls) == [("extra", None, 1), ("differs", 1, 2)]
    found = judged(item, *calls)
    assert found is not None
    assert [(row.expected.arguments, row.differences[0].found) for row in found.rows if row.expected is not None] == [
        ({"id": 1}, 2)
    ]
    assert lines(item, made("find", {"id": 1})) == [("matched", 1, 1)]


@pytest.mark.usefixtures("called_early")
def test_a_mistake_in_it_leaves_the_evaluation_without_a_comparison() -> None:
    item = {"evaluator": "called-early", "tool": "find"}
    assert judged({**item, "broken": True}, made("find", {"id": 1})) is None
    assert judged(item, made("find")) is None  # its differ finds no id


def test_an_evaluator_that_expects_no_particular_calls_has_none() -> None:
    assert judged({"evaluator": "budget", "max_calls": 3}, made("a")) is None


def calls(*named: tuple[str, Any]) -> list[ToolCall]:
    return [made(name, arguments) for name, arguments in named]


def states(one: list[ToolCall], other: list[ToolCall]) -> list[str]:
    found = beside(one, other)
    assert found is not None
    return [row.state for row in found.rows]


def test_calls_are_aligned_by_name_in_their_order_and_compared_by_arguments() -> None:
    a, b, c = ("a", {"x": 1}), ("b", {"x": [1, {"y": 2}]}), ("c", {})
    assert states(calls(a, b, c), calls(a, b, c)) == ["matched"] * 3
    assert states(calls(a, b), calls(a, c, b)) == ["matched", "extra", "matched"]
    assert states(calls(a, b, c), calls(a, c)) == ["matched", "missing", "matched"]
    # Of two calls of one name, the equal one is the partner.
    assert states(calls(a), calls(("a", {"x": 2}), a)) == ["extra", "matched"]
    assert states(calls(("a", True)), calls(("a", 1))) == ["differs"]
    assert states([], []) == []
    found = beside(calls(b), calls(("b", {"x": [1, {"z": 2}]})))
    assert found is not None
    (row,) = found.rows
    assert [(item.path, item.problem) for item in row.differences] == [
        (("x", 1, "y"), "missing"),
        (("x", 1, "z"), "unexpected"),
    ]


def test_what_would_take_too_long_is_not_aligned() -> None:
    many = calls(*[("a", {"n": number}) for number in range(2000)])
    assert beside(many, many) is None
