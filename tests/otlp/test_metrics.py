from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from build.metric_snapshots import INSTANCE, every_metric
from tracegrade.otlp.metrics import export_request
from tracegrade.telemetry.metrics import METRICS, Telemetry


def exported(snapshots):
    [resource] = ExportMetricsServiceRequest.FromString(export_request(snapshots, INSTANCE)).resource_metrics
    [scope] = resource.scope_metrics
    return resource.resource, scope.scope, {metric.name: metric for metric in scope.metrics}


def labels(point):
    return {item.key: item.value.string_value for item in point.attributes}


def test_the_request_says_who_it_is_from(snapshots):
    resource, scope, _ = exported(snapshots)
    assert {item.key: item.value.string_value for item in resource.attributes} == {
        "service.name": "tracegrade",
        "service.instance.id": "instance-7",
        "service.version": "1.2.3",
    }
    assert scope.name == "tracegrade"


def test_counters_are_cumulative_sums_since_their_process_began_and_told_apart_by_role(snapshots):
    _, _, metrics = exported(snapshots)
    commits = metrics["tracegrade.journal.commits"]
    assert commits.unit == "{commit}"
    assert commits.sum.is_monotonic
    assert commits.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    receive, judge = commits.sum.data_points
    assert (labels(receive), receive.as_int) == ({"role": "receive", "journal": "journal"}, 7)
    assert (labels(judge), judge.as_int) == ({"role": "judge", "journal": "journal"}, 3)
    assert (judge.start_time_unix_nano, judge.time_unix_nano) == (101, 2_000_000_001)


def test_gauges_have_no_start(snapshots):
    _, _, metrics = exported(snapshots)
    [point] = metrics["tracegrade.journal.size"].gauge.data_points
    assert (point.as_int, point.start_time_unix_nano, point.time_unix_nano) == (4096, 0, 2_000_000_000)


def test_histograms_have_the_scores_buckets(snapshots):
    _, _, metrics = exported(snapshots)
    [point] = metrics["tracegrade.evaluation.score"].histogram.data_points
    bounds = list(point.explicit_bounds)
    assert bounds == list(METRICS["tracegrade.evaluation.score"].buckets)
    assert len(point.bucket_counts) == len(bounds) + 1
    counts = dict(zip([*bounds, "more"], point.bucket_counts, strict=True))
    assert {bound: count for bound, count in counts.items() if count} == {0.0: 1, 0.5: 2, 1.0: 1}
    assert (point.count, point.sum) == (4, 2.0)


def test_a_value_that_is_not_whole_is_a_double():
    telemetry = Telemetry("receive")
    telemetry.set("tracegrade.journal.size", 0.5, journal="journal")
    _, _, metrics = exported([telemetry.snapshot()])
    assert metrics["tracegrade.journal.size"].gauge.data_points[0].as_double == 0.5


def test_the_same_snapshots_give_the_same_bytes_and_none_an_empty_request(snapshots):
    assert export_request(snapshots, INSTANCE) == export_request(snapshots, INSTANCE)
    assert export_request([], INSTANCE) == b""


def test_every_metric_there_is_comes_through():
    _, _, metrics = exported([every_metric()])
    assert set(metrics) == set(METRICS)
