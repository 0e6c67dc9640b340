"""``alert: {coverage: {silent}}``: does a series that sent results send none any more?

It is counted and not tested: chance plays no part. A series fires when it had at least ``min_samples`` results within
the 7 days before its last one and has none for as long as the alert says, to the minute. It is over when results come
again. What is silent for 7 days no longer begins to fire: it has most likely been switched off.
"""

from collections.abc import Sequence
from math import ceil

from tracegrade.alert.detect.finding import Finding, Firing
from tracegrade.store.history import Bin

_BEFORE = 7 * 24 * 60


def look_silence(
    bins: Sequence[Bin], silent_s: float, min_samples: int, until: int, firing: Firing | None
) -> Finding | None:
    """Whether nothing came for `silent_s`.

    Args:
        bins: results of any outcome, of at least 14 days, in order; where silence of this length would begin now,
            they are minutes.
        silent_s: how long nothing must come, in seconds.
        min_samples: fewer results before the silence never fire.
        until: the minute up to which results were looked at.
        firing: what fires at present.

    Returns:
        ``value`` is the silence in seconds, ``bound`` is `silent_s`, ``samples`` are the results within the 7 days
        before it, ``since`` is its first minute (of one that began more than an hour before `silent_s`, the first one
        of the next hour). None where too few results came.
    """
    if not bins:
        return None
    begins = _end(bins[-1], until)
    ends, is_over = until, until - begins < ceil(silent_s / 60)
    if firing is not None and (came := [item for item in bins if item.minute >= firing.minute]):
        earlier = [item for item in bins if item.minute < firing.minute]
        begins, ends, is_over = (_end(earlier[-1], until) if earlier else firing.minute), came[0].minute, True
    samples = sum(item.tally.results for item in bins if begins - _BEFORE <= item.minute < begins)
    is_known = firing is not None or (samples >= min_samples and ends - begins < _BEFORE)
    silence_s = 60.0 * max(0, ends - begins)
    return Finding(
        value=silence_s,
        low=silence_s,
        high=silence_s,
        samples=samples,
        bound=silent_s,
        evidence=float(is_over == (firing is not None)) if is_known else None,
        since=begins,
        is_counted=True,
    )


def _end(item: Bin, until: int) -> int:
    return min(until, item.minute + item.minutes)
