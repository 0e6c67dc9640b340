"""The whole path: agents send OTLP, originals and results arrive downstream, commands and the page show them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from build.otlp import agent_span, payload, tool_span
from build.served import LOGS, METRICS, TRACES, Downstream, Server, export, exporter, served
from tracegrade.build import build_version
from tracegrade.cli.demo_agent import RUNS, DemoAgent
from tracegrade.otlp.json import to_json
from waiting import eventually

# A field that no version of the proto knows: number 900, a text.
UNKNOWN_FIELD = b"\xa2\x38\x05hello"


@pytest.fixture
def downstream() -> Iterator[Downstream]:
    peer = Downstream()
    yield peer
    peer.stop()


def request_of(trace: int) -> bytes:
    """An agent run of two spans, which the rules of the demo judge too."""
    return payload([agent_span(trace, 1), tool_span(trace, 2, 1, "create_order")])


def post(server: Server, media_type: str, body: bytes) -> None:
    request = Request(f"http://{server.endpoints['http']}/v1/traces", body, {"content-type": media_type})
    with urlopen(request) as answer:
        assert answer.status == 200


@dataclass(frozen=True)
class Sent:
    """A server to which everything was sent and which has judged it; for tests that look at what it did with that."""

    server: Server
    downstream: Downstream
    sdk_traces: list[str]  # of the demo's agent, by gRPC
    protobuf: list[bytes]  # originals by gRPC and HTTP
    json: bytes  # an original by HTTP, as the protobuf that it means


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sent]:
    downstream = Downstream()
    with served(tmp_path_factory.mktemp("path"), "--no-watchdog", exporters=exporter(downstream)) as server:
        protobuf = [request_of(trace) + UNKNOWN_FIELD for trace in range(1, 6)]
        for request in protobuf[:4]:
            export(server.endpoints["grpc"], request)
        post(server, "application/x-protobuf", protobuf[4])
        in_json = request_of(6)
        post(server, "application/json", json.dumps(to_json(ExportTraceServiceRequest.FromString(in_json))).encode())

        export(server.endpoints["grpc"], protobuf[0])  # twice
        bad = payload([agent_span(7, 1)]).replace(bytes(15) + b"\x07", bytes(16))
        export(server.endpoints["grpc"], bad)
        instance = (server.data / "instance_id").read_text()
        export(server.endpoints["grpc"], payload([agent_span(8, 1)]), **{"x-tracegrade-instance": instance})
        export(server.endpoints["grpc"], b"", method=METRICS)

        agent = DemoAgent(server.endpoints["grpc"])
        sdk_traces = [agent.run(script) for script in RUNS]
        agent.flush()
        made = Sent(server, downstream, sdk_traces, protobuf, in_json)
        _wait_until_judged(made)
        yield made
    downstream.stop()


def _wait_until_judged(sent: Sent) -> None:
    eventually(
        lambda: (found := dispositions(sent.server))["judged"] and not found["unread"] + found["open"], "the judge"
    )
    # Three rules judge every run of the demo's agent, but the one without an order: its steps are no order's.
    eventually(lambda: len(carriers_in(sent)) == len(RUNS) * 3 - 1, "carrier spans")
    eventually(lambda: len(events_in(sent)) == len(RUNS) * 4 - 1, "evaluation events")
    # The store has a position of its own among the results: what is downstream may not be stored yet.
    eventually(lambda: len(_traces_stored(sent.server)) == len(RUNS) + 6, "every trace stored")


def _traces_stored(server: Server) -> list[str]:
    return server.cli("traces", "list", "--data-dir", str(server.data), "--format", "json").stdout.splitlines()


def originals_in(sent: Sent) -> list[bytes]:
    """What was forwarded as it came, without the demo's agent."""
    return [
        request
        for request in sent.downstream.requests[TRACES]
        for rs in ExportTraceServiceRequest.FromString(request).resource_spans
        if rs.scope_spans[0].scope.name == ""
    ]


def carriers_in(sent: Sent) -> list[tuple[Resource, Span]]:
    """Spans of ours that carry the evaluations of the demo's agent."""
    return [
        (rs.resource, span)
        for request in sent.downstream.requests[TRACES]
        for rs in ExportTraceServiceRequest.FromString(request).resource_spans
        for scope in rs.scope_spans
        for span in scope.spans
        if scope.scope.name == "tracegrade" and span.trace_id.hex() in sent.sdk_traces
    ]


def events_in(sent: Sent) -> list[LogRecord]:
    """Log events of the evaluations of the demo's agent."""
    return [
        record
        for request in sent.downstream.requests[LOGS]
        for rl in ExportLogsServiceRequest.FromString(request).resource_logs
        for scope in rl.scope_logs
        for record in scope.log_records
        if record.trace_id.hex() in sent.sdk_traces
    ]


def test_originals_leave_as_the_bytes_that_came(sent: Sent) -> None:
    left = originals_in(sent)
    assert sorted(set(left) - {sent.json}) == sorted(sent.protobuf)
    assert left.count(sent.protobuf[0]) == 2, "it was sent twice"
    assert sent.json in left


def test_what_comes_back_to_us_is_counted_and_not_forwarded(sent: Sent) -> None:
    assert sent.server.metric("tracegrade_receiver_loop_items_total", "receive") == 1
    assert not any(b"\x00" * 15 + b"\x08" in request for request in sent.downstream.requests[TRACES])
    assert all("x-tracegrade-instance" in metadata for metadata in sent.downstream.metadata)


def test_results_leave_as_spans_and_log_events(sent: Sent) -> None:
    carriers, events = carriers_in(sent), events_in(sent)
    assert {span.trace_id.hex() for _, span in carriers} == set(sent.sdk_traces)
    for resource, span in carriers:
        attributes = {pair.key: pair.value for pair in span.attributes}
        assert span.name.startswith("evaluation order-")
        assert attributes["gen_ai.operation.name"].string_value == "evaluation"
        assert [link.span_id for link in span.links] == [span.parent_span_id]
        assert {pair.key: pair.value.string_value for pair in resource.attributes}["service.name"] == "demo-shop"
    assert {record.event_name for record in events} == {"gen_ai.evaluation.result"}
    failing = [
        record.trace_id.hex()
        for record in events
        for pair in record.attributes
        if pair.key == "gen_ai.evaluation.score.label" and pair.value.string_value == "fail"
    ]
    # One run out of order, one of a wrong quantity, one without an order (by two rules).
    assert sorted(failing) == sorted(sent.sdk_traces[run] for run in (2, 4, 6, 6))


def test_commands_beside_it_show_the_results(sent: Sent) -> None:
    server, data = sent.server, ["--data-dir", str(sent.server.data)]
    listed = server.cli("results", "list", *data, "--outcome", "fail", "--format", "json")
    assert listed.exit_code == 0, listed.stderr
    failed = {json.loads(line)["trace_id"] for line in listed.stdout.splitlines()}
    assert failed & set(sent.sdk_traces) == {sent.sdk_traces[run] for run in (2, 4, 6)}
    assert "order-steps-out-of-order" in server.cli("results", "list", *data).stdout
    why = server.cli("why", sent.sdk_traces[2], "-c", str(server.config))
    assert why.exit_code == 0, why.stderr
    assert "order-steps-out-of-order" in why.stdout


def test_replaying_the_journal_gives_the_live_results(sent: Sent) -> None:
    assert sent.server.canonical("results", "list", "--limit", "1000") == sent.server.canonical("replay")
    config = str(sent.server.config)
    replayed = sent.server.cli("replay", "-c", config, "--fail-under", "0.99", "--min-results", "1")
    assert replayed.exit_code == 1, replayed.stderr
    assert f"{len(RUNS) + 6} traces judged" in replayed.stdout


def test_the_page_shows_the_rules(sent: Sent) -> None:
    with urlopen(sent.server.endpoints["web"]) as answer:
        assert "order-not-confirmed" in answer.read().decode()


def test_every_accepted_span_has_one_disposition(sent: Sent) -> None:
    found = dispositions(sent.server)
    assert (found["unread"], found["open"], found["duplicate"]) == (0, 0, 2)
    assert sent.server.metric("tracegrade_receiver_rejected_spans_total", "receive", reason="invalid_trace_id") == 1


def dispositions(server: Server) -> dict[str, float]:
    """Where the accepted spans are, as one snapshot of both roles says, which must add up at every moment."""
    page = server.page()
    found = {
        "unread": server.metric("tracegrade_spans_unread", "receive", page=page),
        "open": server.metric("tracegrade_spans_open", "judge", page=page),
        "judged": server.metric("tracegrade_spans_total", "judge", page=page, fate="judged"),
        "duplicate": server.metric("tracegrade_spans_total", "judge", page=page, fate="duplicate"),
    }
    assert server.metric("tracegrade_receiver_accepted_items_total", "receive", page=page) == sum(found.values()), found
    return found


def test_forwarding_goes_on_while_the_judge_is_stopped(sent: Sent) -> None:
    server, originals = sent.server, sent.downstream.requests[TRACES]
    before, judge = len(originals), server.judge_pid
    os.kill(judge, signal.SIGSTOP)
    try:
        for n in range(101, 121):
            export(server.endpoints["grpc"], payload([agent_span(n, 1)]))
        eventually(lambda: len(originals) == before + 20, "twenty originals")
        assert server.metric("tracegrade_spans_unread", "receive") == 20
    finally:
        os.kill(judge, signal.SIGCONT)
    eventually(lambda: server.metric("tracegrade_spans_unread", "receive") == 0, "the judge to catch up")


@pytest.mark.long
def test_a_hung_judge_is_restarted_and_goes_on(tmp_path: Path) -> None:
    with served(tmp_path, judge={"hang_timeout": "2s"}) as server:
        eventually(lambda: (server.data / "judge.snapshot.json").exists(), "the judge to run")
        first = server.judge_pid
        os.kill(first, signal.SIGSTOP)
        eventually(lambda: server.judge_pid != first, "another judge")
        export(server.endpoints["grpc"], request_of(1))
        eventually(lambda: server.metric("tracegrade_evaluations_total", "judge") > 0, "an evaluation")
        assert server.metric("tracegrade_judge_restarts_total", "receive", reason="hung") == 1


def asked(endpoint: str, page: str) -> bytes:
    with urlopen(f"http://{endpoint}/{page}") as answer:
        found: bytes = answer.read()
    return found


@pytest.mark.long
def test_the_roles_run_by_themselves_too(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.start(role="receive")
    command = [sys.executable, "-m", "tracegrade", "serve", "-c", str(server.config), "--role", "judge"]
    judge = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # as under systemd
    assert judge.stderr is not None
    try:
        said = next(line for line in judge.stderr if line.startswith("Listening: telemetry "))
        own = said.split()[2].rstrip(".")
        export(server.endpoints["grpc"], request_of(1))
        eventually(lambda: server.metric("tracegrade_evaluations_total", "judge") > 0, "an evaluation")
        eventually(lambda: b"tracegrade_evaluations_total" in asked(own, "metrics"), "it among the judge's own")
        assert b'tracegrade_process_memory_bytes{process="judge",role="judge"}' in asked(own, "metrics")
        assert json.loads(asked(own, "healthz")) | {"snapshot_age_s": {}} == {
            "status": "ok",
            "version": build_version(),
            "conditions": [],
            "snapshot_age_s": {},
        }
        assert asked(own, "readyz")
        assert b'tracegrade_process_cpu_seconds_total{process="receive"' in asked(
            server.endpoints["telemetry"], "metrics"
        )
    finally:
        judge.send_signal(signal.SIGINT)
        judge.communicate()
        assert judge.returncode == 0
        assert server.stop() == 0
