"""Steps are in proportion to the work: what takes the machine longer counts more, so that the bound means as much."""

import pytest

from build import call
from tracegrade.evaluate.criteria.compile import compile_expected
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue


def steps(expected: JsonValue, actual: JsonValue, *, output: JsonValue = None) -> int:
    """The steps of one comparison; a call before gave `output`."""
    calls = [call("page", {}, output=output), call("send", {"q": actual}, start_ns=10, end_ns=11)]
    work = Work(evidence=Evidence(calls, "Hello", "Bye"))
    work.position = 1
    compile_expected(expected).matches(actual, work)
    return work.limit - work.left


@pytest.mark.parametrize(
    ("less", "more", "times"),
    [
        # An expression that may follow all of its parts at each byte counts all of them.
        ({"$regex": "refund"}, {"$regex": "a[ab]{500}c"}, 100),
        ({"$regex": "a[ab]{50}c"}, {"$regex": "a[ab]{500}c"}, 8),
        ({"$regex": "(?i)\\b(refund|chargeback)\\b"}, {"$regex": "(a|b)*a[ab][ab][ab][ab]c"}, 5),
        # Both texts are read, and each part of one is compared with each of the other.
        ({"$similarity": "a"}, {"$similarity": "a" * 10_000}, 20),
    ],
)
def test_an_expectation_that_takes_longer_counts_more(less: JsonValue, more: JsonValue, times: int) -> None:
    text = "ab" * 5000
    assert steps(more, text) > times * steps(less, text)


@pytest.mark.parametrize(
    ("actual", "output", "least"),
    [
        ("x y " * 1000, "x y", 2000),  # each word of a text that is looked for
        ([[]] * 1000, "x", 2000),  # each value inside, if it holds nothing
        ("a.a", "a.aa " * 1000 + "a", 5000),  # each place where it stands inside of a word
    ],
)
def test_a_value_from_elsewhere_counts_all_that_is_looked_at(actual: JsonValue, output: JsonValue, least: int) -> None:
    assert steps({"$from": "page.output"}, actual, output=output) > least


@pytest.mark.parametrize(
    ("source", "sought", "output"),
    [
        ("page.output", "a b", "c " * 2_600_000),
        ("page.output", 7.5, "1 " * 2_600_000),
        ("page.output", 7.5, [1] * 300_000),
        ("page.output", True, [False] * 300_000),
        ("page.output[*]", 7.5, [1] * 300_000),
    ],
    ids=["words", "numbers in a text", "numbers", "true and false", "items of a path"],
)
@pytest.mark.parametrize("which", ["any", "first", "last"])
def test_reading_a_source_is_work_of_each_evaluation(
    source: str, sought: JsonValue, output: JsonValue, which: str
) -> None:
    """Also of a second one over the same run, for which it was read before."""
    calls = [call("page", {}, output=output), call("send", {"q": sought}, start_ns=10, end_ns=11)]
    evidence = Evidence(calls, "Hello", "Bye")
    expected = compile_expected({"$from": {"source": source, "call": which}})
    for _ in range(2):
        work = Work(evidence=evidence)
        work.position = 1
        with pytest.raises(EvaluatorError, match="more than 5000000 steps"):
            expected.matches(sought, work)


def test_a_source_is_read_once_for_all_values_of_an_evaluation() -> None:
    calls = [call("page", {}, output="a b " * 100_000), call("send", {}, start_ns=10, end_ns=11)]
    work = Work(evidence=Evidence(calls, "Hello", "Bye"))
    work.position = 1
    expected = compile_expected({"$from": "page.output"})
    assert all(expected.matches("a b", work) for _ in range(100))


@pytest.mark.parametrize(
    "output",
    [
        "1 " * 250_000,  # each may be a number, an amount or a date
        "+1-" * 400_000,
        [1] * 700_000,
        {str(number): number for number in range(300_000)},
    ],
    ids=["numbers in a text", "characters", "numbers", "keys"],
)
def test_reading_outputs_is_work_of_each_answer(output: JsonValue) -> None:
    """Also of a second one over the same run, for which they were read before."""
    judge = EVALUATORS["grounded-answer"]
    evidence = Evidence([call("page", {}, output=output)], "Hello", "It costs 12 EUR.")
    for _ in range(2):
        with pytest.raises(EvaluatorError, match="more than 5000000 steps"):
            judge.evaluate(evidence, judge.read_criteria({}), judge.read_settings({}))


def test_long_prose_is_read_without_its_characters_being_counted_one_by_one() -> None:
    judge = EVALUATORS["grounded-answer"]
    prose = "Words without any of it, and more of them.\n\n" * 100_000
    evidence = Evidence([call("page", {}, output=prose + "12 EUR")], "Hello", "It costs 12 EUR.")
    assert judge.evaluate(evidence, judge.read_criteria({}), judge.read_settings({})).score == 1.0


def test_rounding_what_was_given_is_work() -> None:
    judge = EVALUATORS["grounded-answer"]
    output = [number + 0.25 for number in range(100_000)]
    answer = " ".join(f"0.{'1' * places}" for places in range(1, 30))
    evidence = Evidence([call("page", {}, output=output)], "Hello", answer)
    with pytest.raises(EvaluatorError, match="more than 5000000 steps"):
        judge.evaluate(evidence, judge.read_criteria({}), judge.read_settings({"sums": False}))


@pytest.mark.parametrize(
    ("evaluator", "criteria", "answer"),
    [
        ("grounded-answer", {}, "1 EUR, " * 200_000),
        ("grounded-answer", {"names": [f"Ann {number}" for number in range(1000)]}, "Ann Bob " * 12_000),
        ("data-flow", {"returned_by": "page", "given_to": "send"}, ""),
    ],
)
def test_what_would_take_long_is_refused(evaluator: str, criteria: dict[str, JsonValue], answer: str) -> None:
    calls = [call("page", {}, output="a" * 1_000_000)]
    calls += [call("send", {"to": f"nobody-{n}"}, start_ns=10 + n, end_ns=10 + n) for n in range(2500)]
    judge = EVALUATORS[evaluator]
    with pytest.raises(EvaluatorError, match="more than 5000000 steps"):
        judge.evaluate(Evidence(calls, "Hello", answer), judge.read_criteria(criteria), judge.read_settings({}))
