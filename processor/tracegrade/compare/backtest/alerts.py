"""When the alerts of changed rules would have fired, by what these rules say of stored traces."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection

from tracegrade.alert.preview import Preview, preview
from tracegrade.alert.stored_history import ReadHistory
from tracegrade.compare.backtest.judged import RuleResult
from tracegrade.rule.rule import Rule
from tracegrade.store.history import SeriesHistory, SeriesKey, Window
from tracegrade.store.schema import MINUTE_NS, OUTCOMES, WHOLE_RULE

EVERY_NS = 15 * MINUTE_NS
"""The time between two looks, as `alerts preview` has it."""

_PASS, _NOT_EVALUABLE = OUTCOMES.index("pass"), OUTCOMES.index("not_evaluable")


class CountedMinutes:
    """What rules said, counted by minute as the store counts results; beside it the traces that are counted there."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Count what those of `rules` say that have alerts."""
        self.rules = [rule for rule in rules if rule.alert]
        self._hashes = {rule.id: rule.hash for rule in self.rules}
        self._numbers: dict[tuple[SeriesKey, float], int] = {}
        self._counted: defaultdict[tuple[int, bool], defaultdict[int, list[float]]]
        self._counted = defaultdict(lambda: defaultdict(lambda: [0.0] * 6))

    def add(self, tenant: str, complete: bool, last_received_ns: int, said_of: Sequence[RuleResult]) -> None:
        """Count what was said of a trace whose last span came at that time."""
        minute = last_received_ns // MINUTE_NS
        for said in said_of:
            if said.rule_id not in self._hashes:
                continue
            if said.word in OUTCOMES:
                self._sums(tenant, said, WHOLE_RULE, complete, minute)[OUTCOMES.index(said.word)] += 1
            for name, outcome, score in said.evaluations:
                _count(self._sums(tenant, said, name, complete, minute), outcome, score)
            for name, value in said.measured:
                sums = self._sums(tenant, said, name, complete, minute)
                _count(sums, _PASS if value is not None else _NOT_EVALUABLE, value)

    def _sums(self, tenant: str, said: RuleResult, evaluation: str, complete: bool, minute: int) -> list[float]:
        rule_hash = self._hashes[said.rule_id]
        key = SeriesKey(tenant, said.rule_id, rule_hash, evaluation, said.service, said.agent, said.release)
        # Below 0: the store's own series, of traces, are above.
        number = self._numbers.setdefault((key, 1.0 / said.probability), -1 - len(self._numbers))
        return self._counted[number, complete][minute]

    def preview(self, connection: Connection, since_ns: int, until_ns: int, advance: Callable[[int], None]) -> Preview:
        """When the alerts would have fired from `since_ns` to `until_ns`."""
        history = ReadHistory(_WithTraces(self, connection), self.rules, since_ns, until_ns)
        return preview(history, self.rules, since_ns, until_ns, EVERY_NS, advance)

    @property
    def series(self) -> dict[int, tuple[SeriesKey, float]]:
        """The series that were counted, and for how many results each result stands, by number."""
        return {number: found for found, number in self._numbers.items()}

    def minutes(self, window: Window) -> Iterator[tuple[int, int, Sequence[Any]]]:
        """As `SeriesHistory.minutes`."""
        for (key, _), number in self._numbers.items():
            if key.evaluation != window.evaluation:
                continue
            counted = self._counted[number, True]
            incomplete = self._counted[number, False] if window.count_incomplete else {}
            for minute in sorted({*counted, *incomplete}):
                both = [sums[minute] for sums in (counted, incomplete) if minute in sums]
                yield number, minute, [sum(column) for column in zip(*both, strict=True)]


def _count(sums: list[float], outcome: int, score: float | None) -> None:
    sums[outcome] += 1
    if score is not None:
        sums[-2] += score
        sums[-1] += score * score


class _WithTraces:
    """What was counted here, and how many traces the store counts, which alerts on coverage compare with."""

    def __init__(self, counted: CountedMinutes, connection: Connection) -> None:
        self._counted = counted
        self._traces = SeriesHistory(connection, ())
        self.series = {**counted.series, **self._traces.series}

    def minutes(self, window: Window) -> Iterator[tuple[int, int, Sequence[Any]]]:
        yield from self._counted.minutes(window)
        yield from self._traces.minutes(window)
