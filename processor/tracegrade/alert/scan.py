"""What one alert of one rule scans: its series, as a tree.

The results of one agent of one service, of all releases together, are one series: deploying often does not split what
is known. Below it stands each release that takes traffic beside others (a canary, or what it replaces): it is scanned
by itself, and compared with the others in the same time. So one that fails at a tenth of the traffic is found, and what
all releases have in common is not blamed on one of them.

The release of a key is None for all releases together, and "" for results whose service names none.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import ceil, inf
from typing import Literal

from tracegrade.alert.detect.bound import look_bound
from tracegrade.alert.detect.burn import Budget, budget_of, look_burn
from tracegrade.alert.detect.coverage import look_coverage
from tracegrade.alert.detect.drop import look_drop
from tracegrade.alert.detect.finding import Finding, Firing, Observations
from tracegrade.alert.detect.mean import look_above, look_rise
from tracegrade.alert.detect.silence import look_silence
from tracegrade.alert.findings_cache import FindingsCache, Found
from tracegrade.alert.read import Agent, Reading, all_releases
from tracegrade.alert.releases import (
    Releases,
    gone_since,
    results_of,
    sent_since,
    starting_at,
    to_blame,
    together,
    total_of,
)
from tracegrade.alert.slo import SloStatus, status
from tracegrade.alert.states import AlertCondition, recovery_of
from tracegrade.alert.wording import replaced_by
from tracegrade.model.tally import Tally, total
from tracegrade.rule.alert import Alert
from tracegrade.rule.alert_forms import Slo
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.history import Bin, SeriesKey
from tracegrade.store.schema import EVERY_TRACE, MINUTE_NS

_NS = 1_000_000_000
_HOUR = 60
_LEAST_EVIDENCE_HOURS = 24

_Stretch = tuple[int, int]  # its first minute and its last


@dataclass(frozen=True, slots=True)
class Accepted:
    """A level that somebody accepted as normal: since which minute it holds, and in which it was accepted."""

    since: int
    minute: int


@dataclass(frozen=True, slots=True)
class Past:
    """What fires and what fired before, as far as a scan needs it.

    ``ended``: by fingerprint, when it last ended (ns). ``accepted``: by fingerprint, of levels that are the normal ones
    by now. ``of_place``: the minutes in which something fired, by tenant, rule, service and agent;
    ``of_release``: those in which a release fired by itself, by these and the release. ``replaced_after_s``: a release
    that has sent nothing for so long is gone, when others have sent enough.
    """

    ended: Mapping[str, int] = field(default_factory=dict)
    accepted: Mapping[str, Accepted] = field(default_factory=dict)
    of_place: Mapping[tuple[str, ...], Sequence[_Stretch]] = field(default_factory=dict)
    of_release: Mapping[tuple[str, ...], Sequence[_Stretch]] = field(default_factory=dict)
    replaced_after_s: float = 600.0


class Scan:
    """One alert of one rule, and the outcomes that it scans."""

    def __init__(
        self, read: Reading, alert: Alert, current: dict[str, StoredAlert], past: Past, kept: FindingsCache
    ) -> None:
        """Read what `alert` scans.

        Args:
            read: what the alerts of its rule read at this time.
            alert: one of the rule's alerts.
            current: what fires, by fingerprint.
            past: what fires, and what fired before.
            kept: what was found before.
        """
        self.rule, self.alert, self._current, self._past = read.rule, alert, current, past
        self._kept = kept
        self._until = read.now_ns // MINUTE_NS
        self._hour = self._until // _HOUR
        self._fine_from = read.fine_from
        self._shown_from = (read.now_ns - int(alert.over * _NS)) // MINUTE_NS
        self._agents = read.agents(alert, self.rule.id)
        self._backfilled = read.backfilled(alert) if alert.needs_history else {}
        reads_traces = alert.coverage is not None and alert.silent_s is None
        self._traces = read.agents(alert, EVERY_TRACE) if reads_traces else {}
        self._totals = {} if alert.slo is None else self._totals_of(alert.slo, read)
        self._series = {place: [place, *self._beside_others(place)] for place in self._agents}
        # Releases that are scanned only since they fire.
        self._alone = set[SeriesKey]()
        keys = {self._condition(key).fingerprint: key for some in self._series.values() for key in some}
        for fingerprint, stored in current.items():
            if stored.rule_id == self.rule.id:
                place = (stored.tenant, self.rule.id, self.rule.hash, alert.evaluation, stored.service, stored.agent)
                series = SeriesKey(*place, stored.release)
                if fingerprint not in keys and self._condition(series).fingerprint == fingerprint:
                    keys[fingerprint] = series
                    if series in self._agents.get(all_releases(series), ()):
                        self._series[all_releases(series)].append(series)
                        self._alone.add(series)
        self.fingerprints = {key: fingerprint for fingerprint, key in keys.items()}
        self._budgets: dict[SeriesKey, Budget] = {}

    @property
    def places(self) -> Collection[SeriesKey]:
        """The agents that are scanned, each as the series of all its releases."""
        return self._series.keys()

    def found(self, place: SeriesKey) -> dict[SeriesKey, Found]:
        """What is found at each series of one agent."""
        found = {}
        for key in self._series.get(place, ()):
            make = partial(self._find, key)
            found[key] = self._kept.found(self.fingerprints[key], self._made_of(key), self._shown_from, make)
            if (budget := found[key].budget) is not None:
                self._budgets[key] = budget
        return found

    def forget(self, place: SeriesKey) -> None:
        """Give the memory of what was made to scan at one agent back."""
        if place in self._agents:
            self._agents[place].forget()

    def slos(self) -> list[SloStatus]:
        """The error budget of each series; none without an objective."""
        if self.alert.slo is None:
            return []
        places = {**self._totals, **self._agents}
        of_agents = {place: self._budgets.get(place) or self._budget(self.alert.slo, place) for place in places}
        return [status(self.rule, self.alert, place, budget) for place, budget in of_agents.items()]

    def stored(self, key: SeriesKey) -> StoredAlert | None:
        """What fires at this series."""
        return self._current.get(self.fingerprints[key])

    def sharing(self, key: SeriesKey) -> int:
        """How many series share the false alarms of one agent: all releases together, and each that is scanned."""
        return len(self._series[all_releases(key)])

    def superseded(self, key: SeriesKey, fires: StoredAlert) -> str | None:
        """How the release that `fires` is about was replaced, in words; None when it was not, or it is not about one.

        It is replaced when it is gone and those that send now scan better: what fires goes on while the next one is as
        bad. What fires for all releases together is about the one that brought nearly all that is bad. What has just
        begun to fire goes on for as long as a release has to be silent: nobody is called for an alert of seconds.
        """
        since_ns = self._until * MINUTE_NS - fires.starts_ns
        if since_ns < self._past.replaced_after_s * _NS or (replaced := self._replaced(key, fires)) is None:
            return None
        release, later = replaced
        if self._recovery(fires, later) != "good":
            return None
        next_one = max(later, key=lambda other: results_of(later[other]))
        return replaced_by(next_one.release or "", None if key.release is not None else release.release)

    def comes_too_late(self, key: SeriesKey, begins: StoredAlert) -> bool:
        """Whether the release that `begins` would be about was replaced before: then it does not begin to fire.

        Of all releases together it begins once what replaced the one to blame is as bad beyond doubt.
        """
        replaced = self._replaced(key, begins)
        return replaced is not None and (key.release is not None or self._recovery(begins, replaced[1]) != "bad")

    def _replaced(self, key: SeriesKey, fires: StoredAlert) -> tuple[SeriesKey, Releases] | None:
        """The release that an alert is about, if it is gone, and what came after it."""
        found: Releases = {} if self.alert.is_of_all_releases else self._agents.get(all_releases(key), {})
        if len(found) < 2:
            return None
        release = key if key.release is not None else to_blame(self.alert, found, fires)
        if release is None or release not in found or (gone := self._gone_since(release)) is None:
            return None
        return release, sent_since(found, gone, self._until, self._past.replaced_after_s)

    def _recovery(self, fires: StoredAlert, later: Releases) -> Literal["good", "bad", "unclear"]:
        return recovery_of(self.rule, self.alert, fires, total_of(chain.from_iterable(later.values())))

    def _gone_since(self, release: SeriesKey) -> int | None:
        found = self._agents[all_releases(release)]
        return gone_since(found, release, self._until, self._past.replaced_after_s)

    def _with_successors(self, release: SeriesKey) -> Sequence[Bin]:
        """The results of a release that fires by itself; when it is gone, also of what came since: is that better?"""
        found = self._agents[all_releases(release)]
        if (gone := self._gone_since(release)) is None:
            return found[release]
        return [*found[release], *together(starting_at(bins, gone) for bins in found.values())]

    def last_ns(self, key: SeriesKey, fires: StoredAlert) -> int:
        """When the last result came, of any release; for lost coverage, the last trace. No earlier than it fires."""
        bins = _together(self._traces.get(_traces_of(key)) or self._agents.get(all_releases(key)))
        last = bins[-1].minute + bins[-1].minutes if bins else 0
        return max(last * MINUTE_NS, fires.starts_ns)

    def _beside_others(self, place: SeriesKey) -> Sequence[SeriesKey]:
        """The releases of an agent that are scanned by themselves: those that take traffic beside others."""
        if self.alert.is_of_all_releases or len(self._agents[place]) < 2:
            return ()
        active = self._agents[place].active
        return active if len(active) > 1 and self._condition(place).fingerprint not in self._current else ()

    def _bins_of(self, key: SeriesKey) -> Sequence[Bin]:
        """What is scanned of one series.

        What a release's own alert tells is not told again by all of them: its results of that time are left out.
        """
        agent = self._agents[all_releases(key)]
        if key.release is not None:
            return self._with_successors(key) if key in self._alone else agent[key]
        told = {} if self.alert.is_of_all_releases else self._told_of(agent)
        if not told:
            return agent.together
        left = [_without(bins, told.get(release, ())) for release, bins in agent.items()]
        return together([bins for bins in left if bins])

    def _told_of(self, agent: Agent) -> dict[SeriesKey, Sequence[_Stretch]]:
        """When releases of an agent fired by themselves."""
        of_release = self._past.of_release
        return {key: of_release[place] for key in agent if (place := _place_of(key, key.release)) in of_release}

    def _condition(self, series: SeriesKey) -> AlertCondition:
        return AlertCondition(self.rule, self.alert, series)

    def _made_of(self, key: SeriesKey) -> tuple[object, ...]:
        """All that a finding is made of, but for the time from which on values are shown."""
        place, past = all_releases(key), self._past
        agent, traces = self._agents[place], self._traces.get(_traces_of(key))
        # What is counted is told to the minute, and so is whether a release that fires is gone.
        is_to_the_minute = self.alert.is_counted or key in self._alone
        return (
            self.rule,
            self.alert,
            agent.parts,
            self._backfilled[place].parts if place in self._backfilled else None,
            None if traces is None else traces.parts,
            self._until if is_to_the_minute else self._hour,
            self._firing(key),
            self._ended_ns(key),
            past.replaced_after_s,
            past.of_place.get(_place_of(key)),
            past.of_release and self._told_of(agent),
            past.accepted and self._levels(place),
            self._totals.get(place),
        )

    def _find(self, key: SeriesKey) -> Found:
        bins = self._bins_of(key)
        budget = None if self.alert.slo is None else self._budget(self.alert.slo, key)
        finding = self._finding(key, bins, budget)
        lacks_baseline = finding is None and len(bins) > 0 and bins[-1].minute >= self._split(key)
        shown = bins, _together(self._traces.get(_traces_of(key)))
        return Found(finding, lacks_baseline, budget, min(map(self._shown_until, shown)))

    def _finding(self, key: SeriesKey, bins: Sequence[Bin], budget: Budget | None) -> Finding | None:
        alert = self.alert
        if alert.silent_s is not None:
            return look_silence(bins, alert.silent_s, alert.min_samples, self._until, self._firing(key))
        if alert.slo is not None and budget is not None:
            is_firing = self.stored(key) is not None
            return look_burn(alert.slo, alert.min_samples, budget, bins, self._until, is_firing=is_firing)
        afterwards: Releases = self._backfilled.get(all_releases(key), {})
        seen = self._observed(key, bins, self._agents[all_releases(key)].together, afterwards)
        if alert.above is not None and alert.is_of_values:
            return look_above(self.rule, alert, alert.above, seen)
        if alert.rise is not None:
            return look_rise(self.rule, alert, alert.rise, seen)
        if alert.below is not None or alert.above is not None:
            return look_bound(self.rule, alert, alert.below or alert.above or 0.0, seen)
        if alert.drop is not None:
            return look_drop(self.rule, alert, alert.drop, seen)
        assert alert.coverage is not None
        traces = _together(self._traces.get(_traces_of(key)))
        of_traces = self._observed(key, traces, traces, {})
        if afterwards and (begins := _end_of_first(bins)) > self._split(key):
            # Traces from before the rule judged live, of which no live result can be.
            seen, of_traces = _from(seen, begins), _from(of_traces, begins)
        return look_coverage(alert, alert.coverage, seen, of_traces)

    def _shown_until(self, bins: Sequence[Bin]) -> float:
        """The minute until which the window of what is shown may begin and still shows the same."""
        return next((end for item in bins if (end := item.minute + item.minutes) > self._shown_from), inf)

    def _observed(
        self, key: SeriesKey, own: Sequence[Bin], of_any_release: Sequence[Bin], afterwards: Releases
    ) -> Observations:
        firing, split = self._firing(key), self._split(key)
        # Of a fall that fires, the value is that of the time since it began.
        shown_from = firing.since if firing is not None and self.alert.drop is not None else self._shown_from
        begin = firing.minute if firing is not None else -(-self._ended_ns(key) // MINUTE_NS)
        return Observations(
            bins=starting_at(own, max(begin, split)),
            before=[item for item in self._history_of(key, own, of_any_release, afterwards) if item.minute < split],
            shown=[item for item in own if item.minute + item.minutes > shown_from],
            fine_from=self._fine_from,
            until=self._hour * _HOUR,
            firing=firing,
            beside=self._beside(key),
        )

    def _ended_ns(self, key: SeriesKey) -> int:
        """When this alert last ended there; what all releases together told of, one of them does not tell again."""
        of_both = self.fingerprints[key], self.fingerprints[all_releases(key)]
        return max(self._past.ended.get(fingerprint, 0) for fingerprint in of_both)

    def _history_of(
        self, key: SeriesKey, own: Sequence[Bin], of_any_release: Sequence[Bin], afterwards: Releases
    ) -> Sequence[Bin]:
        """What results are compared with, as far as it is history: without incidents, or as it was accepted.

        A release with a history of its own is compared with that: releases may differ for good. What was judged
        `afterwards`, by release, is history too.
        """
        if (accepted := self._accepted(all_releases(key))) is not None:
            level, of_it = accepted
            until_then = [item for item in starting_at(of_it, level.since) if item.minute < level.minute]
            return [*until_then, *starting_at(of_any_release, level.minute)]
        incidents = self._past.of_place.get(_place_of(key), ())
        if afterwards:
            of_any_release = together([of_any_release, *afterwards.values()])
        if key.release is not None:
            own = together([own, afterwards[key]]) if key in afterwards else own
            of_own, split = _without(own, incidents), self._split(key)
            if total_of(item for item in of_own if item.minute < split).judged >= self.alert.min_samples:
                return of_own
        return _without(of_any_release, incidents)

    def _accepted(self, place: SeriesKey) -> tuple[Accepted, Sequence[Bin]] | None:
        """The level of `place` that was accepted last, and the results at that level; they are the baseline then.

        Accepted of one release, it is that of the agent: the releases to come are expected to be as good.
        """
        agent = self._agents[place]
        found = [
            (level, agent.together if key.release is None else agent[key]) for key, level in self._levels(place).items()
        ]
        return max(found, key=lambda item: item[0].minute, default=None)

    def _levels(self, place: SeriesKey) -> dict[SeriesKey, Accepted]:
        """The levels that were accepted of an agent, by series."""
        if not (accepted := self._past.accepted):
            return {}
        of_series = {key: accepted.get(self._condition(key).fingerprint) for key in (place, *self._agents[place])}
        return {key: level for key, level in of_series.items() if level is not None}

    def _beside(self, key: SeriesKey) -> Sequence[Bin] | None:
        """The results of other releases from the first of this one on; None for all releases together."""
        if key.release is None:
            return None
        found = self._agents[all_releases(key)]
        first = found[key][0].minute
        return together(starting_at(bins, first) for other, bins in found.items() if other != key)

    def _split(self, key: SeriesKey) -> int:
        """The minute before which results are history, and from which on they are evidence.

        While there is less history than an alert is measured against, half of it is taken for what is usual; a level
        that was accepted begins a new history.
        """
        hours, place = ceil(self.alert.evidence_s / 3600), all_releases(key)
        accepted = self._accepted(place)
        if self.alert.needs_history:
            bins = self._agents[place].together
            begins = [some[0].minute for some in (bins, *self._backfilled.get(place, {}).values()) if some]
            first = accepted[0].since if accepted is not None else min(begins, default=self._until)
            hours = min(hours, max(_LEAST_EVIDENCE_HOURS, (self._hour - first // _HOUR) // 2))
        split = (self._hour - hours) * _HOUR
        return split if accepted is None else max(split, accepted[0].minute)

    def _firing(self, key: SeriesKey) -> Firing | None:
        stored = self.stored(key)
        if stored is None:
            return None
        since_ns = stored.starts_ns if stored.facts.since_ns is None else stored.facts.since_ns
        minute, since = stored.starts_ns // MINUTE_NS, since_ns // MINUTE_NS
        return Firing(minute, stored.facts.was, stored.facts.was_samples, since)

    def _totals_of(self, slo: Slo, read: Reading) -> dict[SeriesKey, list[Tally]]:
        """What came in the window of an objective, by agent.

        The hours that are over are added up by the store: going through all of them would take longer.
        """
        first = (self._until - int(slo.window) // 60) // _HOUR * _HOUR
        found: defaultdict[SeriesKey, list[Tally]] = defaultdict(list)
        for key, tally in read.totals(self.alert, first).items():
            found[all_releases(key)].append(tally)
        return dict(found)

    def _budget(self, slo: Slo, place: SeriesKey) -> Budget:
        bins = _together(self._agents.get(place))
        recent = (item.tally for item in starting_at(bins, self._fine_from))
        whole = total([*self._totals.get(place, ()), *recent])
        return budget_of(slo, self.alert.min_samples, bins, whole, self._until)


def _end_of_first(bins: Sequence[Bin]) -> int:
    """The minute in which the first of `bins` has ended: it may have begun before there were results."""
    return bins[0].minute + bins[0].minutes if bins else 0


def _from(seen: Observations, minute: int) -> Observations:
    """What is seen from a minute on; what is usual stays."""
    return replace(seen, bins=starting_at(seen.bins, minute), shown=starting_at(seen.shown, minute))


def _together(agent: Agent | None) -> Sequence[Bin]:
    return () if agent is None else agent.together


def _traces_of(key: SeriesKey) -> SeriesKey:
    """The series of all traces of a service, whatever judges them."""
    return SeriesKey(key.tenant, EVERY_TRACE, "", "", key.service, "", None)


def _place_of(key: SeriesKey, *release: str | None) -> tuple[str, ...]:
    return (key.tenant, key.rule_id, key.service, key.agent, *(name or "" for name in release))


def _without(bins: Sequence[Bin], stretches: Sequence[_Stretch]) -> Sequence[Bin]:
    if not stretches:
        return bins
    return [item for item in bins if not any(_overlaps(item, *stretch) for stretch in stretches)]


def _overlaps(item: Bin, first: int, last: int) -> bool:
    return item.minute <= last and item.minute + item.minutes > first
