"""Our own metrics as a page for Prometheus, from snapshots of `Telemetry`.

Names are formed as the collector does: dots become underscores, the unit is appended unless the name already says it,
counters end in ``_total``. ``role`` is a label of every series. In OpenMetrics, counters and histograms also say when
they began, and have exemplars.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from tracegrade.otlp.metrics import ROLE, Instance, Snapshot, series_of
from tracegrade.telemetry.metrics import METRICS, Metric

_UNIT_WORDS = {"By": "bytes", "s": "seconds"}


def prometheus_page(
    snapshots: Sequence[Snapshot], instance: Instance, now_ns: int, *, openmetrics: bool = False
) -> bytes:
    """The snapshots as Prometheus text, with the age of each: the judge's may have stopped coming.

    Args:
        snapshots: what `Telemetry.snapshot` gave, one for each role.
        instance: becomes ``target_info``.
        now_ns: the time, ns since 1970 UTC.
        openmetrics: write OpenMetrics 1.0 instead of Prometheus' own format.
    """
    page = _Page(snapshots, instance, now_ns, openmetrics)
    if not openmetrics:
        return generate_latest(page)
    shown: bytes = generate_openmetrics(page)  # type: ignore[no-untyped-call]  # the library's own has none
    return shown


class _Page(Collector):
    def __init__(self, snapshots: Sequence[Snapshot], instance: Instance, now_ns: int, openmetrics: bool) -> None:
        self._snapshots = snapshots
        self._instance = instance
        self._now_ns = now_ns
        self._openmetrics = openmetrics

    def collect(self) -> Iterator[Family]:
        """Whose page it is, every metric that has a series, then the snapshots' ages."""
        named = {key.replace(".", "_"): value for key, value in self._instance.attributes.items()}
        yield InfoMetricFamily("target", "The resource of these metrics", named)
        for name, metric in METRICS.items():
            if found := list(series_of(name, self._snapshots)):
                yield _family(name, metric, found, self._openmetrics)
        age = GaugeMetricFamily(
            "tracegrade_snapshot_age_seconds", "Age of what a role last said of itself", None, ["role"], "seconds"
        )
        for snapshot in self._snapshots:
            age.add_metric([snapshot["role"]], max(self._now_ns - snapshot["time_ns"], 0) / 1e9)
        yield age


def _family(name: str, metric: Metric, found: list[tuple[Snapshot, dict[str, Any]]], openmetrics: bool) -> Family:
    title = prometheus_name(name, metric)
    labels, unit = [ROLE, *metric.labels], _UNIT_WORDS.get(metric.unit, "")
    unit = unit if title.endswith(f"_{unit}") else ""
    rows = [
        ([str(snapshot["role"]), *(point["labels"].get(key, "") for key in metric.labels)], point)
        for snapshot, point in found
    ]
    if metric.kind == "gauge":
        gauge = GaugeMetricFamily(title, metric.description, labels=labels, unit=unit)
        for values, point in rows:
            gauge.add_metric(values, point["value"])
        return gauge
    if metric.kind == "counter":
        counter = CounterMetricFamily(title, metric.description, labels=labels, unit=unit)
        for values, point in rows:
            created, exemplars = _created_and_exemplars(point) if openmetrics else (None, {})
            counter.add_metric(values, point["value"], created, exemplar=exemplars.get(0))
        return counter
    histogram = HistogramMetricFamily(title, metric.description, labels=labels, unit=unit)
    for values, point in rows:
        created, exemplars = _created_and_exemplars(point) if openmetrics else (None, {})
        histogram.add_metric(values, _cumulative(metric, point["counts"], exemplars), point["sum"])
        if created is not None:
            histogram.add_sample(f"{title}_created", dict(zip(labels, values, strict=True)), created)
    return histogram


def _created_and_exemplars(point: dict[str, Any]) -> tuple[float | None, dict[int, Exemplar]]:
    """When a series began, in s; its exemplars by bucket."""
    created_ns = point.get("created_ns")
    return None if created_ns is None else created_ns / 1e9, {
        bucket: Exemplar({"trace_id": trace_id, "span_id": span_id}, value, time_ns / 1e9)
        for bucket, trace_id, span_id, value, time_ns in point.get("exemplars", ())
    }


def _cumulative(metric: Metric, counts: Sequence[float], exemplars: dict[int, Exemplar]) -> list[Any]:
    """Each bucket's upper bound, how many values are below it, and its exemplar, if any."""
    buckets: list[Any] = []
    total = 0.0
    for place, (bound, count) in enumerate(zip((*map(str, metric.buckets), "+Inf"), counts, strict=True)):
        total += count
        buckets.append((bound, total, exemplars[place]) if place in exemplars else (bound, total))
    return buckets


def prometheus_name(name: str, metric: Metric) -> str:
    """The metric's name on the page, without the ``_total`` that a counter's samples get."""
    words = name.replace(".", "_")
    unit = _UNIT_WORDS.get(metric.unit, "")
    return words if not unit or unit in words.split("_") else f"{words}_{unit}"
