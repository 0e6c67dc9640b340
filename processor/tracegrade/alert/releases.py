"""The releases of one agent beside each other: which is gone, what came after it, and which is to blame."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from tracegrade.alert.detect.steps import counted
from tracegrade.model.tally import Tally, total
from tracegrade.rule.alert import Alert
from tracegrade.rule.watched import UNJUDGED
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.history import Bin, SeriesKey, bins_of
from tracegrade.store.schema import MINUTE_NS

Releases: TypeAlias = Mapping[SeriesKey, Sequence[Bin]]
"""The outcomes of each release of one agent, in order of time; none is empty."""

# A release is gone when so many of its results would have come since the last, by its part of the traffic. At half as
# many, one that sends a result every 20 minutes would seem to be gone every two days.
_MISSING = 10.0
# Of all that is bad beyond what is usual: then it is that release.
_NEARLY_ALL = 0.8


def gone_since(releases: Releases, release: SeriesKey, until: int, replaced_after_s: float) -> int | None:
    """The minute from which on nothing has come of a release that is gone; None when it may still be there.

    Args:
        releases: `release` is one of them.
        release: the one that is asked about.
        until: the minute up to which results are known.
        replaced_after_s: for so long it must have sent nothing.
    """
    own, others = releases[release], [bins for other, bins in releases.items() if other != release]
    first, last = own[0].minute, _end(own)
    beside = sum(results_of(item for item in starting_at(bins, first) if item.minute < last) for bins in others)
    since = sum(results_of(starting_at(bins, last)) for bins in others)
    missing = since * results_of(own) / (results_of(own) + beside)
    return last if _is_silent(own, until, replaced_after_s) and missing >= _MISSING else None


def sent_since(releases: Releases, minute: int, until: int, replaced_after_s: float) -> Releases:
    """What the releases that still send have sent from `minute` on; for the others, see `gone_since`."""
    return {
        release: starting_at(bins, minute)
        for release, bins in releases.items()
        if not _is_silent(bins, until, replaced_after_s)
    }


def to_blame(alert: Alert, releases: Releases, fires: StoredAlert) -> SeriesKey | None:
    """The release that brought nearly all that is bad, beyond the usual, since `fires` began; None for several."""
    since = (fires.starts_ns if fires.facts.since_ns is None else fires.facts.since_ns) // MINUTE_NS
    bad = {
        release: _bad(alert, fires, total_of(item for item in bins if item.minute + item.minutes > since))
        for release, bins in releases.items()
    }
    most = max(bad, key=lambda release: bad[release], default=None)
    return most if most is not None and 0 < bad[most] >= _NEARLY_ALL * sum(bad.values()) else None


def _bad(alert: Alert, fires: StoredAlert, tally: Tally) -> float:
    """How much of `tally` is bad beyond what was usual, or what the bound allows."""
    limit = fires.bound if fires.facts.was is None else fires.facts.was
    if alert.is_of_values:
        return max(0.0, tally.all_scores - tally.all_passed * limit)
    good, bad = counted(alert, tally)
    allowed = limit if alert.of in UNJUDGED else 1 - limit
    return max(0.0, bad - allowed * (good + bad))


def together(of_releases: Iterable[Sequence[Bin]]) -> Sequence[Bin]:
    """The outcomes of several releases as one."""
    several = list(of_releases)
    if len(several) == 1:
        return several[0]
    places: defaultdict[tuple[int, int], list[Tally]] = defaultdict(list)
    for bins in several:
        for item in bins:
            places[item.minute, item.minutes].append(item.tally)
    return bins_of(places)


def starting_at(bins: Sequence[Bin], minute: int) -> Sequence[Bin]:
    """Those that begin in this minute, or later."""
    return bins[bisect_left(bins, minute, key=lambda item: item.minute) :]


def results_of(bins: Iterable[Bin]) -> int:
    """The number of results of any outcome."""
    return sum(item.tally.results for item in bins)


def total_of(bins: Iterable[Bin]) -> Tally:
    """All outcomes together."""
    return total(item.tally for item in bins)


def _end(bins: Sequence[Bin]) -> int:
    return bins[-1].minute + bins[-1].minutes


def _is_silent(bins: Sequence[Bin], until: int, replaced_after_s: float) -> bool:
    return (until - _end(bins)) * 60 >= replaced_after_s
