"""Which results of two sides are of the same thing: of the same trace, else the same case, else the same prompt.

Results are paired where at least half of those on the smaller side have a partner; the others are left out then.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from tracegrade.bootstrap import FEWEST, Cluster, Clusters
from tracegrade.compare.bootstrap import PairCluster, Spread, clustered, clustered_pairs, spread_of, spread_of_pairs
from tracegrade.compare.collected import Unit
from tracegrade.compare.pairs import PairTable, paired
from tracegrade.compare.shares import Difference, Share, independent, share_of
from tracegrade.display import count
from tracegrade.model.tally import Tally, Weighted

PairedBy: TypeAlias = Literal["trace", "case", "prompt"]
SamplingRates: TypeAlias = tuple[float, float]
"""Sampling rate of passes relative to fails, on A and on B, where there are only passes or only fails."""

UNSAMPLED: SamplingRates = (1.0, 1.0)

_LEAST_PAIRED = 0.5
_MOST_CHANGES = 20
_KEYS: dict[PairedBy, Callable[[Unit], Hashable | None]] = {
    "trace": lambda unit: (unit.place.tenant, unit.place.trace_id, unit.subject),
    "case": lambda unit: unit.case,
    "prompt": lambda unit: unit.prompt,
}


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that passes on one side and fails on the other: two traces, hex, and the case where there is one."""

    trace_a: str
    trace_b: str
    case: str | None


@dataclass(frozen=True, slots=True)
class Pairs:
    """How often what was judged twice passes.

    ``count`` is how many traces, cases or prompts both sides have, ``worse`` and ``better`` how many of them changed:
    for several results of one, those that pass less often, or more often, on B. Both pass rates are over them alone.
    ``flaky`` are cases that both pass and fail on one side. ``became_worse`` and ``became_better`` are the
    first of those that changed.
    """

    by: PairedBy
    count: int
    worse: int
    better: int
    pass_rate_a: float
    pass_rate_b: float
    unpaired_a: int
    unpaired_b: int
    flaky: Sequence[str]
    became_worse: Sequence[Change] = field(default_factory=tuple)
    became_better: Sequence[Change] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Found:
    """A difference with what it was made of; ``reason`` says why there is none.

    ``made_of`` is what it was computed from: both shares, or pairs; where clusters were drawn, how far those reach.
    """

    difference: Difference | None
    reason: str = ""
    pairs: Pairs | None = None
    clustered_by: str | None = None
    made_of: tuple[Share, Share] | PairTable | Sequence[Spread] = ()


class _Pair(NamedTuple):
    """All results of one thing on both sides; ``rates`` is how often it passes on A and on B."""

    a: Sequence[Unit]
    b: Sequence[Unit]
    by: PairedBy
    rates: tuple[float, float]

    @property
    def probability(self) -> float:
        """How often a pair of single results is kept: one hash of the trace's id chooses it on both sides."""
        one, other = self.a[0].probability, self.b[0].probability
        return min(one, other) if self.by == "trace" else one * other

    @property
    def change(self) -> Change:
        """A result of each side, of those that differ if any do."""
        down = self.rates[0] > self.rates[1]
        a = next((unit for unit in self.a if unit.passed is down), self.a[0])
        b = next((unit for unit in self.b if unit.passed is not down), self.b[0])
        return Change(a.place.trace_id.hex(), b.place.trace_id.hex(), a.case)


def difference_of(
    a: Sequence[Unit], b: Sequence[Unit], tally_a: Tally, tally_b: Tally, times: int, kept: SamplingRates = UNSAMPLED
) -> Found:
    """How the results `b` differ from `a`, by pairs where there are any, by clusters where results go together.

    Args:
        a: passes and fails of one rule or evaluation on A.
        b: those on B.
        tally_a: their numbers.
        tally_b: likewise.
        times: how often a bootstrap draws.
        kept: as in `SamplingRates`.
    """
    if not (a and b):
        return apart(tally_a, tally_b, kept)
    ratios = _ratio(tally_a, kept[0]), _ratio(tally_b, kept[1])
    for by, key in _KEYS.items():
        pairs = _paired(a, b, by, key)
        if sum(min(len(pair.a), len(pair.b)) for pair in pairs) >= _LEAST_PAIRED * min(len(a), len(b)):
            return _of_pairs(pairs, by, a, b, ratios, times)
    kind = _clustered_by(a) or _clustered_by(b)
    if kind is None:
        return apart(tally_a, tally_b, kept)
    side_a, side_b = (Clusters(_clusters(units), ratio) for units, ratio in zip((a, b), ratios, strict=True))
    found = clustered(side_a, side_b, times)
    fewest = min(len(side_a.clusters), len(side_b.clusters))
    made_of = [spread_of(side_a), spread_of(side_b)] if found else ()
    return Found(found, "" if found else _too_few(fewest, kind), None, kind, made_of)


def _ratio(tally: Tally, kept: float) -> float:
    """Sampling rate of passes relative to fails."""
    return kept if (share := share_of(tally.passes, tally.fails, kept)) is None else share.ratio


def apart(a: Tally, b: Tally, kept: SamplingRates = UNSAMPLED) -> Found:
    """How two tallies differ as results of different subjects, each by itself; `kept` as in `SamplingRates`."""
    share_a, share_b = (share_of(tally.passes, tally.fails, of) for tally, of in zip((a, b), kept, strict=True))
    if share_a is None or share_b is None:
        return Found(None, f"nothing could be judged on {'A' if share_a is None else 'B'}")
    return Found(independent(share_a, share_b), made_of=(share_a, share_b))


def _paired(
    a: Sequence[Unit], b: Sequence[Unit], by: PairedBy, key_of: Callable[[Unit], Hashable | None]
) -> list[_Pair]:
    if {key_of(unit) for unit in a}.isdisjoint(map(key_of, b)):
        return []
    on_a: defaultdict[Hashable, list[Unit]] = defaultdict(list)
    for unit in a:
        if (key := key_of(unit)) is not None:
            on_a[key].append(unit)
    on_b: defaultdict[Hashable, list[Unit]] = defaultdict(list)
    for unit in b:
        if (key := key_of(unit)) is not None and key in on_a:
            on_b[key].append(unit)
    return [_Pair(on_a[key], units, by, (_rate(on_a[key]), _rate(units))) for key, units in on_b.items()]


def _of_pairs(
    pairs: Sequence[_Pair],
    by: PairedBy,
    a: Sequence[Unit],
    b: Sequence[Unit],
    ratios: tuple[float, float],
    times: int,
) -> Found:
    clusters = _pair_clusters(pairs, by)
    kind: str | None = None
    made_of: PairTable | Sequence[Spread]
    if all(len(pair.a) == len(pair.b) == 1 for pair in pairs) and len(clusters) == len(pairs):
        made_of = _table(pairs, *ratios)
        difference = paired(made_of)
    else:
        kind = by if by != "trace" else _clustered_by(pair.a[0] for pair in pairs) or "trace"
        difference = clustered_pairs(clusters, times)
        made_of = [spread_of_pairs(clusters)]
    reason = "" if difference else _too_few(len(clusters), kind or by)
    return Found(difference, reason, _pairs_of(pairs, by, clusters, len(a), len(b)), kind, made_of)


def _pairs_of(pairs: Sequence[_Pair], by: PairedBy, clusters: Sequence[PairCluster], of_a: int, of_b: int) -> Pairs:
    passes_a, passes_b, weight = (sum(column) for column in zip(*clusters, strict=True))
    worse = [pair for pair in pairs if pair.rates[0] > pair.rates[1]]
    better = [pair for pair in pairs if pair.rates[0] < pair.rates[1]]
    flaky = [pair.a[0].case or "" for pair in pairs if by == "case" and any(0 < rate < 1 for rate in pair.rates)]
    return Pairs(
        by,
        len(pairs),
        len(worse),
        len(better),
        passes_a / weight,
        passes_b / weight,
        of_a - sum(len(pair.a) for pair in pairs),
        of_b - sum(len(pair.b) for pair in pairs),
        sorted(flaky)[:_MOST_CHANGES],
        [pair.change for pair in worse[:_MOST_CHANGES]],
        [pair.change for pair in better[:_MOST_CHANGES]],
    )


def _pair_clusters(pairs: Iterable[_Pair], by: PairedBy) -> list[PairCluster]:
    """A cluster for each session of A, or for each case or prompt, of which each counts the same."""
    if by != "trace":
        return [(*pair.rates, 1.0 / pair.probability if len(pair.a) == len(pair.b) == 1 else 1.0) for pair in pairs]
    sums: defaultdict[Hashable, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for pair in pairs:
        place, weight = pair.a[0].place, 1 / pair.probability
        found, (rate_a, rate_b) = sums[place.tenant, place.cluster], pair.rates
        found[0] += weight * rate_a
        found[1] += weight * rate_b
        found[2] += weight
    return [(found[0], found[1], found[2]) for found in sums.values()]


def _table(pairs: Iterable[_Pair], ratio_a: float, ratio_b: float) -> PairTable:
    cells: defaultdict[tuple[bool, bool], defaultdict[float, int]] = defaultdict(lambda: defaultdict(int))
    for pair in pairs:
        cells[pair.a[0].passed, pair.b[0].passed][pair.probability] += 1

    def cell(on_a: bool, on_b: bool) -> Weighted:
        found = Weighted()
        for probability, number in sorted(cells[on_a, on_b].items()):
            found = found.plus(number, probability)
        return found

    return PairTable(cell(True, True), cell(True, False), cell(False, True), cell(False, False), ratio_a, ratio_b)


def _clustered_by(units: Iterable[Unit]) -> str | None:
    """``session`` or ``trace`` where any has several results; None when each result is by itself."""
    seen: set[Hashable] = set()
    kind = None
    for unit in units:
        place = unit.place
        key = (place.tenant, place.cluster)
        if key in seen and isinstance(place.cluster, str):
            return "session"
        kind = "trace" if key in seen else kind
        seen.add(key)
    return kind


def _clusters(units: Iterable[Unit]) -> list[Cluster]:
    sums: defaultdict[Hashable, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for unit in units:
        sums[unit.place.tenant, unit.place.cluster][not unit.passed] += 1 / unit.probability
    return [(passes, fails) for passes, fails in sums.values()]


def _rate(units: Sequence[Unit]) -> float:
    if len(units) == 1:
        return float(units[0].passed)
    weights = [1 / unit.probability for unit in units]
    return sum(weight for unit, weight in zip(units, weights, strict=True) if unit.passed) / sum(weights)


def _too_few(clusters: int, kind: str) -> str:
    return f"only {count(clusters, kind)}; {FEWEST} are needed"
