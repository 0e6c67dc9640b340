"""How many more results tell is right: so many are drawn, and four of five comparisons of them tell."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil

import pytest

from build import each
from tracegrade.bootstrap import Clusters
from tracegrade.compare.bootstrap import clustered, clustered_pairs, spread_of, spread_of_pairs
from tracegrade.compare.needed import POWER, results_needed
from tracegrade.compare.pairing import Found
from tracegrade.compare.pairs import PairTable, paired
from tracegrade.compare.shares import Share, independent
from tracegrade.compare.verdict import Verdict, holm, is_failure, verdict
from tracegrade.model.tally import Weighted

MARGIN = 0.02

Side = tuple[int, int]
Draw = Callable[[random.Random | None, float], Found]
"""So many times as many results with the same shares: as they are without chance, else drawn."""


def _drawn(chance: random.Random | None, cells: Sequence[float], times: float) -> list[float]:
    """So many times as many things, of the kinds that `cells` count."""
    if chance is None:
        return [number * times for number in cells]
    found = Counter(chance.choices(range(len(cells)), weights=cells, k=ceil(sum(cells) * times)))
    return [float(found[kind]) for kind in range(len(cells))]


def single(a: Side, b: Side, ratio: float = 1.0) -> Draw:
    def found(chance: random.Random | None, times: float) -> Found:
        passes_a, fails_a = _drawn(chance, a, times)
        passes_b, fails_b = _drawn(chance, b, times)
        shares = Share(passes_a, fails_a, ratio), Share(passes_b, fails_b, ratio)
        return Found(independent(*shares), made_of=shares)

    return found


def pairs(both: int, worse: int, better: int) -> Draw:
    def found(chance: random.Random | None, times: float) -> Found:
        drawn = _drawn(chance, (both, worse, better), times)
        table = PairTable(*(Weighted().plus(round(number), 1.0) for number in (*drawn, 0)))
        return Found(paired(table), made_of=table)

    return found


def sessions(worse: int, of: int) -> Draw:
    """Sessions of two results; on B, both fail in `worse` of so many."""

    def found(chance: random.Random | None, times: float) -> Found:
        good, bad = map(round, _drawn(chance, (of - worse, worse), times))
        a, b = Clusters([(2.0, 0.0)] * (good + bad)), Clusters([(2.0, 0.0)] * good + [(0.0, 2.0)] * bad)
        return Found(clustered(a, b), made_of=[spread_of(a), spread_of(b)])

    return found


def cases(worse: int, of: int) -> Draw:
    """Cases that ran several times on both sides; so many pass half as often on B."""

    def found(chance: random.Random | None, times: float) -> Found:
        good, bad = map(round, _drawn(chance, (of - worse, worse), times))
        clusters = [(1.0, 1.0, 1.0)] * good + [(1.0, 0.5, 1.0)] * bad
        return Found(clustered_pairs(clusters), made_of=[spread_of_pairs(clusters)])

    return found


def said(found: Found, others: list[float]) -> Verdict:
    assert found.difference is not None
    return verdict(found.difference, holm([found.difference.p, *others])[0], MARGIN)


@each(
    ("of", "others", "word"),
    [
        pytest.param(single((95, 5), (95, 5)), [], "not_worse", id="as good"),
        pytest.param(single((90, 10), (85, 15)), [], "worse", id="a fall"),
        pytest.param(single((80, 20), (83, 17)), [], "not_worse", id="a rise"),
        pytest.param(single((400, 0), (284, 5)), [1.0] * 17, "worse", id="sure alone, and not among 18"),
        pytest.param(single((400, 0), (284, 5)), [0.0001] * 8 + [1.0] * 9, "worse", id="others are surer"),
        pytest.param(single((120, 0), (111, 10)), [0.5] * 99, "worse", id="a fall beyond the margin, among 100"),
        pytest.param(single((594, 6), (587, 13)), [], "worse", id="a fall within the margin"),
        pytest.param(single((495, 5), (489, 11)), [1.0] * 9, "worse_within_margin", id="within it, among 10"),
        pytest.param(single((295, 5), (294, 6)), [1.0] * 9, "not_worse", id="a fall that does not matter"),
        pytest.param(single((90, 40), (80, 50), ratio=0.1), [], "worse", id="a sample that keeps every fail"),
        pytest.param(pairs(40, 5, 0), [], "worse", id="pairs, a fall"),
        pytest.param(pairs(50, 2, 2), [], "not_worse", id="pairs, as good"),
        pytest.param(sessions(3, 30), [], "worse", id="sessions, a fall"),
        pytest.param(cases(4, 40), [1.0] * 5, "worse", id="cases, a fall"),
    ],
)
def test_four_of_five_comparisons_of_as_many_results_tell(of: Draw, others: list[float], word: Verdict) -> None:
    first = of(None, 1.0)
    assert said(first, others) == "cannot_tell"
    needed = results_needed(first, others, MARGIN)
    assert needed is not None
    assert first.difference is not None
    times, told = needed
    assert told == word
    chance, tries = random.Random(5), 100
    found = [said(of(chance, times), others) for _ in range(tries)]
    share = sum(one != "cannot_tell" and is_failure(one) == is_failure(word) for one in found) / tries
    assert share >= POWER - 0.15, share  # three standard errors, and the steps of small numbers
    if first.difference.method != "bootstrap":  # of few clusters, unlucky drawings are surer than is assumed
        assert share <= POWER + 0.15, share


@each(
    "of",
    [
        pytest.param(single((60, 0), (60, 0)), id="single results"),
        pytest.param(sessions(0, 30), id="sessions"),
        pytest.param(cases(0, 40), id="cases"),
    ],
)
def test_where_nothing_ever_fails_about_as_many_results_tell_and_fewer_do_not(of: Draw) -> None:
    needed = results_needed(of(None, 1.0), [], MARGIN)
    assert needed is not None
    times, told = needed
    assert (told, said(of(None, 1.25 * times), [])) == ("not_worse", "not_worse")
    assert said(of(None, times / 1.25), []) == "cannot_tell"


def test_where_no_number_of_results_tells_none_is_said() -> None:
    """A fall by just the margin: its interval always ends below it, and of 10,000 times as many nobody speaks."""
    shares = Share(50, 50), Share(50.01, 49.99)
    assert results_needed(Found(independent(*shares), made_of=shares), [], 0.0) is None
