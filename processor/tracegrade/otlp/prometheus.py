"""Our own metrics as a page for Prometheus, from snapshots of `Telemetry`.

Names are formed as the collector does: dots become underscores, the unit is appended unless the name already says it,
counters end in ``_total``. ``role`` is a label of every series.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from tracegrade.otlp.metrics import ROLE, Instance, Snapshot, series_of
from tracegrade.telemetry.metrics import METRICS, Metric

_UNIT_WORDS = {"By": "bytes", "s": "seconds"}


def prometheus_page(snapshots: Sequence[Snapshot], instance: Instance, now_ns: int) -> bytes:
    """The snapshots as Prometheus text, with the age of each: the judge's may have stopped coming.

    Args:
        snapshots: what `Telemetry.snapshot` gave, one for each role.
        instance: becomes ``target_info``.
        now_ns: the time, ns since 1970 UTC.
    """
    return generate_latest(_Page(snapshots, instance, now_ns))


class _Page(Collector):
    def __init__(self, snapshots: Sequence[Snapshot], instance: Instance, now_ns: int) -> None:
        self._snapshots = snapshots
        self._instance = instance
        self._now_ns = now_ns

    def collect(self) -> Iterator[Family]:
        """Whose page it is, every metric that has a series, then the snapshots' ages."""
        named = {key.replace(".", "_"): value for key, value in self._instance.attributes.items()}
        yield InfoMetricFamily("target", "The resource of these metrics", named)
        for name, metric in METRICS.items():
            if found := list(series_of(name, self._snapshots)):
                yield _family(name, metric, found)
        age = GaugeMetricFamily(
            "tracegrade_snapshot_age_seconds", "Age of what a role last said of itself", None, ["role"]
        )
        for snapshot in self._snapshots:
            age.add_metric([snapshot["role"]], max(self._now_ns - snapshot["time_ns"], 0) / 1e9)
        yield age


def _family(name: str, metric: Metric, found: list[tuple[Snapshot, dict[str, Any]]]) -> Family:
    title = prometheus_name(name, metric)
    labels = [ROLE, *metric.labels]
    rows = [
        ([str(snapshot["role"]), *(point["labels"].get(key, "") for key in metric.labels)], point)
        for snapshot, point in found
    ]
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(title, metric.description, labels=labels)
        for values, point in rows:
            histogram.add_metric(values, _cumulative(metric, point["counts"]), point["sum"])
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(title, metric.description, labels=labels)
    for values, point in rows:
        family.add_metric(values, point["value"])
    return family


def prometheus_name(name: str, metric: Metric) -> str:
    """The metric's name on the page, without the ``_total`` that a counter's samples get."""
    words = name.replace(".", "_")
    unit = _UNIT_WORDS.get(metric.unit, "")
    return words if not unit or unit in words.split("_") else f"{words}_{unit}"


def _cumulative(metric: Metric, counts: Sequence[float]) -> list[tuple[str, float]]:
    buckets, total = [], 0.0
    for bound, count in zip((*map(str, metric.buckets), "+Inf"), counts, strict=True):
        total += count
        buckets.append((bound, total))
    return buckets
