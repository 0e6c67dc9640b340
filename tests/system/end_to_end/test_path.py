"""The whole path: agents send OTLP, originals and results arrive downstream, the command line shows them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from end_to_end.server import LOGS, METRICS, TRACES, Downstream, Server, export, exporter, running
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from pipeline.harness import agent_span, payload, tool_span
from tracegrade.cli.demo_agent import RUNS, DemoAgent
from waiting import eventually

# A field that no version of the proto knows: number 900, a text.
UNKNOWN_FIELD = b"\xa2\x38\x05hello"


@pytest.fixture
def downstream() -> Iterator[Downstream]:
    peer = Downstream()
    yield peer
    peer.stop()


def is_own(request: bytes) -> bool:
    parsed = ExportTraceServiceRequest.FromString(request)
    return any(scope.scope.name == "tracegrade" for rs in parsed.resource_spans for scope in rs.scope_spans)


def test_an_sdk_agent_is_forwarded_judged_and_shown(tmp_path: Path, downstream: Downstream) -> None:
    with running(tmp_path, exporters=exporter(downstream)) as server:
        agent = DemoAgent(server.endpoints["grpc"])
        trace_ids = [agent.run(script) for script in RUNS]
        agent.flush()

        # Three rules judge every run, but the one without an order: its steps are no order's.
        carriers = eventually(lambda: len(c := carriers_in(downstream)) == len(RUNS) * 3 - 1 and c, "carrier spans")
        events = eventually(lambda: len(e := events_in(downstream)) == len(RUNS) * 4 - 1 and e, "evaluation events")
        _check_carriers(carriers, trace_ids)
        _check_events(events, trace_ids)
        _check_command_line(server, trace_ids)
        assert all("x-tracegrade-instance" in metadata for metadata in downstream.metadata)


def carriers_in(downstream: Downstream) -> list[tuple[Resource, Span]]:
    return [
        (rs.resource, span)
        for request in downstream.requests[TRACES]
        for rs in ExportTraceServiceRequest.FromString(request).resource_spans
        for scope in rs.scope_spans
        for span in scope.spans
        if scope.scope.name == "tracegrade"
    ]


def events_in(downstream: Downstream) -> list[LogRecord]:
    return [
        record
        for request in downstream.requests[LOGS]
        for rl in ExportLogsServiceRequest.FromString(request).resource_logs
        for scope in rl.scope_logs
        for record in scope.log_records
    ]


def _check_carriers(carriers: list[tuple[Resource, Span]], trace_ids: list[str]) -> None:
    assert {span.trace_id.hex() for _, span in carriers} == set(trace_ids)
    for resource, span in carriers:
        attributes = {pair.key: pair.value for pair in span.attributes}
        assert span.name.startswith("evaluation order-")
        assert attributes["gen_ai.operation.name"].string_value == "evaluation"
        assert [link.span_id for link in span.links] == [span.parent_span_id]
        assert {pair.key: pair.value.string_value for pair in resource.attributes}["service.name"] == "demo-shop"


def _check_events(logs: list[LogRecord], trace_ids: list[str]) -> None:
    assert {record.event_name for record in logs} == {"gen_ai.evaluation.result"}
    failing = [
        record
        for record in logs
        for pair in record.attributes
        if pair.key == "gen_ai.evaluation.score.label" and pair.value.string_value == "fail"
    ]
    # One run out of order, one of a wrong quantity, one without an order (by two rules).
    assert len(failing) == 4
    assert {record.trace_id.hex() for record in failing} == {trace_ids[i] for i in (2, 4, 6)}


def _check_command_line(server: Server, trace_ids: list[str]) -> None:
    data = ["--data-dir", str(server.data)]
    # The store has a position of its own among the results: what is downstream may not be stored yet.
    every = len(RUNS) * 4 - 1
    eventually(lambda: len(server.canonical("results", "list", "--limit", "1000")) == every, "every result stored")
    listed = server.cli("results", "list", *data, "--outcome", "fail", "--format", "json")
    assert listed.exit_code == 0, listed.stderr
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert {row["trace_id"] for row in rows} == {trace_ids[i] for i in (2, 4, 6)}
    table = server.cli("results", "list", *data)
    assert "order-steps-out-of-order" in table.stdout
    why = server.cli("why", trace_ids[2], "-c", str(server.config))
    assert why.exit_code == 0, why.stderr
    assert "order-steps-out-of-order" in why.stdout
    _check_live_equals_replay(server)
    replayed = server.cli("replay", "-c", str(server.config), "--fail-under", "0.99", "--min-results", "1")
    assert replayed.exit_code == 1, replayed.stderr
    assert "8 traces judged" in replayed.stdout


def _check_live_equals_replay(server: Server) -> None:
    """Promise 3, over the real journal and store."""
    assert server.canonical("results", "list", "--limit", "1000") == server.canonical("replay")


def test_originals_leave_as_the_bytes_that_came(tmp_path: Path, downstream: Downstream) -> None:
    sent = [payload([agent_span(n, 1), tool_span(n, 2, 1, "create_order")]) + UNKNOWN_FIELD for n in range(1, 6)]
    with running(tmp_path, exporters=exporter(downstream)) as server:
        for request in sent:
            export(server.endpoints["grpc"], request)
        export(server.endpoints["grpc"], b"", method=METRICS)
        eventually(lambda: sum(not is_own(r) for r in downstream.requests[TRACES]) >= 5, "five originals")
    assert sorted(r for r in downstream.requests[TRACES] if not is_own(r)) == sorted(sent)


def test_forwarding_goes_on_while_the_judge_is_stopped(tmp_path: Path, downstream: Downstream) -> None:
    with running(tmp_path, "--no-watchdog", exporters=exporter(downstream)) as server:
        judge = server.judge_pid
        os.kill(judge, signal.SIGSTOP)
        try:
            for n in range(1, 21):
                export(server.endpoints["grpc"], payload([agent_span(n, 1)]))
            eventually(lambda: len(downstream.requests[TRACES]) == 20, "twenty originals")
            assert server.metric("tracegrade_spans_unread", "receive") == 20
        finally:
            os.kill(judge, signal.SIGCONT)
        eventually(lambda: server.metric("tracegrade_spans_unread", "receive") == 0, "the judge to catch up")


def test_a_hung_judge_is_restarted_and_goes_on(tmp_path: Path) -> None:
    with running(tmp_path, judge={"hang_timeout": "2s"}) as server:
        eventually(lambda: (server.data / "judge.snapshot.json").exists(), "the judge to run")
        first = server.judge_pid
        os.kill(first, signal.SIGSTOP)
        eventually(lambda: server.judge_pid != first, "another judge")
        export(server.endpoints["grpc"], payload([agent_span(1, 1), tool_span(1, 2, 1, "create_order")]))
        eventually(lambda: server.metric("tracegrade_evaluations_total", "judge") > 0, "an evaluation")
        assert server.metric("tracegrade_judge_restarts_total", "receive", reason="hung") == 1


def test_the_roles_run_by_themselves_too(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.start(role="receive")
    command = [sys.executable, "-m", "tracegrade", "serve", "-c", str(server.config), "--role", "judge"]
    judge = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # as under systemd
    try:
        export(server.endpoints["grpc"], payload([agent_span(1, 1), tool_span(1, 2, 1, "create_order")]))
        eventually(lambda: server.metric("tracegrade_evaluations_total", "judge") > 0, "an evaluation")
    finally:
        judge.send_signal(signal.SIGINT)
        assert judge.wait(30) == 0
        assert server.stop() == 0


def test_what_comes_back_to_us_is_counted_and_not_forwarded(tmp_path: Path, downstream: Downstream) -> None:
    with running(tmp_path, exporters=exporter(downstream)) as server:
        instance = (server.data / "instance_id").read_text()
        export(server.endpoints["grpc"], payload([agent_span(1, 1)]), **{"x-tracegrade-instance": instance})
        export(server.endpoints["grpc"], payload([agent_span(2, 1)]))
        eventually(lambda: downstream.requests[TRACES], "the other request")
        assert server.metric("tracegrade_receiver_loop_items_total", "receive") == 1
    assert not any(b"\x00" * 15 + b"\x01" in request for request in downstream.requests[TRACES])


def test_every_accepted_span_has_one_disposition(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        request = payload([agent_span(1, 1), tool_span(1, 2, 1, "create_order"), tool_span(1, 3, 77, "late")])
        for _ in range(3):
            export(server.endpoints["grpc"], request)
        bad = payload([agent_span(2, 1)]).replace(bytes(15) + b"\x02", bytes(16))
        export(server.endpoints["grpc"], bad)

        def dispositions() -> dict[str, float]:
            page = server.page()
            return {
                "accepted": server.metric("tracegrade_receiver_accepted_items_total", "receive", page=page),
                "unread": server.metric("tracegrade_spans_unread", "receive", page=page),
                "open": server.metric("tracegrade_spans_open", "judge", page=page),
                "judged": server.metric("tracegrade_spans_total", "judge", page=page, fate="judged"),
                "duplicate": server.metric("tracegrade_spans_total", "judge", page=page, fate="duplicate"),
            }

        def add_up() -> dict[str, float] | None:
            found = dispositions()
            assert found["accepted"] == sum(found.values()) - found["accepted"], found
            return found if found["judged"] else None

        seen = eventually(add_up, "the judge")
        assert seen == {"accepted": 9, "unread": 0, "open": 0, "judged": 3, "duplicate": 6}
        assert server.metric("tracegrade_receiver_rejected_spans_total", "receive", reason="invalid_trace_id") == 1
