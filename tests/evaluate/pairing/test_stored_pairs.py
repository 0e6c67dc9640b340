"""The pairing that is stored is the one that scored: the score is worked out again from the pairs alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import harmonic_mean, mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import build
from build import each
from build.records import summary_of
from tracegrade.codec.results import decode_result, encode_result, new_result
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.work import Work
from tracegrade.model.evaluation import MAX_PAIRS, Decision, Evaluation, JudgedSubject, Pair, Pairing
from tracegrade.model.tool_call import ToolCall

ARGUMENTS: list[dict[str, Any]] = [{}, {"x": 1}, {"x": 2}, {"x": 1, "y": 2}]
MATCHERS = [{"x": {"$gte": 1}}, {"x": {"$one_of": [1, 2]}, "y": {"$any": True}}]
WORDS = st.sampled_from([{}, {"pairing": "first"}, {"pairing": "best"}, {"pairing": "positional"}])
STRICT = st.sampled_from([{}, {"strict": True}])
CONCURRENCY = st.sampled_from([{}, {"concurrency": "sequential"}])


def settings(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*parts).map(lambda drawn: {key: value for part in drawn for key, value in part.items()})


def one_of(name: str, *values: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from([{name: value} for value in values])


@dataclass
class Paired:
    """What a score is worked out from: the criteria, the calls made, and which of them is stored as which."""

    criteria: Any
    settings: Any
    evidence: Evidence
    differs: Callable[[int, int], bool]
    positions: Sequence[int | None]
    not_asked: set[int]

    @property
    def made(self) -> Sequence[ToolCall]:
        return self.evidence.calls

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return [(index, position) for index, position in enumerate(self.positions) if position is not None]

    @property
    def all_fit(self) -> bool:
        return not any(self.differs(*pair) for pair in self.pairs)


def f1(matched: float, expected: int, made: int) -> float:
    return harmonic_mean([matched / expected, matched / made]) if expected and made else 0.0


def in_order(of: Paired) -> bool:
    """Whether the pairs follow each other, calls of a group in any order."""
    concurrency = getattr(of.settings, "concurrency", "sequential")
    groups = of.evidence.once(Timeline).groups(concurrency)
    number = {position: place for place, group in enumerate(groups) for position in group}
    found = [number[position] for _, position in of.pairs]
    return found == sorted(found)


def order(of: Paired) -> float:
    assert in_order(of)
    if of.settings.strict:
        return float(len(of.pairs) == len(of.positions) == len(of.made))
    return len(of.pairs) / len(of.positions)


def one_by_one(of: Paired) -> float:
    assert of.all_fit
    if not of.positions:
        return float(not of.made)
    share = len(of.pairs) / len(of.positions)
    return float(share == 1.0) if of.settings.strict else share


def accuracy(of: Paired) -> float:
    if of.settings.mode == "strict":
        assert of.all_fit
    return f1(len(of.pairs), len(of.positions), len(of.made))


def trajectory(of: Paired) -> float:
    prepared = of.criteria.prepared(of.settings)
    if of.settings.call_credit == "binary":
        assert of.all_fit
        worth = float(len(of.pairs))
    else:
        worth = sum(
            prepared.comparisons[index].share(of.made[position].arguments or {}, Work()) for index, position in of.pairs
        )
    expected, made = len(of.positions), len(of.made)
    ordered = of.settings.match in ("exact", "in_order")
    assert not ordered or in_order(of)
    if of.settings.score == "binary":
        holds = {
            "subset": worth >= made - 1e-9,
            "unordered": expected == made and worth >= expected - 1e-9,
            "exact": expected == made and worth >= expected - 1e-9,
        }
        return float(holds.get(of.settings.match, worth >= expected - 1e-9))
    recall = worth / expected if expected else float(not made)
    precision = worth / made if made else float(not expected)
    if of.settings.score == "f1":
        return harmonic_mean([recall, precision])
    return recall if of.settings.score == "recall" else precision


def partial_order(of: Paired) -> float:
    plain = of.criteria.read.plain
    required = [index for index in range(len(plain)) if not plain[index].optional and index not in of.not_asked]
    gained = sum(0.5 if of.differs(*pair) else 1.0 for pair in of.pairs if pair[0] in required)
    extra = len(of.made) - len(of.pairs) if of.settings.extra == "count" else 0
    return gained / (len(required) + extra) if required or extra else 1.0


def ragas_f1(of: Paired) -> float:
    assert of.all_fit
    made = len({(call.name, repr(sorted((call.arguments or {}).items()))) for call in of.made})
    return round(f1(len(of.pairs), len(of.positions) - len(of.not_asked), made), 4)


def ragas_accuracy(of: Paired) -> float:
    if not len(of.pairs) == len(of.positions) == len(of.made):
        return float(not of.positions and not of.made)
    assert not of.settings.strict_order or in_order(of)
    if not of.pairs:
        return 1.0
    return mean(
        sum((of.made[position].arguments or {}).get(key) == value for key, value in expected.items()) / len(expected)
        if (expected := of.criteria.reference_tool_calls[index].args.source)
        else float(not of.made[position].arguments)
        for index, position in of.pairs
    )


NAMES = st.sampled_from("ab")
CALLS = st.lists(st.fixed_dictionaries({"name": NAMES, "args": st.sampled_from(ARGUMENTS)}), min_size=1, max_size=5)
LOOSE = st.lists(
    st.fixed_dictionaries({"name": NAMES, "args": st.sampled_from([*ARGUMENTS, *MATCHERS])}), max_size=5
)  # fmt: skip
OUTPUTS = st.lists(
    st.fixed_dictionaries({"name": NAMES, "output": st.sampled_from([*ARGUMENTS, *MATCHERS])}), max_size=5
)  # fmt: skip
STEP = st.fixed_dictionaries(
    {"tool": st.sampled_from("abc")},
    optional={"args": st.sampled_from(MATCHERS), "optional": st.booleans(), "repeat": st.just([1, 2])},
)
STEPS = st.lists(
    STEP | st.lists(STEP | NAMES, min_size=2, max_size=2).flatmap(
        lambda branches: st.sampled_from([{"parallel": branches}, {"choice": branches}])
    ),
    min_size=1,
    max_size=3,
).map(lambda steps: [*steps, "a"])  # fmt: skip
# Of each evaluator: its criteria, its settings, and the score that pairs give.
KINDS: dict[str, tuple[str, st.SearchStrategy[Any], st.SearchStrategy[dict[str, Any]], Callable[[Paired], float]]] = {
    "tool-call-order": (
        "tool_calls_order",
        st.lists(NAMES, min_size=1, max_size=5),
        settings(STRICT, CONCURRENCY),
        order,
    ),
    "tool-call-args": ("tool_calls", LOOSE, settings(WORDS, STRICT, one_of("subset", False, True)), one_by_one),
    "tool-call-output": ("tool_outputs", OUTPUTS, settings(WORDS, STRICT, one_of("subset", False, True)), one_by_one),
    "tool-call-accuracy": (
        "reference_tool_calls",
        LOOSE.filter(bool),
        settings(WORDS, one_of("mode", "strict", "flexible"), one_of("argument_match_threshold", 0.3, 0.8)),
        accuracy,
    ),
    "trajectory": (
        "tool_calls",
        LOOSE,
        settings(
            WORDS,
            CONCURRENCY,
            one_of("match", "exact", "in_order", "any_order", "unordered", "subset"),
            one_of("score", "binary", "recall", "precision", "f1"),
            one_of("call_credit", "binary", "fractional"),
        ),
        trajectory,
    ),
    "partial-order": ("steps", STEPS, settings(CONCURRENCY, one_of("extra", "ignore", "count")), partial_order),
    "ragas-tool-call-f1": ("reference_tool_calls", CALLS, settings(), ragas_f1),
    "ragas-tool-call-accuracy": (
        "reference_tool_calls",
        CALLS,
        settings(one_of("strict_order", True, False)),
        ragas_accuracy,
    ),
}


@st.composite
def calls_made(draw: st.DrawFn) -> list[ToolCall]:
    """Calls of which some start at once, and some were made together."""
    starts = sorted(draw(st.lists(st.integers(1, 4), max_size=6)))
    return [
        build.call(
            draw(NAMES),
            draw(st.sampled_from(ARGUMENTS)),
            output=draw(st.sampled_from(ARGUMENTS)),
            start_ns=start,
            batch=draw(st.sampled_from([None, start])),
            turn=draw(st.sampled_from([None, 1])),
        )
        for start in starts
    ]


def stored(pairing: Pairing) -> Pairing:
    """`pairing` as it is read from what is stored of it."""
    subject = JudgedSubject(
        "default", "live", f"{1:032x}", 1, "settled", True, [], None, *["a"] * 2, "", None, "", "", 0
    )
    evaluation = Evaluation(
        Pair(subject, "r", "h", "low"), "", "e", "e", None, 1.0, 1.0, "pass", "", "", {}, pairing.pairs
    )
    result = new_result(summary_of(), b"", [], [Decision(evaluation.pair, "evaluated", "pass", "", [evaluation])])
    found = decode_result(encode_result(result)).decisions[0].evaluations[0].pairing
    assert found is not None
    return found


@each("name", sorted(KINDS))
@given(data=st.data())
def test_the_score_follows_from_the_pairs_that_are_stored(name: str, data: st.DataObject) -> None:
    field, criteria, how, worked_out = KINDS[name]
    evaluator = EVALUATORS[name]
    read, set_to = evaluator.read_criteria({field: data.draw(criteria)}), evaluator.read_settings(data.draw(how))
    evidence = Evidence(data.draw(calls_made()))
    score = evaluator.evaluate(evidence, read, set_to)
    assert score.pairing is not None
    pairing = stored(score.pairing)
    expected = evaluator.expected_calls(read, set_to)
    assert expected is not None
    assert len(pairing.positions) == len(expected.calls)
    taken = [position for position in pairing.positions if position is not None]
    assert len(set(taken)) == len(taken)
    assert all(
        evidence.calls[position].name in expected.calls[index].names
        for index, position in enumerate(pairing.positions)
        if position is not None
    )

    def differs(index: int, position: int) -> bool:
        work = Work(evidence=evidence)
        work.position = position
        return bool([*expected.calls[index].differ(evidence, position, work)])

    found = worked_out(Paired(read, set_to, evidence, differs, pairing.positions, set(pairing.not_asked)))
    assert score.score == pytest.approx(found, abs=1e-9)


def test_of_more_than_a_thousand_expected_calls_the_pairs_of_the_first_are_stored() -> None:
    size = MAX_PAIRS + 5
    assert stored(Pairing(range(size))) == Pairing(range(MAX_PAIRS))
    swapped = [1, 0, *range(2, size)]
    assert stored(Pairing(swapped)) == Pairing(swapped[:MAX_PAIRS])
    swapped[2] = None
    assert stored(Pairing(swapped, {2, size - 1})) == Pairing(swapped[:MAX_PAIRS], {2})


def test_calls_that_are_paired_in_turn_take_no_more_room_the_more_there_are() -> None:
    assert stored(Pairing(range(1000))) == Pairing(range(1000))
    assert stored(Pairing([2, None, 0], {1})) == Pairing([2, None, 0], {1})
