"""Outcomes by the minute, without a store, and looks at them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from tracegrade.alert.check import Before, Ending, check
from tracegrade.model.tally import NO_RESULTS, Tally, total
from tracegrade.rule.rule import Rule
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.history import Bin, SeriesKey, Window, bins_of
from tracegrade.store.schema import MINUTE_NS

DAY = 24 * 60


def rule_of(*alerts: dict[str, Any], **changes: Any) -> Rule:
    content: dict[str, Any] = {
        "id": "one",
        "evaluate": [{"evaluator": "tool-call-order", "name": "order", "tool_calls_order": ["a", "b"]}],
        "alert": list(alerts),
    }
    return Rule.model_validate(content | changes)


class Stage:
    """One rule, its alerts so far, and what it is to see."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.seen: dict[SeriesKey, dict[int, Tally]] = {}
        self.afterwards: dict[SeriesKey, dict[int, Tally]] = {}
        self.alerts: list[StoredAlert] = []
        self.earlier: list[StoredAlert] = []
        self.stale_after_s = inf
        self.accepted: set[str] = set()

    def see(
        self,
        minutes: range,
        passed: int = 0,
        failed: int = 0,
        not_evaluable: int = 0,
        traces: int | None = None,
        weight: float = 1.0,
        **place: Any,
    ) -> None:
        """So many outcomes in each of the minutes; as many traces unless told."""
        key = SeriesKey("default", self.rule.id, self.rule.hash, "", "shop", "support", "1.0")._replace(**place)
        sent = passed + failed + not_evaluable if traces is None else traces
        self._add(key, minutes, Tally.of(passed, failed, not_evaluable, 0, weight=weight))
        self._add(SeriesKey(key.tenant, "", "", "", key.service, "", None), minutes, Tally.of(sent, 0, 0, 0))

    def put(self, minutes: range, tally: Tally, **place: Any) -> None:
        """These outcomes in each of the minutes, whatever traces came."""
        key = SeriesKey("default", self.rule.id, self.rule.hash, "", "shop", "support", "1.0")._replace(**place)
        self._add(key, minutes, tally)

    def judge_afterwards(self, minutes: range, passed: int = 0, failed: int = 0, **place: Any) -> None:
        """So many traces came in each of the minutes, and have these outcomes by a backfill."""
        before, self.seen = self.seen, {}
        self.see(minutes, passed, failed, **place)
        for key, bins in self.seen.items():
            (self.afterwards if key.rule_id else before).setdefault(key, {}).update(bins)
        self.seen = before

    def _add(self, key: SeriesKey, minutes: range, tally: Tally) -> None:
        for minute in minutes:
            bins = self.seen.setdefault(key, {})
            bins[minute] = bins.get(minute, NO_RESULTS).plus(tally)

    def bins(self, rule_id: str, window: Window, by_minute: bool = False) -> Mapping[SeriesKey, list[Bin]]:
        return self._within(self.seen, rule_id, window)

    def _within(
        self, seen: Mapping[SeriesKey, dict[int, Tally]], rule_id: str, window: Window
    ) -> dict[SeriesKey, list[Bin]]:
        first, last = window.since_ns // MINUTE_NS, (window.until_ns - 1) // MINUTE_NS
        found = {}
        for key, bins in seen.items():
            if (key.rule_id, key.evaluation) == (rule_id, window.evaluation if key.rule_id else "") and (
                inside := [Bin(minute, 1, bins[minute]) for minute in sorted(bins) if first <= minute <= last]
            ):
                found[key] = inside
        return found

    def backfilled(self, rule_id: str, window: Window) -> Mapping[SeriesKey, list[Bin]]:
        found = self._within(self.afterwards, rule_id, window)
        return {key: _by_hour(bins) for key, bins in found.items()}

    def totals(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Tally]:
        return {key: total(item.tally for item in found) for key, found in self.bins(rule_id, window).items()}

    def look(self, minute: int) -> list[str]:
        """The states of all alerts after a look at `minute`."""
        checked = check(
            self,
            [self.rule],
            Before(self.alerts, self.earlier, accepted=frozenset(self.accepted)),
            minute * MINUTE_NS,
            Ending(stale_after_s=self.stale_after_s),
        )
        self.alerts = checked.open
        self.earlier += checked.resolved
        return [alert.state for alert in (*checked.open, *checked.resolved)]


class HourlyStage(Stage):
    """As a store gives it: by the hour, unless minutes are asked for."""

    def bins(self, rule_id: str, window: Window, by_minute: bool = False) -> Mapping[SeriesKey, list[Bin]]:
        found = super().bins(rule_id, window)
        return found if by_minute else {key: _by_hour(bins) for key, bins in found.items()}


def _by_hour(bins: Sequence[Bin]) -> list[Bin]:
    hours: defaultdict[tuple[int, int], list[Tally]] = defaultdict(list)
    for item in bins:
        hours[item.minute // 60 * 60, 60].append(item.tally)
    return bins_of(hours)
