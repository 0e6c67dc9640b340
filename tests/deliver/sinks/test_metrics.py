import asyncio
import time
import tracemalloc
from dataclasses import replace

import pytest
from sqlalchemy import create_engine

from build import store_with
from tracegrade.deliver.sink import DONE, SinkContext
from tracegrade.deliver.sinks import metrics
from tracegrade.deliver.sinks.metrics import MetricsSink, open_sinks
from tracegrade.store.open import open_store
from tracegrade.store.write import StoreWriter
from tracegrade.telemetry.metrics import METRICS, Telemetry


def deliver(sink, *batch):
    assert asyncio.run(sink.deliver(list(batch))) == DONE


def decided(record, *kinds):
    """The record with a decision of each of `kinds`: its own first, then further ones without evaluations."""
    [decision] = record.decisions
    decisions = [replace(decision, kind=kind, evaluations=[]) for kind in kinds]
    decisions[0].evaluations = decision.evaluations
    return replace(record, decisions=decisions)


def revisions(telemetry):
    found = telemetry.snapshot()["metrics"].get("tracegrade.revisions", [])
    return {(point["labels"]["from"], point["labels"]["to"]): point["value"] for point in found}


def test_first_revisions_count_by_outcome_and_their_scores_are_recorded(judged):
    telemetry = Telemetry("judge")
    fail = {"outcome": "fail", "score": 0.5}
    missing = {"outcome": "not_evaluable", "score": None}
    first = decided(judged({}, fail, missing), "evaluated", "not_evaluable")
    deliver(MetricsSink(telemetry), first, decided(judged({}), "evaluated"))
    labels = {
        "tenant": "default",
        "rule": "checkout-order",
        "rule_hash": "01234567",
        "evaluation": "tool-call-order",
        "agent": "support",
        "service": "shop",
    }
    counted = {
        outcome: telemetry.value("tracegrade.evaluations", **labels, outcome=outcome)
        for outcome in ("pass", "fail", "not_evaluable", "error")
    }
    assert counted == {"pass": 2, "fail": 1, "not_evaluable": 1, "error": 0}
    [scores] = telemetry.snapshot()["metrics"]["tracegrade.evaluation.score"]
    assert scores["labels"] == labels
    assert sum(scores["counts"]) == 3
    assert scores["sum"] == 2.5
    assert telemetry.value("tracegrade.decisions", rule="checkout-order", kind="evaluated") == 2
    assert telemetry.value("tracegrade.decisions", rule="checkout-order", kind="not_evaluable") == 1
    assert revisions(telemetry) == {}


def points(telemetry, name):
    return telemetry.snapshot()["metrics"].get(name, [])


def outcomes(telemetry):
    return {point["labels"]["outcome"]: point["value"] for point in points(telemetry, "tracegrade.evaluations")}


def test_results_have_the_trace_that_came_last_as_exemplar(judged):
    telemetry = Telemetry("judge")
    sink = MetricsSink(telemetry)
    deliver(sink, judged({}, trace_id="aa" * 16), judged({}, {"outcome": "fail", "score": 0.5}, trace_id="bb" * 16))
    deliver(sink, judged({"outcome": "error", "score": None, "span_id": "cc" * 8}, trace_id="dd" * 16))
    counted = {
        point["labels"]["outcome"]: [item[:4] for item in point.get("exemplars", ())]
        for point in points(telemetry, "tracegrade.evaluations")
    }
    assert counted == {
        "pass": [(0, "bb" * 16, "00f067aa0ba902b7", 1.0)],
        "fail": [(0, "bb" * 16, "00f067aa0ba902b7", 1.0)],
        "not_evaluable": [],
        "error": [(0, "dd" * 16, "cc" * 8, 1.0)],
    }
    [scores] = points(telemetry, "tracegrade.evaluation.score")
    assert {(trace_id, value) for _, trace_id, _, value, _ in scores["exemplars"]} == {
        ("bb" * 16, 1.0),
        ("bb" * 16, 0.5),
    }
    assert sum(scores["counts"]) == 3
    assert scores["sum"] == 2.5


def test_an_example_of_what_passes_is_looked_for_once_a_second(judged, monkeypatch):
    now_ns = [5_000_000_000]
    monkeypatch.setattr(metrics, "time_ns", lambda: now_ns[0])
    telemetry = Telemetry("judge")
    sink = MetricsSink(telemetry)

    def example_after(trace_id):
        deliver(sink, judged({}, trace_id=trace_id))
        [passed] = [p for p in points(telemetry, "tracegrade.evaluations") if p["labels"]["outcome"] == "pass"]
        [(_, example, *_)] = passed["exemplars"]
        return example

    assert example_after("aa" * 16) == "aa" * 16
    now_ns[0] += 999_999_999
    assert example_after("bb" * 16) == "aa" * 16
    now_ns[0] += 1
    assert example_after("cc" * 16) == "cc" * 16


def test_what_only_fails_passes_0_times(judged):
    telemetry = Telemetry("judge")
    sink = MetricsSink(telemetry)
    deliver(sink, judged({"outcome": "fail", "score": None}))
    assert outcomes(telemetry) == {"pass": 0, "fail": 1, "not_evaluable": 0, "error": 0}
    [scores] = points(telemetry, "tracegrade.evaluation.score")
    assert (sum(scores["counts"]), scores["sum"]) == (0, 0)
    deliver(sink, judged({"outcome": "fail", "score": 0.5}))
    assert outcomes(telemetry) == {"pass": 0, "fail": 2, "not_evaluable": 0, "error": 0}


@pytest.fixture
def store(tmp_path):
    engine = open_store(store_with(tmp_path))
    yield engine
    engine.dispose()


def context(store, telemetry, tmp_path):
    return SinkContext(store, telemetry, tmp_path, "here", {}, False)


def test_after_a_restart_what_is_known_is_there_with_0_before_its_first_result(judged, store, tmp_path):
    now_ns = time.time_ns()
    old_ns = now_ns - 9 * 86_400 * 1_000_000_000
    recent = judged({}, trace_id="aa" * 16, last_received_ns=now_ns)
    StoreWriter(store).write([recent, judged({"agent": "gone"}, trace_id="bb" * 16, last_received_ns=old_ns)])
    telemetry = Telemetry("judge")
    [sink] = open_sinks(context(store, telemetry, tmp_path))
    assert outcomes(telemetry) == {"pass": 0, "fail": 0, "not_evaluable": 0, "error": 0}
    [scores] = points(telemetry, "tracegrade.evaluation.score")
    assert scores["labels"] == {
        "tenant": "default",
        "rule": "checkout-order",
        "rule_hash": "01234567",
        "evaluation": "tool-call-order",
        "agent": "support",
        "service": "shop",
    }
    deliver(sink, recent)
    assert outcomes(telemetry) == {"pass": 1, "fail": 0, "not_evaluable": 0, "error": 0}


def test_a_store_that_cannot_be_read_keeps_no_result_from_being_counted(judged, tmp_path):
    telemetry = Telemetry("judge")
    empty = create_engine("sqlite://")
    [sink] = open_sinks(context(empty, telemetry, tmp_path))
    empty.dispose()
    deliver(sink, judged({}))
    assert outcomes(telemetry)["pass"] == 1


def test_a_higher_revision_counts_only_what_it_changed(judged):
    telemetry = Telemetry("judge")
    sink = MetricsSink(telemetry)
    args = {"evaluation": "args"}
    deliver(sink, judged({}, args, revision=1))
    deliver(sink, decided(judged({"outcome": "fail", "score": 0.0}, args, revision=2, supersedes=1), "evaluated"))
    deliver(sink, judged({"outcome": "error", "score": None}, args, revision=3, supersedes=2))
    assert revisions(telemetry) == {("pass", "fail"): 1, ("fail", "error"): 1}
    assert telemetry.value("tracegrade.evaluations") == 2
    assert telemetry.value("tracegrade.decisions") == 1


def test_the_outcomes_of_the_traces_that_came_first_are_forgotten_first(judged):
    telemetry = Telemetry("judge")
    sink = MetricsSink(telemetry, most_remembered=2)
    args = {"evaluation": "args"}
    deliver(sink, judged({}, args, revision=1, trace_id="aa"), judged({}, args, revision=1, trace_id="bb"))
    deliver(sink, judged({}, args, revision=2, supersedes=1, trace_id="bb"))  # remembered, and the same
    assert revisions(telemetry) == {}
    deliver(sink, judged({}, args, revision=2, supersedes=1, trace_id="aa"))
    assert revisions(telemetry) == {("unknown", "pass"): 2}


def test_traces_that_no_rule_judges_are_not_remembered(judged):
    sink = MetricsSink(Telemetry("judge"))
    record = replace(judged(), decisions=[])

    def deliver_so_many(traces):
        deliver(sink, *[replace(record, trace=replace(record.trace, trace_id=f"{number:032x}")) for number in traces])

    deliver_so_many(range(10))
    tracemalloc.start()
    try:
        deliver_so_many(range(10, 1010))
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


def test_agents_without_end_are_counted_together_by_rule(judged):
    telemetry = Telemetry("judge", max_series=10 * 25)
    sink = MetricsSink(telemetry)
    deliver(sink, judged({"agent": "x" * 300}), *[judged({"agent": f"agent-{number}"}) for number in range(12)])
    deliver(sink, judged({"agent": "agent-1"}))
    assert telemetry.value("tracegrade.evaluations", agent="agent-1") == 2
    assert telemetry.value("tracegrade.evaluations", agent="agent-11") == 0
    assert telemetry.value("tracegrade.evaluations", agent="other", service="other", rule="checkout-order") == 6
    assert telemetry.value("tracegrade.evaluations") == 14
    assert len(points(telemetry, "tracegrade.evaluation.score")) == 8
    assert points(telemetry, "tracegrade.series.folded") == [{"labels": {}, "value": 5}]


def test_as_many_tenants_count_apart_as_there_may_be(judged):
    telemetry = Telemetry("judge", max_tenants=3)
    sink = MetricsSink(telemetry)
    for _ in range(2):
        deliver(sink, *[judged({}, tenant=f"team-{number}") for number in range(2000)])
    counted = {
        point["labels"]["tenant"]: point["value"]
        for point in points(telemetry, "tracegrade.evaluations")
        if point["labels"]["outcome"] == "pass"
    }
    assert counted == {"team-0": 2, "team-1": 2, "team-2": 2, "other": 3994}
    assert {point["labels"]["service"] for point in points(telemetry, "tracegrade.evaluation.score")} == {"shop"}


def test_what_has_no_room_counts_as_its_tenants_and_then_as_any_ones(judged):
    telemetry = Telemetry("judge", max_series=4 * 25)
    names = [(tenant, f"service-{number}") for number in range(3) for tenant in ("acme", "globex")]
    deliver(MetricsSink(telemetry), *[judged({"service": service}, tenant=tenant) for tenant, service in names])
    found = {
        (point["labels"]["tenant"], point["labels"]["service"])
        for point in points(telemetry, "tracegrade.evaluation.score")
    }
    assert found == {("acme", "service-0"), ("globex", "service-0"), ("acme", "service-1"), ("other", "other")}


def test_services_rules_and_what_they_decide_are_bounded_together(judged):
    telemetry = Telemetry("judge", max_series=500)
    sink = MetricsSink(telemetry)
    names = [(f"rule-{number % 40}", f"service-{number}") for number in range(1200)]
    for revision in (1, 2):
        outcome = "pass" if revision == 1 else "fail"
        changes = [{"rule_id": rule, "service": service, "outcome": outcome} for rule, service in names]
        records = [decided(judged(change), "evaluated") for change in changes]
        if revision == 2:
            records = [replace(item, trace=replace(item.trace, supersedes=1, revision=2)) for item in records]
        deliver(sink, *records)
    metrics = telemetry.snapshot()["metrics"]
    named = ("tracegrade.evaluations", "tracegrade.evaluation.score", "tracegrade.decisions", "tracegrade.revisions")
    exported = sum(len(metrics[name]) * METRICS[name].lines for name in named)
    of_others = 25 + 2 + 2
    assert 480 < exported <= 500 + of_others
    assert metrics["tracegrade.series"] == [{"labels": {}, "value": exported}]
    assert telemetry.value("tracegrade.evaluations") == 1200
    assert telemetry.value("tracegrade.decisions") == 1200
    assert telemetry.conditions.holds("too_many_series")


def test_outcomes_of_other_subjects_traces_and_cases_are_kept_apart(judged):
    telemetry = Telemetry("judge")
    sink = MetricsSink(telemetry)
    others = [
        {"subject": {"kind": "agent", "id": "other"}},
        {"subject": {"kind": "tool-call", "id": "00f067aa0ba902b7"}},
        {"case": "paris"},
        {"rule_id": "other"},
    ]
    fail = {"outcome": "fail"}
    deliver(sink, judged({}, *({**other, **fail} for other in others), revision=1))
    deliver(sink, judged(fail, revision=1, trace_id="00" * 16), judged(fail, revision=1, tenant="other"))
    deliver(sink, judged(fail, revision=1, run="replay"))
    deliver(sink, judged({}, revision=2, supersedes=1))
    assert revisions(telemetry) == {}


def test_a_session_keeps_its_outcome_when_it_goes_on_in_another_trace(judged):
    telemetry = Telemetry("judge")
    sink = MetricsSink(telemetry, most_remembered=2)
    session = {"subject": {"kind": "session", "id": "chat-1"}}
    other = {"subject": {"kind": "session", "id": "chat-2"}}
    chat_1, chat_2 = {"session": "chat-1", "members": {}}, {"session": "chat-2", "members": {}}
    deliver(sink, judged(session, revision=1, **chat_1), judged({}, revision=1))
    changed = {**session, "outcome": "fail"}
    deliver(sink, judged(changed, revision=2, supersedes=1, trace_id="00" * 16, **chat_1))
    assert revisions(telemetry) == {("pass", "fail"): 1}
    deliver(sink, judged(other, other, revision=1, **chat_2), judged(session, revision=3, supersedes=2, **chat_1))
    assert revisions(telemetry) == {("pass", "fail"): 1, ("unknown", "pass"): 1}


def test_hashes_that_differ_behind_their_first_eight_digits_add_up(judged):
    telemetry = Telemetry("judge")
    deliver(MetricsSink(telemetry), judged({"rule_hash": "0123456789abcdef"}, {"rule_hash": "01234567ffffffff"}))
    assert telemetry.value("tracegrade.evaluations", rule_hash="01234567") == 2
