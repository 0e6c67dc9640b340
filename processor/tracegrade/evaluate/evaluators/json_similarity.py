"""json-similarity: how near is the final answer to the expected one, leaf by leaf?

The share of the expected value's leaves that match. A number matches by 1 - |expected - actual| / |expected|, at least
0 (0 is matched by 0 alone); a text by 1 - edits / length of the longer; true, false and null when equal. What is of
another type matches none of its leaves; further members and items are free, lists are compared by position. Nothing
expected is 1. A matcher is one leaf.
"""

from tracegrade.evaluate.compare.final_answer import (
    AnswerSettings,
    OutputCriteria,
    absent_score,
    compared,
    judge_lines,
    unread_settings,
)
from tracegrade.evaluate.criteria.expected import Expected, ExpectedList, ExpectedObject, LiteralValue
from tracegrade.evaluate.criteria.parameters import DefaultCriteria
from tracegrade.evaluate.evaluator import Evaluator, same_score
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue

_NO_NUMBER = 1e-12  # an expected number nearer to 0 than this is 0
# The machine compares 64 characters with one at once; a step is some of those.
_CHARACTER_PAIRS_PER_STEP = 16_384


class Settings(AnswerSettings):
    """Which part of the answer is judged."""

    default_evaluation_criteria: DefaultCriteria[OutputCriteria] = None


def _score(evidence: Evidence, criteria: OutputCriteria, settings: Settings) -> Score:
    sides = compared(evidence, criteria, settings)
    if sides is None:
        return absent_score(settings)
    work = Work(evidence=evidence)
    details = sides.details
    if (lines := sides.lines(settings)) is not None:
        score, details["lines"] = judge_lines(
            *lines, settings, lambda wanted, found: text_similarity(wanted, found, work)
        )
        return Score(score, details, "The lines of the answer are compared one by one.")
    matched, total = (1.0, 1) if sides.meets_matcher(work) else _compare(sides.expected, sides.decoded(), work)
    details |= {"matched_leaves": matched, "total_leaves": float(total)}
    text = f"{matched:.2f} of {total} expected {'leaf matches' if total == 1 else 'leaves match'}."
    return Score(min(1.0, matched / total) if total else 1.0, details, text)


def _compare(expected: Expected, actual: JsonValue, work: Work) -> tuple[float, int]:
    """How much of the expected leaves matches, and how many there are; no recursion."""
    matched, total = 0.0, 0
    pairs: list[tuple[Expected, JsonValue, bool]] = [(expected, actual, True)]
    while pairs:
        wanted, found, there = pairs.pop()
        work.spend()
        opened = wanted.opened()
        if isinstance(opened, ExpectedObject):
            inside = found if there and isinstance(found, dict) else {}
            pairs.extend((member, inside.get(key), key in inside) for key, member in opened.members.items())
        elif isinstance(opened, ExpectedList):
            items = found if there and isinstance(found, list) else []
            pairs.extend(
                (item, items[i] if i < len(items) else None, i < len(items)) for i, item in enumerate(opened.items)
            )
        else:
            total += 1
            matched += _leaf(opened, found, work) if there else 0.0
    return matched, total


def _leaf(expected: Expected, actual: JsonValue, work: Work) -> float:
    wanted = expected.source
    if not isinstance(expected, LiteralValue) or isinstance(wanted, bool) or wanted is None:
        return float(expected.matches(actual, work))
    if isinstance(wanted, str):
        return text_similarity(wanted, actual, work) if isinstance(actual, str) else 0.0
    if isinstance(wanted, dict | list) or isinstance(actual, bool) or not isinstance(actual, int | float):
        return 0.0
    return _number_similarity(wanted, actual)


def _number_similarity(expected: float | int, actual: float | int) -> float:
    if abs(expected) <= _NO_NUMBER:
        return float(abs(actual) <= _NO_NUMBER)
    if expected == actual:
        return 1.0
    try:
        return max(0.0, 1 - abs(expected - actual) / abs(expected))
    except OverflowError:  # one is beyond what a float holds, so they are far apart
        return 0.0


def text_similarity(left: str, right: str, work: Work) -> float:
    """1 - edits (insert, delete, replace) / length of the longer; two empty texts are alike.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    from rapidfuzz.distance import Levenshtein  # 40 ms, for the rules that say so

    work.spend(1 + len(left) * len(right) // _CHARACTER_PAIRS_PER_STEP)
    return Levenshtein.normalized_similarity(left, right)


EVALUATOR = Evaluator(
    name="json-similarity",
    summary="How near is the final answer to the expected one, leaf by leaf?",
    Criteria=OutputCriteria,
    Settings=Settings,
    score=_score,
    with_further_calls=same_score,
    never_scores=unread_settings,
    reads=frozenset({"final_answer"}),
)
