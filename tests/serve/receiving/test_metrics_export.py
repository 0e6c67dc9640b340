"""What exporters are sent of our own metrics, each in its temporality."""

import asyncio
from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    Metric,
)

from build.metric_snapshots import INSTANCE
from tracegrade.model.signal import Signal
from tracegrade.otlp.answer import Answer
from tracegrade.otlp.exporter_settings import ExporterSettings
from tracegrade.serve.receiving.metrics_export import MetricsExport
from tracegrade.telemetry.metrics import Telemetry


class Peer:
    """Takes notes; refuses while ``away``."""

    def __init__(self) -> None:
        self.away = False
        self.taken: list[bytes] = []

    async def export(self, signal: Signal, payload: bytes) -> Answer:
        assert signal is Signal.METRICS
        if self.away:
            return Answer("retry", "unavailable")
        self.taken.append(payload)
        return Answer("sent")

    def commits(self) -> Iterator[Metric]:
        """The counter of commits in each request."""
        for payload in self.taken:
            (resource,) = ExportMetricsServiceRequest.FromString(payload).resource_metrics
            yield from (m for m in resource.scope_metrics[0].metrics if m.name == "tracegrade.journal.commits")

    def values(self) -> list[int]:
        return [point.as_int for metric in self.commits() for point in metric.sum.data_points]


def settings(**changes: Any) -> ExporterSettings:
    return ExporterSettings(endpoint="127.0.0.1:4317", tls={"insecure": True}, **changes)


class Stage:
    """One exporter of each temporality, and a role that counts."""

    def __init__(self, *before: dict[str, Any]) -> None:
        self.role = Telemetry("judge")
        self.sums, self.changes, self.of_traces = Peer(), Peer(), Peer()
        exporters = {
            "sums": settings(),
            "changes": settings(temporality="delta"),
            "of traces": settings(signals=["traces"]),
            "of shop": settings(tenants=["shop", "other"]),
        }
        self.of_shop = Peer()
        clients = {
            "sums": self.sums,
            "changes": self.changes,
            "of traces": self.of_traces,
            "of shop": self.of_shop,
        }
        self._export = MetricsExport(exporters, clients, INSTANCE, lambda: [self.role.snapshot()], before)

    def count_and_send(self, number: int) -> None:
        self.role.add("tracegrade.journal.commits", number, journal="journal")
        asyncio.run(self._export.send())


def test_each_exporter_has_its_temporality() -> None:
    stage = Stage()
    for number in (3, 4, 0):
        stage.count_and_send(number)
    assert (stage.sums.values(), stage.changes.values(), stage.of_traces.taken) == ([3, 7, 7], [3, 4, 0], [])
    temporalities = [{m.sum.aggregation_temporality for m in peer.commits()} for peer in (stage.sums, stage.changes)]
    assert temporalities == [{AGGREGATION_TEMPORALITY_CUMULATIVE}, {AGGREGATION_TEMPORALITY_DELTA}]
    first, second, _ = [metric.sum.data_points[0] for metric in stage.changes.commits()]
    assert first.start_time_unix_nano == stage.role.started_ns
    assert second.start_time_unix_nano == first.time_unix_nano


def test_an_exporter_for_some_tenants_is_sent_the_series_that_name_them_alone() -> None:
    stage = Stage()
    for tenant in ("shop", "globex", "other"):
        stage.role.add("tracegrade.receiver.over_quota", tenant=tenant, service="s", quota="spans_per_second")
    stage.count_and_send(3)
    (resource,) = ExportMetricsServiceRequest.FromString(stage.of_shop.taken[0]).resource_metrics
    (metric,) = resource.scope_metrics[0].metrics
    (point,) = metric.sum.data_points  # `other` are those of any tenant
    assert metric.name == "tracegrade.receiver.over_quota"
    assert [each.value.string_value for each in point.attributes if each.key == "tenant"] == ["shop"]


def test_changes_that_were_not_taken_are_in_the_next() -> None:
    stage = Stage()
    stage.count_and_send(3)
    stage.changes.away = True
    stage.count_and_send(4)
    stage.changes.away = False
    stage.count_and_send(1)
    assert stage.changes.values() == [3, 5]


def test_what_an_earlier_process_has_sent_is_not_sent_again() -> None:
    old = Stage()
    old.count_and_send(3)
    before = old.role.snapshot()
    stage = Stage(before)
    stage.role = old.role  # a judge of its own, which goes on
    stage.count_and_send(4)
    assert (stage.sums.values(), stage.changes.values()) == ([7], [4])
