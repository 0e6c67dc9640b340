"""Changes between two snapshots of `Telemetry`, for backends that want delta temporality."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tracegrade.otlp.metrics import Snapshot
from tracegrade.telemetry.metrics import METRICS


def changes(snapshots: Iterable[Snapshot], earlier: Iterable[Snapshot]) -> list[Snapshot]:
    """Snapshots that hold, of counters and histograms, what came since `earlier`, and begin where that one ended.

    What has not changed is there with 0: a rate of passes is 0 and not absent where everything fails. A role that has
    started since is there from its start; one that has not said anything since is left out.
    """
    before = {snapshot["role"]: snapshot for snapshot in earlier}
    found = []
    for snapshot in snapshots:
        was = before.get(snapshot["role"])
        if was is None or was["started_ns"] != snapshot["started_ns"]:
            found.append(snapshot)
        elif was["time_ns"] < snapshot["time_ns"]:
            found.append(_changed(snapshot, was))
    return found


def _changed(snapshot: Snapshot, was: Snapshot) -> Snapshot:
    metrics = {
        name: points if METRICS[name].kind == "gauge" else list(_differences(points, was["metrics"].get(name, ())))
        for name, points in snapshot["metrics"].items()
        if name in METRICS
    }
    return {**snapshot, "started_ns": was["time_ns"], "metrics": metrics}


def _differences(points: Sequence[dict[str, Any]], earlier: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    before = {tuple(sorted(point["labels"].items())): point for point in earlier}
    for point in points:
        was = before.get(tuple(sorted(point["labels"].items())))
        if was is None:
            yield point
        elif "counts" in point:
            counts = [now - then for now, then in zip(point["counts"], was["counts"], strict=True)]
            yield {**point, "counts": counts, "sum": point["sum"] - was["sum"]}
        else:
            yield {**point, "value": point["value"] - was["value"]}
