"""Matchers against any JSON value: they answer, or stop at the bound; and results do not depend on the interpreter."""

import os
import subprocess
import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from build import each
from evaluate.matcher_examples import EXAMPLES
from tracegrade.evaluate.criteria.compile import compile_expected
from tracegrade.evaluate.criteria.expected import differences
from tracegrade.evaluate.criteria.registry import MATCHERS_BY_WORD
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.json_values import excerpt, json_equal
from tracegrade.evaluate.work import WORK_LIMIT, Work

# With surrogates that have no partner, integers of any size, and what compares oddly.
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["", "\ud800", "1", "1.0", "nan", "infinity", "true", "Straße", "STRASSE"])
)
keys = st.text(max_size=5).filter(lambda key: not key.startswith("$"))  # an object of such keys is a matcher
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner), max_leaves=12)
texts = st.text(max_size=12)
numbers = st.integers(-1000, 1000) | st.floats(-1e6, 1e6)
CRITERIA: dict[str, Any] = {
    "$case_insensitive": values,
    "$contains": texts | numbers,
    "$regex": st.sampled_from(["", "a+b", "(?i)x", "^[0-9]+$", "(a*)*b"]),
    "$glob": st.sampled_from(["*", "a?b", "[ab]*", "?"]),
    "$similarity": texts | st.fixed_dictionaries({"text": texts, "at_least": st.floats(0.1, 1)}),
    "$numeric_tolerance": numbers | st.fixed_dictionaries({"value": numbers, "epsilon": st.floats(0, 10)}),
    "$gte": numbers | texts,
    "$gt": numbers | texts,
    "$lte": numbers | texts,
    "$lt": numbers | texts,
    "$type": st.sampled_from(["string", "integer", "number", "object", "array", "boolean", "null"]),
    "$length": st.integers(0, 5) | st.just({"$gte": 2}),
    "$schema": st.sampled_from([True, False, {"type": "string"}, {"items": {"$ref": "#"}}, {"minimum": 1}]),
    "$one_of": st.lists(values.map(lambda value: {"$literal": value}), min_size=1, max_size=3),
    "$secret": st.just(True),
    "$any": st.just(True),
    "$absent": st.just(True),
}
# Of any other, the example of the reference. $semantic needs a model, $from a run: both have tests of their own.
for other in MATCHERS_BY_WORD.keys() - CRITERIA.keys() - {"$semantic", "$from"}:
    CRITERIA[other] = st.just(EXAMPLES[other].argument)


@each("word", CRITERIA)
@given(data=st.data(), value=values)
def test_a_matcher_answers_any_value(word: str, data: st.DataObject, value: Any) -> None:
    expected = compile_expected({word: data.draw(CRITERIA[word])})
    work = Work()
    assert expected.matches(value, work) in (True, False)
    assert WORK_LIMIT - work.left < 10_000
    # The same again, and within an object; where it does not hold there is a difference to show, else none.
    assert expected.matches(value, Work()) is expected.matches(value, Work())
    inside = compile_expected({"a": expected.source})
    assert inside.matches({"a": value}, Work()) is expected.matches(value, Work())
    assert bool(list(differences(inside, {"a": value}, Work()))) is not expected.matches(value, Work())


@each("word", CRITERIA)
@given(data=st.data(), value=values, limit=st.integers(0, 3))
def test_a_matcher_stops_at_the_bound_and_at_nothing_else(
    word: str, data: st.DataObject, value: Any, limit: int
) -> None:
    expected = compile_expected({word: data.draw(CRITERIA[word])})
    work = Work(limit)
    try:
        found = expected.matches(value, work)
    except EvaluatorError:  # of any other kind there is none: criteria and settings are read before
        assert work.left < 0
        return
    assert work.left >= 0
    assert found is expected.matches(value, Work())


@given(left=values, right=values)
def test_equality_is_symmetric_and_so_are_folded_letters(left: Any, right: Any) -> None:
    assert json_equal(left, right, Work()) is json_equal(right, left, Work())
    for word in ("$literal", "$case_insensitive"):
        forth = compile_expected({word: left}).matches(right, Work())
        assert forth is compile_expected({word: right}).matches(left, Work())
        assert compile_expected({word: left}).matches(left, Work())


@given(one=numbers, other=numbers, epsilon=st.floats(0, 10))
def test_a_tolerance_is_symmetric(one: Any, other: Any, epsilon: float) -> None:
    forth, back = (
        compile_expected({"$numeric_tolerance": {"value": a, "epsilon": epsilon}}).matches(b, Work())
        for a, b in ((one, other), (other, one))
    )
    assert forth is back


@given(one=texts, other=texts, at_least=st.floats(0.1, 1))
def test_similarity_is_symmetric(one: str, other: str, at_least: float) -> None:
    forth, back = (
        compile_expected({"$similarity": {"text": a, "at_least": at_least}}).matches(b, Work())
        for a, b in ((one, other), (other, one))
    )
    assert forth is back


@given(value=values, limit=st.integers(0, 60))
def test_an_excerpt_is_the_beginning_of_the_text(value: Any, limit: int) -> None:
    whole, cut = excerpt(value, 1_000_000), excerpt(value, limit)
    assert cut == (whole if len(whole) <= limit else whole[:limit] + "…")


def test_results_are_the_same_for_any_hash_seed() -> None:
    program = """
import hashlib, json, sys
from pathlib import Path
from tracegrade.judge_case import judge_case
said = hashlib.sha256()
for path in sorted(Path(sys.argv[1]).glob("*.json")):
    for case in json.loads(path.read_text())["cases"]:
        said.update(json.dumps(judge_case(case).to_json()).encode())
print(said.hexdigest())
"""
    vectors = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "conformance", "vectors")
    said = set()
    for seed in ("0", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", program, vectors],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        said.add(done.stdout)
    assert len(said) == 1
