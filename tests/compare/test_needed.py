"""How many more results tell is right: of as many with the same shares, and simulated."""

import random
from collections.abc import Callable

import pytest

from build import each
from tracegrade.compare.bootstrap import Clusters, clustered, clustered_pairs, spread_of, spread_of_pairs
from tracegrade.compare.holm import holm
from tracegrade.compare.needed import results_needed
from tracegrade.compare.pairing import Found
from tracegrade.compare.pairs import PairTable, paired
from tracegrade.compare.shares import Share, Weighted, independent
from tracegrade.compare.verdict import Verdict, verdict

MARGIN = 0.02

Side = tuple[float, float]


def single(a: Side, b: Side) -> Callable[[float], Found]:
    def found(times: float) -> Found:
        shares = Share(a[0] * times, a[1] * times), Share(b[0] * times, b[1] * times)
        return Found(independent(*shares), made_of=shares)

    return found


def pairs(both: int, worse: int, better: int) -> Callable[[float], Found]:
    def found(times: float) -> Found:
        cells = (Weighted().plus(round(number * times), 1.0) for number in (both, worse, better, 0))
        table = PairTable(*cells)
        return Found(paired(table), made_of=table)

    return found


def sessions(worse: int, of: int) -> Callable[[float], Found]:
    """Sessions of two results; on B, both fail in `worse` of so many."""

    def found(times: float) -> Found:
        bad, all_ = round(worse * times), round(of * times)
        a, b = Clusters([(2.0, 0.0)] * all_), Clusters([(2.0, 0.0)] * (all_ - bad) + [(0.0, 2.0)] * bad)
        return Found(clustered(a, b), made_of=[spread_of(a), spread_of(b)])

    return found


def cases(worse: int, of: int) -> Callable[[float], Found]:
    """Cases that ran several times on both sides; so many pass half as often on B."""

    def found(times: float) -> Found:
        bad, all_ = round(worse * times), round(of * times)
        clusters = [(1.0, 1.0, 1.0)] * (all_ - bad) + [(1.0, 0.5, 1.0)] * bad
        return Found(clustered_pairs(clusters), made_of=[spread_of_pairs(clusters)])

    return found


def said(found: Found, others: list[float]) -> Verdict:
    assert found.difference is not None
    return verdict(found.difference, holm([found.difference.p, *others])[0], MARGIN)


@each(
    ("of", "others", "word"),
    [
        pytest.param(single((95, 5), (95, 5)), [], "not_worse", id="as good"),
        pytest.param(single((60, 0), (60, 0)), [], "not_worse", id="nothing ever fails"),
        pytest.param(single((90, 10), (85, 15)), [], "worse", id="a fall"),
        pytest.param(single((80, 20), (83, 17)), [], "not_worse", id="a rise"),
        pytest.param(single((400, 0), (284, 5)), [1.0] * 17, "worse", id="sure alone, and not among 18"),
        pytest.param(single((400, 0), (284, 5)), [0.0001] * 8 + [1.0] * 9, "worse", id="others are surer"),
        pytest.param(single((120, 0), (111, 10)), [0.5] * 99, "worse", id="a fall beyond the margin, among 100"),
        pytest.param(pairs(40, 5, 0), [], "worse", id="pairs, a fall"),
        pytest.param(pairs(50, 2, 2), [], "not_worse", id="pairs, as good"),
        pytest.param(sessions(3, 30), [], "worse", id="sessions, a fall"),
        pytest.param(sessions(0, 30), [], "not_worse", id="sessions, as good"),
        pytest.param(cases(4, 40), [1.0] * 5, "worse", id="cases, a fall"),
        pytest.param(cases(0, 40), [], "not_worse", id="cases, as good"),
    ],
)
def test_as_many_results_as_are_said_to_tell_do_so(
    of: Callable[[float], Found], others: list[float], word: Verdict
) -> None:
    assert said(of(1), others) == "cannot_tell"
    needed = results_needed(of(1), others, MARGIN)
    assert needed is not None
    times, told = needed
    slack = 1.25
    assert (told, said(of(times * slack), others)) == (word, word)
    assert said(of(max(1.0, times / slack)), others) == "cannot_tell"


def test_where_no_number_of_results_tells_none_is_said() -> None:
    """A fall by just the margin: its interval always ends below it, and of 10,000 times as many nobody speaks."""
    assert results_needed(single((50, 50), (50.01, 49.99))(1), [], 0.0) is None


def test_simulated_results_tell_as_often_as_a_number_in_the_middle_does() -> None:
    """With as many results as are said, about half of all comparisons tell; with twice as many nearly all do."""
    chance, tries = random.Random(5), 60
    for rates, others in (((0.98, 0.95), [1.0] * 5), ((1.0, 0.97), [1.0] * 9), ((0.95, 0.95), [])):
        first = [(200 * rate, 200 * (1 - rate)) for rate in rates]
        needed = results_needed(single(*first)(1), others, MARGIN)
        assert needed is not None
        told = {}
        for more in (0.5, 1.0, 2.0):
            size = round(200 * needed[0] * more)
            drawn = [[sum(chance.random() < rate for _ in range(size)) for rate in rates] for _ in range(tries)]
            words = [said(single((a, size - a), (b, size - b))(1), others) for a, b in drawn]
            told[more] = sum(word != "cannot_tell" for word in words) / tries
        assert told[0.5] < 0.45 < told[2.0], (rates, told)
        assert 0.3 <= told[1.0] <= 0.8, (rates, told)
