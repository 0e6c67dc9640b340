"""Intervals and p-values against other programs, and against what is known of simulated data."""

import random
from math import comb
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
import yaml

from build import each
from tracegrade.bootstrap import FEWEST, Clusters, mean_interval
from tracegrade.compare.bootstrap import clustered, clustered_pairs, times_for
from tracegrade.compare.pairs import PairTable, mcnemar, newcombe_pairs, paired
from tracegrade.compare.shares import Share, independent, interval, share_of
from tracegrade.compare.verdict import holm
from tracegrade.model.tally import Z95, Weighted, wilson

VECTORS: dict[str, list[dict[str, Any]]] = yaml.safe_load(Path(__file__).with_name("statistics.yaml").read_text())
TABLES = 1000
Z99 = NormalDist().inv_cdf(0.99)


def kept(count: int, probability: float = 1.0) -> Weighted:
    return Weighted().plus(count, probability)


@each("vector", VECTORS["independent"], ids=str)
def test_newcombe_of_independent_shares(vector: dict[str, Any]) -> None:
    found = independent(Share(*vector["a"]), Share(*vector["b"]))
    assert (found.low, found.high) == pytest.approx((vector["low"], vector["high"]), abs=1e-11)


@pytest.mark.parametrize("vector", VECTORS["pairs"], ids=str)
def test_newcombe_of_pairs(vector: dict[str, Any]) -> None:
    _, low, high = newcombe_pairs(*vector["table"])
    assert (round(low, vector["digits"]), round(high, vector["digits"])) == (vector["low"], vector["high"])


@each("vector", VECTORS["mcnemar"], ids=str)
def test_mcnemar(vector: dict[str, Any]) -> None:
    assert mcnemar(vector["worse"], vector["better"], vector.get("share", 0.5)) == pytest.approx(vector["p"], rel=1e-10)


@pytest.mark.parametrize("vector", VECTORS["holm"], ids=str)
def test_holm(vector: dict[str, Any]) -> None:
    assert holm(vector["values"]) == pytest.approx(vector["adjusted"])


def test_the_interval_with_confidence_1_less_p_ends_at_0() -> None:
    a, b = Share(95, 5), Share(80, 12)
    found = independent(a, b)
    z = NormalDist().inv_cdf(1 - found.p / 2)
    assert interval(a, b, z)[1] == pytest.approx(0, abs=1e-9)
    assert independent(b, a).p == pytest.approx(found.p)


def test_equal_shares_differ_by_chance_alone() -> None:
    assert independent(Share(9, 1), Share(90, 10)).p == 1


def test_a_sample_that_keeps_every_fail_gives_the_share_among_all() -> None:
    # Of 10,000 results 9,000 pass, of which 1 in 100 was kept, with all 1,000 fails.
    share = share_of(kept(90, 0.01), kept(1000), 1.0)
    assert share is not None
    assert share.rate == pytest.approx(0.9)
    low, high = share.limits(1.96)
    assert 0.87 < low < 0.9 < high < 0.92


def test_bounds_of_a_sample_that_keeps_every_fail_hold_as_often_as_they_say() -> None:
    chance, held, tries = random.Random(5), 0, 600
    for _ in range(tries):
        fails = sum(chance.random() < 0.03 for _ in range(2000))
        passes = sum(chance.random() < 0.1 for _ in range(2000 - fails))
        share = share_of(kept(passes, 0.1), kept(fails), 0.1)
        assert share is not None
        low, high = share.limits(1.959963984540054)
        held += low <= 0.97 <= high
    assert 0.93 < held / tries < 0.97


def test_without_a_fail_the_sample_says_how_often_passes_were_kept() -> None:
    plain, keeping = share_of(kept(30, 0.1), kept(0), 1.0), share_of(kept(30, 0.1), kept(0), 0.1)
    assert plain is not None
    assert keeping is not None
    assert plain.limits(1.96)[0] == pytest.approx(0.8865, abs=1e-4)  # Wilson of 30 of 30
    assert keeping.limits(1.96)[0] > 0.98  # a fail among 300 would have been kept
    assert share_of(kept(0), kept(0), 1.0) is None


def test_weights_that_differ_count_for_less() -> None:
    assert kept(100, 0.1).effective == pytest.approx(100)
    assert kept(100, 0.1).plus(100, 1.0).effective < 130


def test_a_sample_of_pairs_tells_as_much_as_its_pairs() -> None:
    cells = (360, 12, 4, 10)
    whole = paired(PairTable(*(kept(cell) for cell in cells)))
    tenth = paired(PairTable(*(kept(cell, 0.1) for cell in cells)))
    assert whole is not None
    assert tenth is not None
    assert (tenth.value, tenth.low, tenth.high, tenth.p) == pytest.approx((whole.value, whole.low, whole.high, whole.p))
    assert paired(PairTable(kept(0), kept(0), kept(0), kept(0))) is None


def test_fails_that_were_kept_on_both_sides_do_not_make_a_change_more_certain() -> None:
    changed = (kept(360, 0.1), kept(12, 0.1), kept(4, 0.1))
    every, tenth = paired(PairTable(*changed, kept(1000))), paired(PairTable(*changed, kept(100, 0.1)))
    assert every is not None
    assert tenth is not None
    assert (every.low, every.high) == pytest.approx((tenth.low, tenth.high), rel=1e-6)


def _sessions(chance: random.Random, count: int, share: float) -> Clusters:
    """Sessions of one to five results that go together: each has a share of its own."""
    found = []
    for _ in range(count):
        own, size = chance.betavariate(share * 5, (1 - share) * 5), chance.randint(1, 5)
        passes = sum(chance.random() < own for _ in range(size))
        found.append((float(passes), float(size - passes)))
    return Clusters(found)


@pytest.mark.parametrize(
    ("count", "share"),
    [(10, 0.5), *(pytest.param(*row, marks=pytest.mark.long) for row in ((40, 0.9), (150, 0.97)))],
)
def test_clusters_seldom_seem_worse_by_chance(count: int, share: float) -> None:
    chance, worse, covered, tries = random.Random(7), 0, 0, 150
    for _ in range(tries):
        found = clustered(_sessions(chance, count, share), _sessions(chance, count, share), 399)
        assert found is not None
        worse += found.p <= 0.05 and found.value < 0
        covered += found.low <= 0 <= found.high
    assert worse / tries <= 0.05
    assert covered / tries >= 0.93


def test_results_that_go_together_tell_less_than_as_many_that_do_not() -> None:
    together = clustered(
        Clusters([(10.0, 0.0)] * 95 + [(0.0, 10.0)] * 5), Clusters([(10.0, 0.0)] * 90 + [(0.0, 10.0)] * 10)
    )
    apart = independent(Share(950, 50), Share(900, 100))
    assert together is not None
    assert together.value == pytest.approx(apart.value)
    assert together.p > 0.05 > apart.p
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_single_results_as_clusters_give_about_what_newcombe_gives() -> None:
    drawn = clustered(
        Clusters([(1.0, 0.0)] * 950 + [(0.0, 1.0)] * 50), Clusters([(1.0, 0.0)] * 900 + [(0.0, 1.0)] * 100)
    )
    computed = independent(Share(950, 50), Share(900, 100))
    assert drawn is not None
    assert (drawn.low, drawn.high) == pytest.approx((computed.low, computed.high), abs=0.003)


def test_clusters_that_are_all_alike_are_not_certain() -> None:
    found = clustered(Clusters([(5.0, 0.0)] * 12), Clusters([(5.0, 0.0)] * 12))
    assert found is not None
    assert found.low < -0.05
    assert found.p == 1


def test_kept_fails_do_not_widen_clusters() -> None:
    keeping = [(100.0, 0.0)] * 190 + [(0.0, 1.0)] * 1000  # 95 % of 20,000 results, passes kept with 0.01
    found = clustered(Clusters(keeping, 0.01), Clusters(keeping, 0.01))
    assert found is not None
    assert -0.02 < found.low < found.high < 0.02


def test_the_order_of_clusters_and_another_try_change_nothing() -> None:
    a, b = _sessions(random.Random(1), 30, 0.9), _sessions(random.Random(2), 30, 0.8)
    found = clustered(a, b)
    assert found == clustered(Clusters(a.clusters[::-1]), Clusters(b.clusters[::-1]))
    assert found is not None
    assert found.method == "bootstrap"


def test_pairs_that_go_together() -> None:
    cases = [(1.0, 0.4, 1.0)] * 10 + [(1.0, 1.0, 1.0)] * 10 + [(0.6, 0.8, 1.0)] * 2
    found = clustered_pairs(cases)
    assert found is not None
    assert found.value == pytest.approx((10 * -0.6 + 2 * 0.2) / 22)
    assert found.high < 0
    assert found.p <= 0.01


def test_few_clusters_tell_nothing() -> None:
    few = [(9.0, 1.0)] * (FEWEST - 1)
    assert clustered(Clusters(few), Clusters([(9.0, 1.0)] * 50)) is None
    assert clustered_pairs([(1.0, 0.0, 1.0)] * (FEWEST - 1)) is None


def test_many_rules_need_smaller_p_values() -> None:
    assert 2 / (times_for(200) + 1) <= 0.05 / 200
    assert (times_for(200) + 1) % 40 == 0


def test_a_thousand_tables_as_scipy_and_statsmodels_have_them() -> None:
    proportion = pytest.importorskip("statsmodels.stats.proportion", reason="needs pip install scipy statsmodels")
    stats = pytest.importorskip("scipy.stats", reason="needs pip install scipy statsmodels")
    multitest = pytest.importorskip("statsmodels.stats.multitest", reason="needs pip install scipy statsmodels")
    chance = random.Random(11)
    values = []
    for _ in range(TABLES):
        most = chance.choice((5, 50, 5000))
        both, worse, better, neither = (chance.randint(0, most) for _ in range(4))
        if not both + worse or not better + neither:
            continue
        found = independent(Share(both, worse), Share(better, neither))
        expected = proportion.confint_proportions_2indep(
            better, better + neither, both, both + worse, method="newcomb", compare="diff"
        )
        assert (found.low, found.high) == pytest.approx(expected, abs=1e-9)
        changed = mcnemar(worse, better)
        assert changed == pytest.approx(
            stats.binomtest(worse, worse + better).pvalue if worse + better else 1, rel=1e-7
        )
        _, low, high = newcombe_pairs(both, worse, better, neither)
        assert (low, high) == pytest.approx(_of_pairs(proportion, both, worse, better, neither), abs=1e-9)
        values.append(changed)
    assert holm(values) == pytest.approx(list(multitest.multipletests(values, method="holm")[1]))


def _of_pairs(proportion: Any, both: int, worse: int, better: int, neither: int) -> tuple[float, float]:
    """Method 10 put together from the Wilson intervals of statsmodels, as numpy's correlation of the pairs has it."""
    import numpy as np

    pairs = both + worse + better + neither
    sides = [(both + worse), (both + better)]
    limits = [proportion.proportion_confint(passes, pairs, method="wilson") for passes in sides]
    rate_a, rate_b = (passes / pairs for passes in sides)
    cells = np.array([[both, worse], [better, neither]], dtype=float)
    margins = np.sqrt(np.prod(cells.sum(axis=0)) * np.prod(cells.sum(axis=1)))
    cross = np.linalg.det(cells)
    phi = (max(cross - pairs / 2, 0) if cross > 0 else cross) / margins if margins else 0.0
    (low_a, high_a), (low_b, high_b) = limits
    down, up = np.array([rate_b - low_b, high_a - rate_a]), np.array([high_b - rate_b, rate_a - low_a])
    shape = np.array([[1, -phi], [-phi, 1]])
    return rate_b - rate_a - np.sqrt(down @ shape @ down), rate_b - rate_a + np.sqrt(up @ shape @ up)


def test_the_interval_of_a_mean_is_around_it_and_narrows_with_more_clusters() -> None:
    some = mean_interval(Clusters([(1.0, 0.0), (0.6, 0.4)] * 5))
    many = mean_interval(Clusters([(1.0, 0.0), (0.6, 0.4)] * 50))
    assert some is not None
    assert many is not None
    assert some[0] < many[0] < 0.8 < many[1] < some[1]  # the mean of 1 and 0.6
    assert mean_interval(Clusters([(1.0, 0.0)] * 5)) is None
    perfect = mean_interval(Clusters([(1.0, 0.0)] * 20))
    assert perfect is not None
    assert perfect[0] < perfect[1] == 1.0


def test_wilson_as_in_the_textbook() -> None:
    """81 of 263 at 95 %, both sides: 0.2535 to 0.3682 (Newcombe's table I, method 4)."""
    low, high = wilson(81, 263, Z95)
    assert (low, high) == pytest.approx((0.2535, 0.3682), abs=1e-4)


def test_wilson_at_the_ends() -> None:
    assert wilson(0, 10, Z99)[0] == 0.0
    assert wilson(10, 10, Z99)[1] == 1.0


@each(("share", "samples"), [(0.9, 30), (0.9, 100), (0.95, 60), (0.5, 30), (0.99, 200)])
def test_wilson_s_bounds_are_wrong_as_rarely_as_they_say(share: float, samples: int) -> None:
    """Exactly: the binomial probability of all counts whose upper bound at 1 % lies below; about is within twice."""
    wrong = sum(
        comb(samples, count) * share**count * (1 - share) ** (samples - count)
        for count in range(samples + 1)
        if wilson(count, samples, Z99)[1] < share
    )
    assert wrong <= 0.02
