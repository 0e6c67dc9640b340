"""What one alert of one rule looks at: its series, as a tree.

The results of one agent of one service, of all releases together, are one series: deploying often does not split what
is known. Below it stands each release that takes traffic beside others (a canary, or what it replaces): it is looked at
by itself, and compared with the others in the same time. So one that fails at a tenth of the traffic is found, and what
all releases have in common is not blamed on one of them.

The release of a key is None for all releases together, and "" for results whose service names none.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import ceil
from typing import Protocol, TypeAlias

from tracegrade.alert.detect.bound import look_bound
from tracegrade.alert.detect.burn import Budget, budget_of, look_burn
from tracegrade.alert.detect.coverage import look_coverage
from tracegrade.alert.detect.drop import look_drop
from tracegrade.alert.detect.finding import Finding, Firing, Seen
from tracegrade.alert.detect.mean import look_above, look_rise
from tracegrade.alert.detect.silence import look_silence
from tracegrade.alert.releases import gone_since, results_of, sent_since, starting_at, to_blame, together, total_of
from tracegrade.alert.slo import SloStatus, status
from tracegrade.alert.states import Condition, is_better
from tracegrade.alert.window import window_of
from tracegrade.rule.alert import Alert
from tracegrade.rule.alert_forms import Slo
from tracegrade.rule.rule import Rule
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.history import Bin, Outcomes, SeriesKey, Window, total
from tracegrade.store.schema import EVERY_TRACE, MINUTE_NS

_NS = 1_000_000_000
_HOUR = 60
# Results are seen by the minute for this long, so that a change is found within its hour; then by the hour.
_FINE_HOURS = 1
_LEAST_EVIDENCE_HOURS = 24

_Stretch = tuple[int, int]  # its first minute and its last
# By agent: the outcomes of each release, and of all of them together.
_Read = tuple[dict[SeriesKey, dict[SeriesKey, Sequence[Bin]]], dict[SeriesKey, Sequence[Bin]]]
Reads: TypeAlias = dict[Hashable, _Read]
"""What the alerts of one rule have read at one time, each of it once."""


class History(Protocol):
    """Where outcomes come from."""

    def bins(self, rule_id: str, window: Window, by_minute: bool = False) -> Mapping[SeriesKey, Iterable[Bin]]:
        """The outcomes of every series of a rule, as it is in force, within `window`; by the hour, or by the minute.

        For `EVERY_TRACE` in place of a rule's id: how many traces each service sent.
        """
        ...

    def totals(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Outcomes]:
        """The sums of what `bins` gives."""
        ...


@dataclass(frozen=True, slots=True)
class Accepted:
    """A level that somebody accepted as normal: since which minute it holds, and in which it was accepted."""

    since: int
    minute: int


@dataclass(frozen=True, slots=True)
class Past:
    """What fires and what fired before, as far as a look needs it.

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


class Look:
    """One alert of one rule, and the outcomes that it looks at."""

    def __init__(
        self,
        history: History,
        rule: Rule,
        alert: Alert,
        now_ns: int,
        current: dict[str, StoredAlert],
        past: Past,
        read: Reads,
    ) -> None:
        """Read what `alert` looks at.

        Args:
            history: where outcomes come from.
            rule: the rule, as it is in force.
            alert: one of its alerts.
            now_ns: the minute that begins then is not looked at.
            current: what fires, by fingerprint.
            past: what fires, and what fired before.
            read: what other alerts of the rule have read at this time, and what this one reads is added to.
        """
        self.rule, self.alert, self._current, self._past = rule, alert, current, past
        self._history = history
        self._now_ns = now_ns
        self._until = now_ns // MINUTE_NS
        self._hour = self._until // _HOUR
        self._fine_from = (self._hour - _FINE_HOURS) * _HOUR
        self._shown_from = (now_ns - int(alert.over * _NS)) // MINUTE_NS
        about = window_of(rule, alert, self._first(), now_ns), alert.silent_s
        if about not in read:
            releases = _releases_of(self._read(rule.id))
            read[about] = releases, {place: together(found.values()) for place, found in releases.items()}
        self._releases, self._all = read[about]
        reads_traces = alert.coverage is not None and alert.silent_s is None
        self._traces = self._read(EVERY_TRACE) if reads_traces else {}
        self._budgets = {} if alert.slo is None else self._budgets_of(alert.slo)
        self._bins = dict(self._looked_at())
        keys = {Condition(rule, alert, key).fingerprint: key for key in self._bins}
        for fingerprint, stored in current.items():
            if stored.rule_id == rule.id:
                place = (stored.tenant, rule.id, rule.hash, alert.evaluation, stored.service, stored.agent)
                series = SeriesKey(*place, stored.release)
                if fingerprint not in keys and Condition(rule, alert, series).fingerprint == fingerprint:
                    keys[fingerprint] = series
                    if series in self._releases.get(all_releases(series), {}):
                        self._bins[series] = self._with_successors(series)
        self.fingerprints = {key: fingerprint for fingerprint, key in keys.items()}
        self._sharing = Counter(map(all_releases, self._bins))

    def findings(self) -> dict[SeriesKey, Finding]:
        """The finding of each series that can be told about, or holds some results."""
        found = ((key, self._finding(key)) for key in self._bins)
        return {key: finding for key, finding in found if finding is not None}

    def without_baseline(self, findings: Mapping[SeriesKey, Finding]) -> list[SeriesKey]:
        """The series with results about which nothing can be said, since there is nothing to compare them with."""
        return [
            key
            for key, bins in self._bins.items()
            if key not in findings and bins and bins[-1].minute >= self._split(key)
        ]

    def slos(self) -> list[SloStatus]:
        """The error budget of each series; none without an objective."""
        return [status(self.rule, self.alert, key, budget) for key, budget in self._budgets.items()]

    def stored(self, key: SeriesKey) -> StoredAlert | None:
        """What fires at this series."""
        return self._current.get(self.fingerprints[key])

    def sharing(self, key: SeriesKey) -> int:
        """How many series share the false alarms of one agent: all releases together, and each that is looked at."""
        return self._sharing[all_releases(key)]

    def superseded(self, key: SeriesKey, fires: StoredAlert) -> str | None:
        """How the release that `fires` is about was replaced, in words; None when it was not, or it is not about one.

        It is replaced when it is gone and those that send now look better: what fires goes on while the next one is as
        bad. What fires for all releases together is about the one that brought nearly all that is bad.
        """
        found = {} if self.alert.is_of_all_releases else self._releases.get(all_releases(key), {})
        release = key if key.release is not None else to_blame(self.alert, found, fires)
        if release is None or release not in found or (gone := self._gone_since(release)) is None:
            return None
        later = sent_since(found, gone, self._until, self._past.replaced_after_s)
        if not is_better(self.rule, self.alert, fires, total_of(chain.from_iterable(later.values()))):
            return None
        next_one = max(later, key=lambda other: results_of(later[other]))
        by = f"release {next_one.release}" if next_one.release else "results without a release"
        return f"{by} replaced {'it' if key.release is not None else release.release or 'it'}"

    def _gone_since(self, release: SeriesKey) -> int | None:
        found = self._releases[all_releases(release)]
        return gone_since(found, release, self._until, self._past.replaced_after_s)

    def _with_successors(self, release: SeriesKey) -> Sequence[Bin]:
        """The results of a release that fires by itself; when it is gone, also of what came since: is that better?"""
        found = self._releases[all_releases(release)]
        if (gone := self._gone_since(release)) is None:
            return found[release]
        return [*found[release], *together(starting_at(bins, gone) for bins in found.values())]

    def last_ns(self, key: SeriesKey, fires: StoredAlert) -> int:
        """When the last result came, of any release; for lost coverage, the last trace. No earlier than it fires."""
        service = SeriesKey(key.tenant, EVERY_TRACE, "", "", key.service, "", None)
        bins = self._traces.get(service) or self._all.get(all_releases(key)) or ()
        last = bins[-1].minute + bins[-1].minutes if bins else 0
        return max(last * MINUTE_NS, fires.starts_ns)

    def _looked_at(self) -> Iterator[tuple[SeriesKey, Sequence[Bin]]]:
        """The series that are looked at: all releases together, and those that take traffic beside others.

        What a release's own alert tells is not told again by all of them: its results of that time are left out.
        """
        if self.alert.is_of_all_releases:
            yield from self._all.items()
            return
        for place, found in self._releases.items():
            told = {key: times for key in found if (times := self._past.of_release.get(_place_of(key, key.release)))}
            left = [_without(bins, told.get(key, ())) for key, bins in found.items()]
            yield place, self._all[place] if not told else together([bins for bins in left if bins])
            active = [key for key, bins in found.items() if bins[-1].minute >= self._fine_from]
            if len(active) > 1 and not self._fires(place):
                for key in active:
                    yield key, found[key]

    def _fires(self, place: SeriesKey) -> bool:
        return Condition(self.rule, self.alert, place).fingerprint in self._current

    def _finding(self, key: SeriesKey) -> Finding | None:
        alert = self.alert
        if alert.silent_s is not None:
            return look_silence(self._bins[key], alert.silent_s, alert.min_samples, self._until, self._firing(key))
        if alert.slo is not None:
            budget, is_firing = self._budgets[key], self.stored(key) is not None
            return look_burn(alert.slo, alert.min_samples, budget, self._bins[key], self._until, is_firing=is_firing)
        seen = self._seen(key, self._bins[key], self._all[all_releases(key)])
        if alert.above is not None and alert.is_of_values:
            return look_above(self.rule, alert, alert.above, seen)
        if alert.rise is not None:
            return look_rise(self.rule, alert, alert.rise, seen)
        if alert.below is not None or alert.above is not None:
            return look_bound(self.rule, alert, alert.below or alert.above or 0.0, seen)
        if alert.drop is not None:
            return look_drop(self.rule, alert, alert.drop, seen)
        assert alert.coverage is not None
        service = SeriesKey(key.tenant, EVERY_TRACE, "", "", key.service, "", None)
        traces = self._traces.get(service, ())
        return look_coverage(alert, alert.coverage, seen, self._seen(key, traces, traces))

    def _budgets_of(self, slo: Slo) -> dict[SeriesKey, Budget]:
        """By agent. The hours that are over are added up by the store: going through all of them would take longer."""
        first = (self._until - int(slo.window) // 60) // _HOUR * _HOUR
        window = window_of(self.rule, self.alert, first * MINUTE_NS, self._fine_from * MINUTE_NS)
        found: defaultdict[SeriesKey, list[Outcomes]] = defaultdict(list)
        for key, outcomes in self._history.totals(self.rule.id, window).items():
            found[all_releases(key)].append(outcomes)
        for place, bins in self._all.items():
            found[place] += [item.outcomes for item in bins if item.minute >= self._fine_from]
        return {
            place: budget_of(slo, self.alert.min_samples, self._all.get(place, ()), total(outcomes), self._until)
            for place, outcomes in found.items()
        }

    def _seen(self, key: SeriesKey, own: Sequence[Bin], of_any_release: Sequence[Bin]) -> Seen:
        firing, split = self._firing(key), self._split(key)
        # Of a fall that fires, the value is that of the time since it began.
        shown_from = firing.since if firing is not None and self.alert.drop is not None else self._shown_from
        begin = firing.minute if firing is not None else -(-self._ended_ns(key) // MINUTE_NS)
        return Seen(
            bins=starting_at(own, max(begin, split)),
            before=[item for item in self._history_of(key, own, of_any_release) if item.minute < split],
            shown=[item for item in own if item.minute + item.minutes > shown_from],
            fine_from=self._fine_from,
            until=self._until,
            firing=firing,
            beside=self._beside(key),
        )

    def _ended_ns(self, key: SeriesKey) -> int:
        """When this alert last ended there; what all releases together told of, one of them does not tell again."""
        of_all = Condition(self.rule, self.alert, all_releases(key)).fingerprint
        return max(self._past.ended.get(fingerprint, 0) for fingerprint in (self.fingerprints[key], of_all))

    def _history_of(self, key: SeriesKey, own: Sequence[Bin], of_any_release: Sequence[Bin]) -> Sequence[Bin]:
        """What results are compared with, as far as it is history: without incidents, or as it was accepted.

        A release with a history of its own is compared with that: releases may differ for good.
        """
        if (accepted := self._accepted(all_releases(key))) is not None:
            level, of_it = accepted
            until_then = [item for item in starting_at(of_it, level.since) if item.minute < level.minute]
            return [*until_then, *starting_at(of_any_release, level.minute)]
        incidents = self._past.of_place.get(_place_of(key), ())
        if key.release is not None:
            of_own = _without(own, incidents)
            if total_of(item for item in of_own if item.minute < self._split(key)).judged >= self.alert.min_samples:
                return of_own
        return _without(of_any_release, incidents)

    def _accepted(self, place: SeriesKey) -> tuple[Accepted, Sequence[Bin]] | None:
        """The level of `place` that was accepted last, and the results at that level; they are the baseline then.

        Accepted of one release, it is that of the agent: the releases to come are expected to be as good.
        """
        if not self._past.accepted:
            return None
        found = [
            (level, bins)
            for key, bins in ((place, self._all.get(place, ())), *self._releases.get(place, {}).items())
            if (level := self._past.accepted.get(Condition(self.rule, self.alert, key).fingerprint)) is not None
        ]
        return max(found, key=lambda item: item[0].minute, default=None)

    def _beside(self, key: SeriesKey) -> Sequence[Bin] | None:
        """The results of other releases from the first of this one on; None for all releases together."""
        if key.release is None:
            return None
        found = self._releases[all_releases(key)]
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
            bins = self._all.get(place, ())
            first = accepted[0].since if accepted is not None else bins[0].minute if bins else self._until
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

    def _first(self) -> int:
        """The minute from which on results are read: evidence, and as much history before it."""
        return (self._hour - 2 * ceil(self.alert.evidence_s / 3600)) * _HOUR

    def _read(self, rule_id: str) -> Mapping[SeriesKey, Sequence[Bin]]:
        """Outcomes of evidence and history together: by the hour, and by the minute where they are new."""
        first = self._first()
        # Silence is told to the minute: so is the hour in which it would have begun.
        begins = self._until - ceil((self.alert.silent_s or 0) / 60)
        silent = min(self._fine_from, begins // _HOUR * _HOUR)
        found: dict[SeriesKey, Sequence[Bin]] = {}
        for since, until, by_minute in (
            (first, silent, False),
            (silent, min(silent + _HOUR, self._fine_from), True),
            (silent + _HOUR, self._fine_from, False),
            (self._fine_from, None, True),  # with the minute that has just begun
        ):
            until_ns = self._now_ns if until is None else until * MINUTE_NS
            if since * MINUTE_NS < until_ns:
                window = window_of(self.rule, self.alert, since * MINUTE_NS, until_ns)
                for key, bins in self._history.bins(rule_id, window, by_minute).items():
                    found[key] = [*found.get(key, ()), *bins]
        return found


def all_releases(key: SeriesKey) -> SeriesKey:
    """The series of all releases together that `key` belongs to."""
    return key._replace(release=None)


def _place_of(key: SeriesKey, *release: str | None) -> tuple[str, ...]:
    return (key.tenant, key.rule_id, key.service, key.agent, *(name or "" for name in release))


def _releases_of(bins: Mapping[SeriesKey, Sequence[Bin]]) -> dict[SeriesKey, dict[SeriesKey, Sequence[Bin]]]:
    found: defaultdict[SeriesKey, dict[SeriesKey, Sequence[Bin]]] = defaultdict(dict)
    for key, some in bins.items():
        if some:
            found[all_releases(key)][key._replace(release=key.release or "")] = some
    return found


def _without(bins: Sequence[Bin], stretches: Sequence[_Stretch]) -> Sequence[Bin]:
    return [item for item in bins if not any(_overlaps(item, *stretch) for stretch in stretches)]


def _overlaps(item: Bin, first: int, last: int) -> bool:
    return item.minute <= last and item.minute + item.minutes > first
