import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from build import each
from build.metric_snapshots import CREATED_NS, EXEMPLAR, INSTANCE, RESULT, every_metric
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


def openmetrics(snapshots):
    """By sample name and labels: what the strict parser of OpenMetrics reads; and the units by family."""
    text = prometheus_page(snapshots, INSTANCE, 3_000_000_000, openmetrics=True).decode()
    assert text.endswith("\n# EOF\n")
    families = list(openmetrics_families(text))
    samples = {(sample.name, frozenset(sample.labels.items())): sample for f in families for sample in f.samples}
    return samples, {family.name: family.unit for family in families}


def test_openmetrics_says_since_when_counters_and_histograms_count(snapshots):
    samples, units = openmetrics(snapshots)
    commits = frozenset({"journal": "journal", "role": "judge"}.items())
    assert samples["tracegrade_journal_commits_total", commits].value == 3
    assert samples["tracegrade_journal_commits_created", commits].value == CREATED_NS / 1e9
    scores = frozenset({**RESULT, "role": "judge"}.items())
    assert samples["tracegrade_evaluation_score_created", scores].value == CREATED_NS / 1e9
    assert samples["tracegrade_evaluation_score_count", scores].value == 4
    assert (units["tracegrade_journal_size_bytes"], units["tracegrade_snapshot_age_seconds"]) == ("bytes", "seconds")
    assert ("tracegrade_journal_size_bytes_created", frozenset()) not in samples


def test_openmetrics_has_exemplars_of_counters_and_of_the_bucket_that_a_score_is_in(snapshots):
    samples, _ = openmetrics(snapshots)
    ids = {"trace_id": EXEMPLAR.trace_id, "span_id": EXEMPLAR.span_id}
    failed = frozenset({**RESULT, "outcome": "fail", "role": "judge"}.items())
    counted = samples["tracegrade_evaluations_total", failed].exemplar
    assert (counted.labels, counted.value, float(counted.timestamp)) == (ids, 0.5, 1.75)
    with_exemplars = {
        labels: sample.exemplar.labels
        for (name, labels), sample in samples.items()
        if name == "tracegrade_evaluation_score_bucket" and sample.exemplar
    }
    assert with_exemplars == {frozenset({**RESULT, "role": "judge", "le": "0.5"}.items()): ids}


def test_the_page_for_those_who_do_not_ask_for_openmetrics_has_neither(snapshots):
    text = prometheus_page(snapshots, INSTANCE, 3_000_000_000).decode()
    assert "_created" not in text
    assert EXEMPLAR.trace_id not in text
    assert "# EOF" not in text


def test_snapshots_of_an_earlier_version_are_shown_without_what_they_lack(snapshots):
    for snapshot in snapshots:
        for points in snapshot["metrics"].values():
            for point in points:
                point.pop("created_ns", None)
                point.pop("exemplars", None)
    samples, _ = openmetrics(snapshots)
    assert not [name for name, _ in samples if name.endswith("_created")]


def test_every_metric_there_is_comes_through_in_openmetrics():
    samples, _ = openmetrics([every_metric()])
    ending = {"counter": "_total", "gauge": "", "histogram": "_count"}
    expected = {prometheus_name(name, metric) + ending[metric.kind] for name, metric in METRICS.items()}
    assert expected <= {name for name, _ in samples}


def test_every_metric_there_is_comes_through():
    names = {name for name, _ in page([every_metric()])}
    ending = {"counter": "_total", "gauge": "", "histogram": "_count"}
    assert {prometheus_name(name, metric) + ending[metric.kind] for name, metric in METRICS.items()} <= names


@each(
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
