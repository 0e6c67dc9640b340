"""Is a share that fell back? This is how ``drop``, ``below`` and ``above`` of a share end.

As in `evidence`, the results since each moment are weighed: how much likelier are they if the share came back then than
if it still lies where it fell to? How low that is, the results between the alert and that moment tell: each of several
levels counts by how well it explains them. So the end of a deep fall is found about as soon as the fall was; later
where the share came back soon, and little is known of how low it was. A small fall does not end before results differ
from it.

Against a deep fall, a share that is back in part would look as if it were back. So the level of the smallest fall that
shall be found always counts for a tenth.

A worked example: usually 97 % pass; the levels are 87 % and 77 %. In the hour after the alert, 40 of 52 passed: that is
``(0.77 / 0.87)**40 * (0.23 / 0.13)**12`` = 7.1 times likelier at 77 %. So 77 % counts for 0.79 and 87 % for 0.21. In
the next hour, 39 of 40 pass. If the share is back, that is ``(0.97 / 0.77)**39 * (0.03 / 0.23)`` = 1,063 times likelier
than at 77 %, and 16.1 times likelier than at 87 %: together ``1 / (0.79 / 1063 + 0.21 / 16.1)`` = 72 times.

While the share stays at one of the levels, the mean of such a ratio is at most 1 divided by what that level counts for,
which is soon nine tenths. So an alert ends too soon about once in `false_alarm_every` on average.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log

from tracegrade.alert.detect.evidence import Change, Evidence, LikelihoodRatios, Step, sums, weigh

# What the level of the smallest fall counts for at least.
_LEAST_WEIGHT = 0.1


@dataclass(frozen=True, slots=True)
class WayBack:
    """Shares of good results by the hour, as in `Change`.

    ``fallen``: where the share may still lie; first after the smallest fall that shall be found. ``back``: where it may
    lie once it is back.
    """

    fallen: Sequence[Sequence[float]]
    back: Sequence[Sequence[float]]


def look_back(
    way: WayBack, latest_first: Iterable[Step], dispersion: float, false_alarm_every_s: float, until: int
) -> Evidence:
    """The evidence in the steps since an alert that the share is back.

    The arguments are those of `look_for`. Ends that are wrong come once in `false_alarm_every_s`, on average.
    """
    steps = [step for step in latest_first if step.good + step.bad > 0]
    ratios = _Ratios(way, dispersion)
    for _, _, logs in sums(ratios, steps, until):
        ratios.whole = logs
    return weigh(ratios, steps, false_alarm_every_s, until)


class _Ratios(LikelihoodRatios):
    """How much likelier results since a moment are at each level that is back than at those that are not.

    ``whole``: the log likelihoods of all results since the alert.
    """

    whole: Sequence[float]

    def __init__(self, way: WayBack, dispersion: float) -> None:
        first, *others = *way.fallen, *way.back
        super().__init__(Change(first, others), dispersion)
        self._levels = len(way.fallen)

    def of_sizes(self, logs: list[float]) -> list[float]:
        fallen, back = logs[: self._levels], logs[self._levels :]
        before = [whole - since for whole, since in zip(self.whole, fallen, strict=False)]
        # In logs throughout: of a level that explains thousands of results badly, the weight itself would be 0.
        shared = log(1 - _LEAST_WEIGHT) - _log_of_sum(before)
        weights = [shared + one for one in before]
        weights[0] = _log_of_sum([weights[0], log(_LEAST_WEIGHT)])
        still = _log_of_sum([weight + one for weight, one in zip(weights, fallen, strict=True)])
        return [one - still for one in back]


def _log_of_sum(logs: Sequence[float]) -> float:
    """The log of the sum of numbers, given as logs."""
    most = max(logs)
    return most + log(sum([exp(one - most) for one in logs]))
