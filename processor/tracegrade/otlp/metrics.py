"""Our own metrics as OTLP and as a Prometheus page, from snapshots of `Telemetry`.

Both roles have their snapshot; ``role`` is an attribute of every point, so that their series never collide. Names on
the Prometheus page are formed as the collector does: dots become underscores, the unit is appended unless the name
already says it, counters end in ``_total``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from tracegrade.otlp.encode import RESOURCE_ATTRIBUTES, Item, attribute, requests
from tracegrade.telemetry.metrics import METRICS, Metric

Snapshot = Mapping[str, Any]

_ROLE = "role"
_UNIT_WORDS = {"By": "bytes", "s": "seconds"}


def export_request(snapshots: Sequence[Snapshot], instance_id: str) -> bytes:
    """The snapshots as one ``ExportMetricsServiceRequest``: cumulative since each process's start.

    Args:
        snapshots: what `Telemetry.snapshot` gave, one for each role.
        instance_id: becomes ``service.instance.id``.
    """
    resource = attribute(RESOURCE_ATTRIBUTES, "service.name", "tracegrade") + attribute(
        RESOURCE_ATTRIBUTES, "service.instance.id", instance_id
    )
    metrics = [
        _metric(name, metric, found).SerializeToString(deterministic=True)
        for name, metric in METRICS.items()
        if (found := list(_series(name, snapshots)))
    ]
    whole = next(requests([Item(0, resource, metrics)] if metrics else [], max_bytes=2**63), None)
    return whole.payload if whole is not None else ExportMetricsServiceRequest().SerializeToString()


def _series(name: str, snapshots: Iterable[Snapshot]) -> Iterator[tuple[Snapshot, dict[str, Any]]]:
    for snapshot in snapshots:
        for point in snapshot["metrics"].get(name, ()):
            yield snapshot, point


def _metric(name: str, metric: Metric, found: list[tuple[Snapshot, dict[str, Any]]]) -> pb.Metric:
    message = pb.Metric(name=name, unit=metric.unit, description=metric.description)
    if metric.kind == "histogram":
        message.histogram.CopyFrom(
            pb.Histogram(
                data_points=[_histogram_point(metric, *pair) for pair in found],
                aggregation_temporality=pb.AGGREGATION_TEMPORALITY_CUMULATIVE,
            )
        )
    elif metric.kind == "counter":
        message.sum.CopyFrom(
            pb.Sum(
                data_points=[_number_point(*pair, started=True) for pair in found],
                aggregation_temporality=pb.AGGREGATION_TEMPORALITY_CUMULATIVE,
                is_monotonic=True,
            )
        )
    else:
        message.gauge.CopyFrom(pb.Gauge(data_points=[_number_point(*pair, started=False) for pair in found]))
    return message


def _number_point(snapshot: Snapshot, point: dict[str, Any], started: bool) -> pb.NumberDataPoint:
    value = point["value"]
    message = pb.NumberDataPoint(
        attributes=_attributes(snapshot, point),
        start_time_unix_nano=snapshot["started_ns"] if started else 0,
        time_unix_nano=snapshot["time_ns"],
    )
    if float(value).is_integer() and abs(value) < 2**63:
        message.as_int = int(value)
    else:
        message.as_double = value
    return message


def _histogram_point(metric: Metric, snapshot: Snapshot, point: dict[str, Any]) -> pb.HistogramDataPoint:
    counts = [int(count) for count in point["counts"]]
    return pb.HistogramDataPoint(
        attributes=_attributes(snapshot, point),
        start_time_unix_nano=snapshot["started_ns"],
        time_unix_nano=snapshot["time_ns"],
        count=sum(counts),
        sum=point["sum"],
        explicit_bounds=metric.buckets,
        bucket_counts=counts,
    )


def _attributes(snapshot: Snapshot, point: dict[str, Any]) -> list[KeyValue]:
    labels = {_ROLE: snapshot["role"], **point["labels"]}
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in labels.items()]


def prometheus_page(snapshots: Sequence[Snapshot], now_ns: int) -> bytes:
    """The snapshots as Prometheus text, with the age of each: the judge's may have stopped coming.

    Args:
        snapshots: what `Telemetry.snapshot` gave, one for each role.
        now_ns: the time, ns since 1970 UTC.
    """
    return generate_latest(_Page(snapshots, now_ns))


class _Page(Collector):
    def __init__(self, snapshots: Sequence[Snapshot], now_ns: int) -> None:
        self._snapshots = snapshots
        self._now_ns = now_ns

    def collect(self) -> Iterator[Family]:
        """Every metric that has a series, then the snapshots' ages."""
        for name, metric in METRICS.items():
            if found := list(_series(name, self._snapshots)):
                yield _family(name, metric, found)
        age = GaugeMetricFamily(
            "tracegrade_snapshot_age_seconds", "Age of what a role last said of itself", None, ["role"]
        )
        for snapshot in self._snapshots:
            age.add_metric([snapshot["role"]], max(self._now_ns - snapshot["time_ns"], 0) / 1e9)
        yield age


def _family(name: str, metric: Metric, found: list[tuple[Snapshot, dict[str, Any]]]) -> Family:
    title = prometheus_name(name, metric)
    labels = [_ROLE, *metric.labels]
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
