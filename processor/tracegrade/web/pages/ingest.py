"""``/ingest``: what was received, judged, refused and lost since each process started."""

import time
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tracegrade.assemble.dispositions import LOST, reason_text
from tracegrade.telemetry.conditions import conditions_in
from tracegrade.telemetry.metrics import METRICS
from tracegrade.web.render import page
from tracegrade.web.rights import token_of
from tracegrade.web.sources import sources_of

_STALE_NS = 10_000_000_000


@dataclass(frozen=True, slots=True)
class Point:
    """One series of a metric: its labels in words, its value."""

    labels: str
    value: float


class Numbers:
    """The published metrics of both roles."""

    def __init__(self, snapshots: list[dict[str, Any]]) -> None:
        self._points: dict[str, list[tuple[dict[str, str], float]]] = {}
        for snapshot in snapshots:
            for name, points in snapshot["metrics"].items():
                self._points.setdefault(name, []).extend(
                    (point["labels"], point["value"]) for point in points if "value" in point
                )

    def total(self, name: str, **labels: str) -> int:
        """The sum of the series that carry `labels`."""
        found = self._points.get(name, ())
        return int(sum(value for own, value in found if labels.items() <= own.items()))

    def most(self, name: str) -> int:
        """The largest of its series."""
        return int(max((value for _, value in self._points.get(name, ())), default=0))

    def by(self, name: str, *labels: str) -> list[tuple[tuple[str, ...], int]]:
        """Sums by the values of these labels, those that are not zero, the largest first."""
        sums: dict[tuple[str, ...], float] = {}
        for own, value in self._points.get(name, ()):
            key = tuple(own.get(label, "") for label in labels)
            sums[key] = sums.get(key, 0.0) + value
        return sorted(((key, int(value)) for key, value in sums.items() if value), key=lambda item: -item[1])

    def points(self, name: str) -> list[Point]:
        """Every series."""
        return [
            Point(", ".join(f"{label} {value}" for label, value in own.items() if value), number)
            for own, number in self._points.get(name, ())
        ]


def show(request: Request) -> Response:
    """The health of the path, from what both roles published last."""
    snapshots = sources_of(request).snapshots()
    numbers = Numbers(snapshots)
    now_ns = time.time_ns()
    roles = [
        (item["role"], item["started_ns"], now_ns - item["time_ns"], now_ns - item["time_ns"] > _STALE_NS)
        for item in snapshots
    ]
    conditions = [(item["role"], condition) for item in snapshots for condition in conditions_in(item)]
    outcomes = numbers.by("tracegrade.receiver.requests", "outcome")
    dispositions = numbers.by("tracegrade.spans", "fate", "reason")
    return page(
        request,
        "ingest.html",
        title="System",
        roles=roles,
        tenant=token_of(request).tenant,
        conditions=[(role, condition, now_ns - condition.since_ns) for role, condition in conditions],
        accepted=numbers.total("tracegrade.receiver.accepted_items", signal="traces"),
        requests=numbers.by("tracegrade.receiver.requests", "outcome", "reason", "signal", "transport"),
        refused=sum(count for (outcome,), count in outcomes if outcome != "accepted"),
        dispositions=[(fate, reason_text(fate, reason), count, fate in LOST) for (fate, reason), count in dispositions],
        lost=sum(count for (fate, _), count in dispositions if fate in LOST),
        unread=numbers.total("tracegrade.spans.unread"),
        waiting=numbers.total("tracegrade.spans.open"),
        lag=numbers.most("tracegrade.judge.lag"),  # of several judges, the slowest one
        closed=numbers.by("tracegrade.traces.closed", "close_reason", "complete"),
        closed_count=numbers.total("tracegrade.traces.closed"),
        not_decoded=numbers.by("tracegrade.traces.not_decoded", "reason"),
        by_shape=numbers.by("tracegrade.extract.calls_by_shape", "service", "scope"),
        unread_tools=numbers.by("tracegrade.extract.unread_tool_spans", "service", "scope"),
        unread_models=numbers.by("tracegrade.extract.unread_model_spans", "service", "scope", "reason"),
        unread_logs=numbers.by("tracegrade.extract.unread_log_records", "service", "scope", "reason"),
        silent=numbers.by("tracegrade.extract.silent_traces", "service", "scope"),
        metrics=[(name, metric, points) for name, metric in METRICS.items() if (points := numbers.points(name))],
    )
