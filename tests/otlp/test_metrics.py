import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE
from prometheus_client.parser import text_string_to_metric_families

from tracegrade.otlp.metrics import export_request, prometheus_name, prometheus_page
from tracegrade.telemetry.metrics import METRICS, Telemetry

RESULT = {"rule": "r", "rule_hash": "01234567", "evaluation": "e", "agent": 'a"\\\n', "service": "shop"}


@pytest.fixture
def snapshots():
    """One of each role, both with the same counter."""
    receive, judge = Telemetry("receive"), Telemetry("judge")
    receive.add("tracegrade.receiver.requests", 5, signal="traces", transport="grpc", outcome="accepted", reason="")
    receive.set("tracegrade.journal.size", 4096, journal="journal")
    receive.add("tracegrade.journal.commits", 7, journal="journal")
    judge.add("tracegrade.journal.commits", 3, journal="journal")
    judge.observe("tracegrade.evaluation.score", [0.0, 0.5, 0.5, 1.0], **RESULT)
    found = [receive.snapshot(), judge.snapshot()]
    for number, snapshot in enumerate(found):
        snapshot |= {"started_ns": 100 + number, "time_ns": 2_000_000_000 + number}
    return found


def exported(snapshots):
    [resource] = ExportMetricsServiceRequest.FromString(export_request(snapshots, "instance-7")).resource_metrics
    [scope] = resource.scope_metrics
    return resource.resource, scope.scope, {metric.name: metric for metric in scope.metrics}


def labels(point):
    return {item.key: item.value.string_value for item in point.attributes}


def test_the_request_says_who_it_is_from(snapshots):
    resource, scope, _ = exported(snapshots)
    assert {item.key: item.value.string_value for item in resource.attributes} == {
        "service.name": "tracegrade",
        "service.instance.id": "instance-7",
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
    assert export_request(snapshots, "i") == export_request(snapshots, "i")
    assert export_request([], "i") == b""


def page(snapshots, now_ns=3_000_000_000):
    families = text_string_to_metric_families(prometheus_page(snapshots, now_ns).decode())
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for f in families for sample in f.samples}


def test_the_page_is_readable_and_tells_roles_apart(snapshots):
    found = page(snapshots)
    commits = {labels: value for (name, labels), value in found.items() if name == "tracegrade_journal_commits_total"}
    assert commits == {
        (("journal", "journal"), ("role", "receive")): 7,
        (("journal", "journal"), ("role", "judge")): 3,
    }
    assert found["tracegrade_journal_size_bytes", (("journal", "journal"), ("role", "receive"))] == 4096


def test_the_pages_histogram_is_cumulative_and_its_labels_are_escaped(snapshots):
    found = page(snapshots)
    series = tuple(sorted({**RESULT, "role": "judge"}.items()))
    assert found["tracegrade_evaluation_score_count", series] == 4
    assert found["tracegrade_evaluation_score_sum", series] == 2.0

    def up_to(bound):
        return found["tracegrade_evaluation_score_bucket", tuple(sorted({**dict(series), "le": bound}.items()))]

    assert [up_to(bound) for bound in ("0.0", "0.4", "0.5", "0.99", "1.0", "+Inf")] == [1, 1, 3, 3, 4, 4]


def test_the_page_says_how_old_each_snapshot_is(snapshots):
    found = page(snapshots, now_ns=5_000_000_001)
    assert found["tracegrade_snapshot_age_seconds", (("role", "receive"),)] == pytest.approx(3.0)
    assert found["tracegrade_snapshot_age_seconds", (("role", "judge"),)] == 3.0


def test_every_metric_there_is_comes_through_both_ways():
    telemetry = Telemetry("receive")
    for name, metric in METRICS.items():
        values = dict.fromkeys(metric.labels, "x")
        if metric.kind == "histogram":
            telemetry.observe(name, [0.5], **values)
        else:
            (telemetry.add if metric.kind == "counter" else telemetry.set)(name, 1, **values)
    _, _, metrics = exported([telemetry.snapshot()])
    assert set(metrics) == set(METRICS)
    names = {name for name, _ in page([telemetry.snapshot()])}
    ending = {"counter": "_total", "gauge": "", "histogram": "_count"}
    assert {prometheus_name(name, metric) + ending[metric.kind] for name, metric in METRICS.items()} <= names


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("tracegrade.journal.size", "tracegrade_journal_size_bytes"),
        ("tracegrade.journal.corrupt_bytes", "tracegrade_journal_corrupt_bytes"),
        ("tracegrade.receiver.requests", "tracegrade_receiver_requests"),
        ("tracegrade.evaluation.score", "tracegrade_evaluation_score"),
    ],
)
def test_names_on_the_page_have_the_unit_once(name, shown):
    assert prometheus_name(name, METRICS[name]) == shown
