"""Promises 2 to 5, over the objects that `serve` and `replay` share."""

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from build.canonical import canonical_line
from build.harness import Run, batches_of, packing, parts, records
from build.otlp import Content, agent_span, log_payload, logged_trace, otlp_log, otlp_span, tool_span
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.journal.record import Encoding, Record
from tracegrade.model.signal import Signal
from tracegrade.model.trace import TraceKey
from tracegrade.pipeline.judged import evaluations_of
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.replay import replay_records
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule_set import RuleSet

SETTINGS = TracesSettings(
    settle="1s",
    idle_timeout="3s",
    max_age="20s",
    overrides=[{"service": "demo-*", "idle_timeout": "4s"}, {"agent": "order-agent", "settle": "2s", "max_age": "25s"}],
    tool_aliases={"create_order": ["*__create_order"]},
)


@pytest.fixture(scope="module")
def rule_set() -> RuleSet:
    return load_rules(["builtin:demo"])


def order_trace(trace: int, first: int = 1) -> list[Content]:
    """An agent run with three calls, a sub-agent with one, and a span whose parent never comes."""
    return [
        agent_span(trace, first),
        tool_span(trace, first + 1, first, "validate_user", '{"user_id": 123}'),
        tool_span(trace, first + 2, first, "check_inventory", '{"sku": "A-1", "qty": 2}'),
        tool_span(trace, first + 3, first, "shop__create_order", '{"user_id": 123, "sku": "A-1", "qty": 2}'),
        agent_span(trace, first + 4, first + 1),
        tool_span(trace, first + 5, first + 4, "check_inventory", '{"sku": "B-7", "qty": 1}'),
        otlp_span(trace, first + 6, 999),
    ]


CONTENTS: list[Content] = [
    *order_trace(1),
    *logged_trace(3),
    *order_trace(2),
    # The same span twice more with other contents: the later end wins, then the greater content.
    tool_span(2, 4, 1, "create_order", '{"user_id": 123, "sku": "A-1", "qty": 5}', end=5000),
    tool_span(2, 4, 1, "create_order", '{"user_id": 123, "sku": "A-1", "qty": 9}', end=5000),
]


def clean_results(rule_set: RuleSet) -> list[str]:
    run = Run(rule_set, SETTINGS)
    run.read(records([(0.0, CONTENTS)]))
    run.end()
    return run.store.canonical()


def test_the_clean_run_judges_all_there_is(rule_set: RuleSet) -> None:
    lines = clean_results(rule_set)
    # Three traces; four evaluations of each agent that creates orders, three of each that does not.
    assert len(lines) == 2 * (4 + 3) + 4
    assert sum('"outcome":"fail"' in line for line in lines) > 0
    assert sum('"outcome":"pass"' in line for line in lines) > 0
    logged = [line for line in lines if f'"trace_id":"{3:032x}"' in line]
    assert sum('"outcome":"pass"' in line for line in logged) == 4, logged


@given(st.data())
def test_order_batches_duplicates_lateness_and_kills_change_no_result(rule_set: RuleSet, data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(CONTENTS), max_size=8), label="sent again")
    arrivals = data.draw(st.permutations([*CONTENTS, *again]), label="arrival order")
    journal = records(batches_of(arrivals, data))
    run = Run(rule_set, packing(SETTINGS, data), decided_at_once=parts(data))
    seen = 0
    while seen < len(journal):
        seen += data.draw(st.integers(1, 4), label="durable records more")
        run.read(journal[:seen], kill_before_commit=data.draw(st.booleans(), label="killed before the commit"))
        if data.draw(st.booleans(), label="killed"):
            run.kill()
        else:
            run.tick(journal[min(seen, len(journal)) - 1].received_ns / 1e9)
    run.read(journal)
    run.end()
    assert run.store.canonical() == clean_results(rule_set)


@given(st.data())
def test_replay_gives_the_lines_of_the_live_run(rule_set: RuleSet, data: st.DataObject) -> None:
    journal = records(batches_of(data.draw(st.permutations(CONTENTS), label="arrival order"), data))
    check_replay(rule_set, SETTINGS, journal, data)


@given(st.data())
def test_replay_gives_the_lines_of_a_live_run_for_which_much_came_too_late(
    rule_set: RuleSet, data: st.DataObject
) -> None:
    journal = records(batches_of(data.draw(st.permutations(CONTENTS), label="arrival order"), data))
    check_replay(rule_set, SETTINGS.model_copy(update={"reopen_for": 4.0}), journal, data)


def check_replay(rule_set: RuleSet, traces: TracesSettings, journal: list[Record], data: st.DataObject) -> None:
    """That replaying `journal` gives the canonical results of a live run over it."""
    traces = packing(traces, data)
    live = Run(rule_set, traces, decided_at_once=parts(data))
    for record, following in pairwise([*journal, None]):
        live.read([record])
        # Live, the clock also moves between records; never past what the next one will be stamped.
        idle_s = data.draw(st.sampled_from([0.0, 0.7, 2.0, 10.0]), label="idle clock")
        clock_ns = record.received_ns + round(idle_s * 1e9)
        live.tick((min(clock_ns, following.received_ns) if following else clock_ns) / 1e9)
    live.end()
    replayed: dict[TraceKey, list[str]] = {}
    for judged in replay_records(journal, traces, rule_set, "replay"):
        replayed[judged.key] = [canonical_line(e.to_json()) for e in evaluations_of(judged)]
    assert sorted(line for lines in replayed.values() for line in lines) == live.store.canonical()


@given(st.data())
def test_every_span_and_log_record_has_one_disposition_at_every_moment(rule_set: RuleSet, data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(CONTENTS), max_size=8), label="sent again")
    journal = records(batches_of(data.draw(st.permutations([*CONTENTS, *again])), data))
    tight = TracesSettings(settle="1s", idle_timeout="3s", max_age="20s", reopen_for="4s", max_spans_per_trace=5)
    tight = packing(tight, data)
    judge = RecordJudge(tight, rule_set, ClosedTraces(max_unpacked_spans=tight.max_unpacked_spans))
    for record in journal:
        list(judge.read(record))
        assert sum(judge.intake.span_dispositions.values()) + judge.live.open_spans == judge.intake.read_spans
        log_records = sum(judge.intake.log_record_dispositions.values()) + judge.live.open_log_records
        assert log_records == judge.intake.read_log_records
    list(judge.end())
    assert judge.live.open_spans == judge.live.open_log_records == 0
    assert judge.intake.read_spans + judge.intake.read_log_records == len(CONTENTS) + len(again)
    assert sum(judge.intake.span_dispositions.values()) == judge.intake.read_spans
    assert sum(judge.intake.log_record_dispositions.values()) == judge.intake.read_log_records


def test_spans_of_an_ignored_scope_are_dropped_and_counted(rule_set: RuleSet) -> None:
    request = ExportTraceServiceRequest()
    scopes = request.resource_spans.add().scope_spans
    for scope, first in (("agent-sdk", 1), ("second-instrumentation", 11)):
        scope_spans = scopes.add()
        scope_spans.scope.name = scope
        scope_spans.spans.extend([agent_span(1, first), tool_span(1, first + 1, first, "find", '{"q": 1}')])
    (record,) = records([(0.0, [otlp_span(1, 1)])])
    judge = RecordJudge(TracesSettings(ignore_scopes=["second-instrumentation"]), rule_set, ClosedTraces())
    list(judge.read(replace(record, payload=request.SerializeToString(), items=4)))
    (judged,) = judge.end()
    assert [span.scope for span in judged.trace.spans] == ["agent-sdk", "agent-sdk"]
    assert judge.intake.span_dispositions["dropped", "ignored_scope"] == 2
    assert sum(judge.intake.span_dispositions.values()) == judge.intake.read_spans == 4


def test_log_records_of_our_own_and_those_that_nobody_reads_are_counted_apart(rule_set: RuleSet) -> None:
    judge = RecordJudge(SETTINGS, rule_set, ClosedTraces())
    log_records = [otlp_log(1, 2, "app.started"), otlp_log(1, 2, "gen_ai.choice")]
    for position, scope in enumerate(["tracegrade", "agent-sdk"]):
        payload = log_payload(log_records, scope)
        record = Record(position, position + 1, 0, "default", Signal.LOGS, Encoding.PROTOBUF, 2, payload)
        assert list(judge.read(record)) == []
    dispositions = {
        disposition: count for (disposition, _), count in judge.intake.log_record_dispositions.items() if count
    }
    assert (dispositions, judge.live.open_log_records) == ({"own": 2, "unwanted": 1}, 1)


def test_every_subject_and_rule_has_one_decision(rule_set: RuleSet) -> None:
    judge = RecordJudge(SETTINGS, rule_set, ClosedTraces())
    (record,) = records([(0.0, order_trace(1))])
    list(judge.read(record))
    (judged,) = judge.end()
    pairs = [(d.pair.subject.id, d.pair.rule_id) for d in judged.judgement.decisions]
    assert len(pairs) == len(set(pairs)) == 3 + 2


_PRINT_RESULTS = """
from pipeline.test_promises import clean_results
from tracegrade.rule.load import load_rules
print("\\n".join(clean_results(load_rules(["builtin:demo"]))))
"""


def test_results_do_not_depend_on_the_hash_seed(rule_set: RuleSet) -> None:
    expected = clean_results(rule_set)
    tests = Path(__file__).parents[1]
    path = os.pathsep.join([str(tests), str(tests.parent / "processor")])
    for seed in ("0", "4242"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", _PRINT_RESULTS], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines() == expected


def test_the_end_attribute_of_an_agent_ends_its_traces_at_once_live(rule_set: RuleSet) -> None:
    overrides = [{"agent": "order-agent", "end_attribute": "order.done"}]
    agent = agent_span(1, 1)
    agent.attributes.append(KeyValue(key="order.done", value=AnyValue(bool_value=True)))
    run = Run(rule_set, TracesSettings(overrides=overrides))
    run.read(records([(0.0, [agent, tool_span(1, 2, 9, "create_order")])]))
    run.tick(0.0)
    assert [judged.trace.close_reason for judged in run.store.traces.values()] == ["end_attribute"]
