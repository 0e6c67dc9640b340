"""The metrics of a running server."""

from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from build.otlp import agent_span, payload, tool_span
from build.served import METRICS, Downstream, export, exporter, served
from tracegrade.build import build_version
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.version import tracegrade_version
from waiting import eventually

pytestmark = pytest.mark.long


@pytest.fixture
def downstream() -> Iterator[Downstream]:
    downstream = Downstream()
    yield downstream
    downstream.stop()


def test_both_roles_say_who_they_are_and_what_was_judged(tmp_path: Path) -> None:
    with served(tmp_path, rules={"paths": ["builtin:default"]}) as server:
        export(server.endpoints["grpc"], payload([agent_span(1, 1), tool_span(1, 2, 1, "create_order")]))
        eventually(lambda: server.metric("tracegrade_evaluations_total", "judge"), "results in the judge's snapshot")
        page = server.page()
    build = {"version": tracegrade_version(), "build": build_version()}
    for role in ("receive", "judge"):
        assert server.metric("tracegrade_build_info", role, page=page, **build) == 1
    instance = DataFolder(server.data).instance_id()
    assert server.log.startswith(f"TraceGrade {build_version()}\n")
    target = f'service_instance_id="{instance}",service_name="tracegrade",service_version="{tracegrade_version()}"'
    assert f"target_info{{{target}}} 1.0" in page


def test_openmetrics_leads_from_a_count_to_a_trace(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        export(server.endpoints["grpc"], payload([agent_span(7, 1), tool_span(7, 2, 1, "create_order")]))
        eventually(lambda: server.metric("tracegrade_evaluations_total", "judge"), "results in the judge's snapshot")
        asked = Request(
            f"http://{server.endpoints['telemetry']}/metrics", headers={"Accept": "application/openmetrics-text"}
        )
        with urlopen(asked) as response:
            assert response.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
            families = {family.name: family for family in text_string_to_metric_families(response.read().decode())}
    counted = [sample for sample in families["tracegrade_evaluations"].samples if sample.name.endswith("_total")]
    assert {sample.exemplar.labels["trace_id"] for sample in counted if sample.value and sample.exemplar} == {
        f"{7:032x}"
    }
    assert all(sample.exemplar is None for sample in counted if not sample.value)


def test_changes_add_up_to_what_was_counted(tmp_path: Path, downstream: Downstream) -> None:
    settings = {
        "exporters": exporter(downstream, temporality="delta"),
        "telemetry": {"endpoint": "127.0.0.1:0", "export_interval": "100ms"},
    }
    with served(tmp_path, **settings) as server:
        for trace in (1, 2):
            export(server.endpoints["grpc"], payload([agent_span(trace, 1), tool_span(trace, 2, 1, "create_order")]))
            eventually(lambda: server.metric("tracegrade_spans_read_total", "judge") == 2 * trace, "spans to be read")  # noqa: B023
            eventually(lambda: _changes(downstream, "tracegrade.spans.read") == 2 * trace, "the changes")  # noqa: B023
    assert _changes(downstream, "tracegrade.spans.read") == 4


def test_what_was_counted_since_the_last_time_is_sent_at_the_stop(tmp_path: Path, downstream: Downstream) -> None:
    settings = {
        "exporters": exporter(downstream, temporality="delta"),
        "telemetry": {"endpoint": "127.0.0.1:0", "export_interval": "1h"},
    }
    with served(tmp_path, **settings) as server:
        export(server.endpoints["grpc"], payload([agent_span(1, 1), tool_span(1, 2, 1, "create_order")]))
        eventually(lambda: server.metric("tracegrade_spans_read_total", "judge") == 2, "spans to be read")
        assert downstream.requests[METRICS] == []
    assert _changes(downstream, "tracegrade.spans.read") == 2


def _changes(downstream: Downstream, name: str) -> int:
    """The sum of all points of a metric."""
    return sum(
        point.as_int
        for request in list(downstream.requests[METRICS])
        for resource in ExportMetricsServiceRequest.FromString(request).resource_metrics
        for metric in resource.scope_metrics[0].metrics
        if metric.name == name
        for point in metric.sum.data_points
    )
