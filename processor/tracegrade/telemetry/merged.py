"""Several processes of one role shown as one: their snapshots added up."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tracegrade.telemetry.conditions import conditions_in
from tracegrade.telemetry.metrics import METRICS

Snapshot = Mapping[str, Any]

# Gauges that each process knows of the same thing: the largest is shown, where others are added up.
_KNOWN_BY_EACH = frozenset(
    {
        "tracegrade.build_info",
        "tracegrade.conditions",
        "tracegrade.data_folder.free",
        "tracegrade.rules.loaded",
        "tracegrade.rules.experimental",
        "tracegrade.rules.refused",
    }
)

# What was open when a process ended is read again by the next one, and counted once more then.
HANDED_OVER = ("handed_over", "")
_HANDED_OVER = {"fate": "handed_over", "reason": ""}
_OPEN = {"tracegrade.spans.open": "tracegrade.spans", "tracegrade.log_records.open": "tracegrade.log_records"}


class MergedSnapshots:
    """Adds up the snapshots of the processes of one role.

    What a process had counted before it was started again stays in the sum, as long as this object lives: a counter
    that falls looks like one that began again, and all that the others had counted would count as new. What a process
    left that had ended before this object was made does not: nobody else goes on from there.
    """

    def __init__(self, role: str) -> None:
        self._role = role
        self._last: dict[str, Snapshot] = {}
        self._before: dict[str, list[Snapshot]] = {}
        self._first_ns: dict[str, int] = {}  # when the first snapshot of each was written
        self._started_ns = 0

    def merged(self, snapshots: Sequence[Snapshot]) -> dict[str, Any] | None:
        """One snapshot for all of them: as old as the oldest one; None if there is none."""
        if not snapshots:
            return None
        for snapshot in snapshots:
            name = snapshot["role"]
            last = self._last.get(name)
            if last is None:
                self._first_ns[name] = snapshot["time_ns"]
            elif last["started_ns"] != snapshot["started_ns"]:
                if last["time_ns"] == self._first_ns[name]:  # never seen to change: its process had ended before
                    self._started_ns = 0
                else:
                    self._before.setdefault(name, [])[:] = [_counted([*self._before.get(name, ()), last], name)]
            self._last[name] = snapshot
        self._started_ns = self._started_ns or min(snapshot["started_ns"] for snapshot in snapshots)
        earlier = [each for before in self._before.values() for each in before]
        return {
            "role": self._role,
            "started_ns": self._started_ns,
            "time_ns": min(snapshot["time_ns"] for snapshot in snapshots),
            "conditions": _conditions(snapshots),
            "metrics": _added([*snapshots, *earlier]),
        }


def _counted(snapshots: Iterable[Snapshot], role: str) -> Snapshot:
    """Counts of processes that have ended."""
    counted: list[Snapshot] = []
    for each in snapshots:
        metrics = each["metrics"]
        counted.append({"metrics": {name: found for name, found in metrics.items() if METRICS[name].kind != "gauge"}})
        counted.extend(
            {"metrics": {name: [{"labels": _HANDED_OVER, "value": point["value"]}]}}
            for opened, name in _OPEN.items()
            for point in metrics.get(opened, ())
            if point["value"]
        )
    return {"role": role, "metrics": _added(counted)}


def _added(snapshots: Iterable[Snapshot]) -> dict[str, list[dict[str, Any]]]:
    sums: dict[str, dict[tuple[tuple[str, str], ...], dict[str, Any]]] = {}
    for snapshot in snapshots:
        for name, points in snapshot["metrics"].items():
            if name not in METRICS:
                continue
            of_metric = sums.setdefault(name, {})
            for point in points:
                key = tuple(sorted(point["labels"].items()))
                of_metric[key] = _sum(name, of_metric[key], point) if key in of_metric else point
    return {name: list(of_metric.values()) for name, of_metric in sums.items()}


def _sum(name: str, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    if "counts" in one:
        counts = [a + b for a, b in zip(one["counts"], other["counts"], strict=True)]
        found: dict[str, Any] = {"labels": one["labels"], "counts": counts, "sum": one["sum"] + other["sum"]}
    elif name in _KNOWN_BY_EACH:
        return max(one, other, key=lambda point: point["value"])
    else:
        found = {"labels": one["labels"], "value": one["value"] + other["value"]}
    if created := [point["created_ns"] for point in (one, other) if "created_ns" in point]:
        found["created_ns"] = min(created)
    if exemplars := [*one.get("exemplars", ()), *other.get("exemplars", ())]:
        found["exemplars"] = list({exemplar[0]: exemplar for exemplar in exemplars}.values())
    return found


def _conditions(snapshots: Iterable[Snapshot]) -> list[dict[str, Any]]:
    """Each once, since it was first noticed."""
    found: dict[tuple[str, str], Any] = {}
    for condition in (condition for snapshot in snapshots for condition in conditions_in(dict(snapshot))):
        key = condition.name, condition.where
        if key not in found or condition.since_ns < found[key].since_ns:
            found[key] = condition
    return [condition.to_json() for condition in sorted(found.values(), key=lambda item: (item.since_ns, item.name))]
