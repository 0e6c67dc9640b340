"""Results as our own metrics: scores, outcomes, decisions, and what later revisions changed."""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Sequence
from typing import Any

from tracegrade.deliver.record import JudgedTrace
from tracegrade.deliver.sink import DONE, Delivery
from tracegrade.telemetry import Labels, Telemetry

_MOST_REMEMBERED = 100_000  # outcomes; about 30 MB
_UNKNOWN = "unknown"

Key = tuple[str, ...]


class MetricsSink:
    """Fills `Telemetry`, each series once a batch.

    First revisions count; of a later one only what it changed is added, to ``tracegrade.revisions``, whose ``from`` is
    ``unknown`` when the earlier outcome is no longer (or, after a restart, not yet) in memory. The store is exact.
    """

    name = "metrics"

    def __init__(self, telemetry: Telemetry, most_remembered: int = _MOST_REMEMBERED) -> None:
        self._telemetry = telemetry
        self._most_remembered = most_remembered
        self._outcomes: OrderedDict[Key, str] = OrderedDict()

    async def deliver(self, batch: Sequence[JudgedTrace]) -> Delivery:
        """Count the batch; never fails."""
        scores: defaultdict[Labels, list[float]] = defaultdict(list)
        counts: Counter[tuple[str, Labels]] = Counter()
        for judged in batch:
            later = judged.trace["supersedes"] is not None
            for evaluation in judged.evaluations:
                before = self._remember(evaluation)
                if later:
                    self._count_change(counts, evaluation, before or _UNKNOWN)
                    continue
                labels = _labels(evaluation)
                counts["tracegrade.evaluations", (*labels, ("outcome", evaluation["outcome"]))] += 1
                if evaluation["score"] is not None:
                    scores[labels].append(float(evaluation["score"]))
            if not later:
                for decision in judged.decisions:
                    labels = (("rule", decision["rule_id"]), ("kind", decision["kind"]))
                    counts["tracegrade.decisions", labels] += 1
        for (name, labels), amount in counts.items():
            self._telemetry.add(name, amount, **dict(labels))
        for labels, values in scores.items():
            self._telemetry.observe("tracegrade.evaluation.score", values, **dict(labels))
        return DONE

    async def close(self) -> None:
        """Nothing to let go of."""

    def _count_change(self, counts: Counter[tuple[str, Labels]], evaluation: dict[str, Any], before: str) -> None:
        after = evaluation["outcome"]
        if before != after:
            labels = (("rule", evaluation["rule_id"]), ("from", before), ("to", after))
            counts["tracegrade.revisions", labels] += 1

    def _remember(self, evaluation: dict[str, Any]) -> str | None:
        """Keep the outcome in mind, and give the one of the same key before it."""
        subject = evaluation["subject"]
        key = (
            evaluation["tenant"],
            evaluation["run"],
            subject["kind"],
            "" if subject["kind"] == "session" else evaluation["trace_id"],  # a session goes on in other traces
            subject["id"],
            evaluation["rule_id"],
            evaluation["evaluation"],
            evaluation["case"] or "",
        )
        before = self._outcomes.pop(key, None)
        self._outcomes[key] = evaluation["outcome"]
        if len(self._outcomes) > self._most_remembered:
            self._outcomes.popitem(last=False)
        return before


def _labels(evaluation: dict[str, Any]) -> Labels:
    return (
        ("rule", evaluation["rule_id"]),
        ("rule_hash", evaluation["rule_hash"][:8]),
        ("evaluation", evaluation["evaluation"]),
        ("agent", evaluation["agent"]),
        ("service", evaluation["service"]),
    )
