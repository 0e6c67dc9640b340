import pytest
from prometheus_client.parser import text_string_to_metric_families

from otlp.metric_snapshots import INSTANCE, RESULT, every_metric
from tracegrade.otlp.prometheus import prometheus_name, prometheus_page
from tracegrade.telemetry.metrics import METRICS


def page(snapshots, now_ns=3_000_000_000):
    families = text_string_to_metric_families(prometheus_page(snapshots, INSTANCE, now_ns).decode())
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for f in families for sample in f.samples}


def test_the_page_is_readable_and_tells_roles_apart(snapshots):
    found = page(snapshots)
    commits = {labels: value for (name, labels), value in found.items() if name == "tracegrade_journal_commits_total"}
    assert commits == {
        (("journal", "journal"), ("role", "receive")): 7,
        (("journal", "journal"), ("role", "judge")): 3,
    }
    assert found["tracegrade_journal_size_bytes", (("journal", "journal"), ("role", "receive"))] == 4096


def test_the_page_says_whose_it_is(snapshots):
    names = {"service_name": "tracegrade", "service_instance_id": "instance-7", "service_version": "1.2.3"}
    assert page(snapshots)["target_info", tuple(sorted(names.items()))] == 1


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


def test_every_metric_there_is_comes_through():
    names = {name for name, _ in page([every_metric()])}
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
