"""Our own metrics as OTLP, from snapshots of `Telemetry`.

Both roles have their snapshot; ``role`` is an attribute of every point, so that their series never collide.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb

from tracegrade.otlp.encode import RESOURCE_ATTRIBUTES, Item, attribute, requests
from tracegrade.telemetry.metrics import METRICS, Metric

Snapshot = Mapping[str, Any]

ROLE = "role"


@dataclass(frozen=True, slots=True)
class Instance:
    """Whose metrics they are: the id of this instance, which its data folder holds, and the version that runs."""

    id: str
    version: str

    @property
    def attributes(self) -> dict[str, str]:
        """Its resource attributes."""
        return {"service.name": "tracegrade", "service.instance.id": self.id, "service.version": self.version}


def export_request(snapshots: Sequence[Snapshot], instance: Instance, *, delta: bool = False) -> bytes:
    """The snapshots as one ``ExportMetricsServiceRequest``: cumulative since each process's start.

    Args:
        snapshots: from `Telemetry.snapshot`, one for each role.
        instance: becomes the resource.
        delta: the snapshots hold what changed (see `metric_changes`), and the request says so.
    """
    temporality = pb.AGGREGATION_TEMPORALITY_DELTA if delta else pb.AGGREGATION_TEMPORALITY_CUMULATIVE
    resource = b"".join(attribute(RESOURCE_ATTRIBUTES, key, value) for key, value in instance.attributes.items())
    metrics = [
        _metric(name, metric, found, temporality).SerializeToString(deterministic=True)
        for name, metric in METRICS.items()
        if (found := list(series_of(name, snapshots)))
    ]
    whole = next(requests([Item(0, resource, metrics)] if metrics else [], max_bytes=2**63), None)
    return whole.payload if whole is not None else ExportMetricsServiceRequest().SerializeToString()


def series_of(name: str, snapshots: Iterable[Snapshot]) -> Iterator[tuple[Snapshot, dict[str, Any]]]:
    """Every series of a metric, with the snapshot that holds it."""
    for snapshot in snapshots:
        for point in snapshot["metrics"].get(name, ()):
            yield snapshot, point


def _metric(
    name: str,
    metric: Metric,
    found: list[tuple[Snapshot, dict[str, Any]]],
    temporality: pb.AggregationTemporality.ValueType,
) -> pb.Metric:
    message = pb.Metric(name=name, unit=metric.unit, description=metric.description)
    if metric.kind == "histogram":
        message.histogram.CopyFrom(
            pb.Histogram(
                data_points=[_histogram_point(metric, *pair) for pair in found],
                aggregation_temporality=temporality,
            )
        )
    elif metric.kind == "counter":
        message.sum.CopyFrom(
            pb.Sum(
                data_points=[_number_point(*pair, started=True) for pair in found],
                aggregation_temporality=temporality,
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
    labels = {ROLE: snapshot["role"], **point["labels"]}
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in labels.items()]
