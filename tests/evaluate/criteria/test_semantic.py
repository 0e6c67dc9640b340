from collections.abc import Iterator

import pytest

from tracegrade.evaluate.criteria import semantic
from tracegrade.evaluate.criteria.compile import compile_expected
from tracegrade.evaluate.work import Work


class Letters:
    """A model for which texts of the same letters mean the same."""

    version = "1"

    def similarity(self, left: str, right: str) -> float:
        return len(set(left) & set(right)) / len(set(left) | set(right))


@pytest.fixture
def letters() -> Iterator[None]:
    with semantic.comparing_by(Letters()):
        yield


@pytest.mark.usefixtures("letters")
def test_a_text_matches_when_the_model_says_it_is_near() -> None:
    criterion = compile_expected({"$semantic": {"text": "abcd", "at_least": 0.75}})
    assert criterion.matches("dcba", Work())
    assert criterion.matches("abc", Work())
    assert not criterion.matches("ab", Work())
    assert not criterion.matches(None, Work())


@pytest.mark.usefixtures("letters")
def test_the_steps_are_those_of_two_embeddings() -> None:
    def steps(text: str) -> int:
        work = Work()
        compile_expected({"$semantic": "abc"}).matches(text, work)
        return work.limit - work.left

    assert steps("abc") > 500
    assert steps("a" * 1000) > steps("abc") + 3000
    assert steps("a" * 100_000) < 20_000, "the model reads no more than the beginning"
