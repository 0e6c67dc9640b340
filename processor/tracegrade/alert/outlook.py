"""What is expected of an alert that does not fire: why not, and how soon it would; `alert.wording` says it in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracegrade.alert.detect.mean import UsualValue
from tracegrade.alert.detect.usual import Usual
from tracegrade.rule.alert import Alert
from tracegrade.store.history import SeriesKey


@dataclass(frozen=True, slots=True)
class NotFired:
    """Series of one alert that did not fire, and why.

    ``evidence`` is the most that any series has, None when no series can be told about; one series needs ``needed`` of
    it. ``without_baseline`` and ``too_few``: the series about which nothing can be told yet. ``too_late``: those that
    would fire, had the release that they are about not been replaced before.
    """

    rule_id: str
    alert: Alert
    evidence: float | None
    needed: int
    without_baseline: Sequence[SeriesKey]
    too_few: Sequence[SeriesKey]
    too_late: Sequence[SeriesKey] = ()


@dataclass(frozen=True, slots=True)
class TimeToFire:
    """What is expected of one alert: after how many minutes with results it fires; None for not within a week.

    ``an_hour`` results come in an hour; ``share`` is what the alert watches, over its ``over``, None when nothing was
    judged.
    """

    minutes: int | None
    an_hour: int
    share: float | None


@dataclass(frozen=True, slots=True)
class Volume:
    """How many results one series of a rule brings a day, and what is usual there."""

    a_day: float
    usual: Usual | UsualValue


@dataclass(frozen=True, slots=True)
class Expectation:
    """What to expect of an alert.

    ``volume`` is that of one series; None: nobody knows it, and nothing is ``found``. ``found``: for each size of a
    fall (of a bound: how far past it; of means: as a part of the usual one or of the bound; of an objective, at any
    volume: which share fails), after how many minutes it fires; None for too late or never. At most
    ``false_alarms_a_month`` in 30 days, over all series and alerts of the rule together, at any volume; None for an
    objective, which weighs no chance.
    """

    alert: Alert
    volume: Volume | None
    found: tuple[tuple[float, int | None], ...]
    false_alarms_a_month: float | None
