"""Stored outcomes as steps of good and bad results: what is watched, by the hour or by five minutes.

Samples may keep every fail and few of the passes: `as_kept` and `as_happened` turn shares among all results into shares
among those that were kept, and back.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from tracegrade.alert.detect.evidence import Step
from tracegrade.alert.detect.moments import Moments
from tracegrade.model.tally import Tally, total
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.rule.watched import UNJUDGED
from tracegrade.store.history import Bin

_HOUR = 60
_FINE = 5
# Scores that lie close together tell more than passes and fails do, but never more than so many times as much.
_MOST_WORTH = 25.0
_PRIOR_SCORES = 5


def counted(alert: Alert, tally: Tally, worth: float = 1.0) -> tuple[float, float]:
    """Good and bad results: passes and fails as they were kept; of weighted shares and scores, what they are worth."""
    if alert.of in UNJUDGED:
        weight = tally.all_results
        if not weight:
            return 0.0, 0.0
        bad = tally.all_not_evaluable if alert.of == "not_evaluable" else tally.all_errors
        samples = weight * weight / (tally.squares)
        return samples * (1 - bad / weight), samples * bad / weight
    if not alert.is_of_score or tally.judged == 0:
        return tally.passed, tally.failed
    weight = tally.all_judged
    samples = worth * weight * weight / tally.judged_squares
    good = samples * tally.all_scores / weight
    return good, samples - good


def worth_of(alert: Alert, tally: Tally) -> float:
    """As how many passes and fails one result counts: of scores that lie close together, as more than one.

    A pass rate of m has the variance m (1 - m); where scores of the mean m vary less, fewer tell as much. The variance
    of few scores is drawn towards that of passes and fails.
    """
    if not alert.is_of_score or tally.judged == 0:
        return 1.0
    weight = tally.all_judged
    mean = tally.all_scores / weight
    widest = mean * (1 - mean)
    spread = max(0.0, tally.all_score_squares / weight - mean * mean)
    spread = (spread * tally.judged + widest * _PRIOR_SCORES) / (tally.judged + _PRIOR_SCORES)
    return min(_MOST_WORTH, max(1.0, widest / spread)) if spread > 0 else 1.0


def steps_of(alert: Alert, bins: Sequence[Bin], fine_from: int, worth: float = 1.0) -> Iterator[Step]:
    """What `alert` watches of `bins`, in steps as `by_step` makes them, the latest first."""
    for minute, minutes, tally in by_step(bins, fine_from):
        yield Step(minute, minutes, *counted(alert, tally, worth))


def values_of(rule: Rule, bins: Sequence[Bin], fine_from: int) -> Iterator[Moments]:
    """The values of `bins`, in steps as `by_step` makes them, the latest first; steps without any are left out.

    Values of a sample count by their weights, in relation to the largest that the step may have.
    """
    for minute, minutes, found in by_step(bins, fine_from):
        if found.passed:
            scale = found.all_passed / found.judged_squares
            if rule.sample.keep_failures:  # some have the weight 1, and others the largest
                scale = min(scale, rule.sample.share)
            yield Moments(
                minute, minutes, found.all_passed * scale, found.all_scores * scale, found.all_score_squares * scale
            )


def by_step(bins: Sequence[Bin], fine_from: int) -> Iterator[Bin]:
    """Bins of an hour each, the latest first; from the minute `fine_from` on, a whole hour, of five minutes each."""
    start, parts = 0, list[Tally]()
    for item in reversed(bins):
        length = _FINE if item.minute >= fine_from else _HOUR
        if item.minutes == length:
            if parts:
                yield _bin(start, fine_from, parts)
                parts = []
            yield item
            continue
        if parts and item.minute // length * length != start:
            yield _bin(start, fine_from, parts)
            parts = []
        start = item.minute // length * length
        parts.append(item.tally)
    if parts:
        yield _bin(start, fine_from, parts)


def _bin(start: int, fine_from: int, parts: Sequence[Tally]) -> Bin:
    return Bin(start, _FINE if start >= fine_from else _HOUR, parts[0] if len(parts) == 1 else total(parts))


def began(alert: Alert, bins: Sequence[Bin], since: int | None) -> int | None:
    """The minute of the first bad result from the step on with which a change most likely began."""
    if since is None:
        return None
    return next((item.minute for item in bins if item.minute >= since and counted(alert, item.tally)[1]), since)


def good_and_bad(steps: Iterable[Step]) -> tuple[float, float]:
    """All of them together."""
    good = bad = 0.0
    for step in steps:
        good += step.good
        bad += step.bad
    return good, bad


_T = TypeVar("_T")

_MOST = 10_000
_made: dict[int, Any] = {}


def remembered(about: Hashable, bins: Sequence[Bin], make: Callable[[], _T]) -> _T:
    """What `make` makes of `bins`, or made of equal ones; `about` says what that is, and on what else it depends."""
    key = hash((about, tuple(bins)))
    if key not in _made:
        if len(_made) >= _MOST:
            _made.clear()
        _made[key] = make()
    found: _T = _made[key]
    return found


def as_kept(share: float, ratio: float) -> float:
    """The share of passes among kept results when all fails are kept, and passes with probability `ratio`."""
    return share * ratio / (share * ratio + 1 - share)


def as_happened(share: float, ratio: float) -> float:
    """The share of passes among all results, from that among kept ones: the inverse of `as_kept`."""
    return share / (share + ratio * (1 - share))


def kept_ratio(rule: Rule, tally: Tally) -> float:
    """Sampling rate of passes relative to fails; by what was kept, since a rule's sample may be edited."""
    share, keeps_fails = rule.sample.share, rule.sample.keep_failures
    passes = tally.passed / tally.all_passed if tally.passed else share
    fails = tally.failed / tally.all_failed if tally.failed else 1.0 if keeps_fails else share
    return passes / fails
