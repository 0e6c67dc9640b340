"""What is sent to and fro with each peer, and what must result from it. Each exchange gives rows, or fails."""

import json
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import grpc
from end_to_end.test_alert import FELL, MISSING, RULE, WITHOUT_ALERT, Webhook, remember, send
from interop import peers
from interop.peers import Forwarder, Place, Row
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.sdk.trace.export import SpanExporter

from build.otlp import otlp_span, payload
from build.served import LOGS, TRACES, Downstream, Server, export, exporter, served
from tracegrade.cli.demo_agent import RUNS, DemoAgent
from waiting import eventually

MIB = 1024 * 1024
AGENT = Path(__file__).with_name("agent.mjs")
HERE = Path(__file__).parent
DEPLOY = HERE.parents[2] / "deploy"
SHOPS = ("shop-a", "shop-b")  # services of which alerts are told

# A run is its agent's span, a chat and a tool for each step, and the last chat.
SPANS = sum(2 + 2 * len(script.steps) for script in RUNS)
# Three rules judge every run, but the one without an order: its steps are no order's. Two evaluations are of one rule.
CARRIERS = 3 * len(RUNS) - 1
EVENTS = 4 * len(RUNS) - 1
FAILING_RUNS = 3

REFUSAL = {"grpc": "UNAVAILABLE", "http": "429"}


@contextmanager
def sink() -> Iterator[Downstream]:
    """An OTLP/gRPC server at the end."""
    downstream = Downstream()
    try:
        yield downstream
    finally:
        downstream.stop()


def spans_in(downstream: Downstream) -> dict[tuple[str, str], bytes]:
    """Every span by its ids, in a form that does not depend on how spans were batched."""
    found = {}
    for request in list(downstream.requests[TRACES]):
        for resource_spans in ExportTraceServiceRequest.FromString(request).resource_spans:
            resource = resource_spans.resource.SerializeToString(deterministic=True)
            for scope_spans in resource_spans.scope_spans:
                scope = scope_spans.scope.SerializeToString(deterministic=True)
                for span in scope_spans.spans:
                    span.status.SetInParent()  # Go writes an empty status for none; they mean the same
                    whole = resource + scope + span.SerializeToString(deterministic=True)
                    found[span.trace_id.hex(), span.span_id.hex()] = whole
    return found


def events_in(downstream: Downstream) -> Counter[bytes]:
    """Every log record, in the same way."""
    found: Counter[bytes] = Counter()
    for request in list(downstream.requests[LOGS]):
        for resource_logs in ExportLogsServiceRequest.FromString(request).resource_logs:
            resource = resource_logs.resource.SerializeToString(deterministic=True)
            for scope_logs in resource_logs.scope_logs:
                for record in scope_logs.log_records:
                    record.body.SetInParent()  # as with status
                    found[resource + record.SerializeToString(deterministic=True)] += 1
    return found


def failing_traces(server: Server) -> set[str]:
    """What ``tracegrade results list`` shows as failed; nothing as long as the judge has not made the store."""
    listed = server.cli("results", "list", "--data-dir", str(server.data), "--outcome", "fail", "--format", "json")
    if "no such store" in listed.stderr or "holds no TraceGrade results" in listed.stderr:
        return set()
    assert listed.exit_code == 0, listed.stderr
    return {json.loads(line)["trace_id"] for line in listed.stdout.splitlines()}


def port_of(server: Server, protocol: str) -> int:
    """Where it listens."""
    return int(server.endpoints[protocol].rpartition(":")[2])


# SDKs


def node_agent(place: Place) -> Iterator[Row]:
    """Node's SDK, over HTTP in JSON, chunked."""
    modules = peers.node_modules(place.installed)
    with sink() as downstream, served(place.new("node"), exporters=exporter(downstream)) as server:
        said = run_node_agent(modules, f"http://{server.endpoints['http']}")
        assert said["result"] == "sent", said
        eventually(lambda: len(events_in(downstream)) >= 3 and len(spans_in(downstream)) >= 6, "spans and evaluations")
        compared = _compare_with_sdk(downstream, said)
        eventually(lambda: failing_traces(server) == {said["trace_id"]}, "its failure in the store")
        yield Row(
            "Node SDK",
            "OTLP/HTTP in JSON -> us -> OTLP/gRPC",
            f"{len(said['spans'])} spans, {compared} attributes equal in value and type; listed as failed",
        )


def run_node_agent(modules: Path, endpoint: str) -> dict[str, Any]:
    """What the agent says of itself."""
    script = modules / AGENT.name  # Node looks for packages beside the script
    script.write_text(AGENT.read_text())
    ran = subprocess.run(["node", str(script), endpoint], capture_output=True, text=True, check=False, cwd=modules)
    assert ran.returncode == 0, ran.stderr
    said: dict[str, Any] = json.loads(ran.stdout)
    return said


def _compare_with_sdk(downstream: Downstream, said: dict[str, Any]) -> int:
    arrived = {
        span.span_id.hex(): span
        for request in list(downstream.requests[TRACES])
        for resource_spans in ExportTraceServiceRequest.FromString(request).resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
        if scope_spans.scope.name != "tracegrade"
    }
    assert arrived.keys() == {span["span_id"] for span in said["spans"]}
    compared = 0
    for span in said["spans"]:
        twin = arrived[span["span_id"]]
        assert (twin.trace_id.hex(), twin.parent_span_id.hex()) == (said["trace_id"], span["parent_span_id"])
        assert twin.name == span["name"]
        for pair in twin.attributes:
            expected = span["attributes"].pop(pair.key)
            found = value_of(pair.value)
            assert (found, repr(found)) == (expected, repr(expected)), (
                pair.key
            )  # 1 == 1.0 == True, but their texts differ
            compared += 1
        assert not span["attributes"]
    return compared


def value_of(value: AnyValue) -> Any:
    """The Python value of an attribute, of the type it has on the wire."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(item) for item in value.array_value.values]
    return getattr(value, kind)


def python_agent(place: Place) -> Iterator[Row]:
    """Python's SDK, over gRPC and HTTP, with and without gzip."""
    for transport in ("grpc", "grpc gzip", "http", "http gzip"):
        with sink() as downstream, served(place.new("python"), exporters=exporter(downstream)) as server:
            _run_demo(_sdk_exporter(transport, {name: port_of(server, name) for name in ("grpc", "http")}))
            yield Row("Python SDK", f"{transport} -> us -> OTLP/gRPC", _judged(server, downstream))


def _sdk_exporter(transport: str, ports: dict[str, int]) -> SpanExporter:
    protocol, _, compression = transport.partition(" ")
    if protocol == "grpc":
        compressed = grpc.Compression.Gzip if compression else grpc.Compression.NoCompression
        return GrpcSpanExporter(endpoint=f"http://127.0.0.1:{ports['grpc']}", insecure=True, compression=compressed)
    return HttpSpanExporter(
        endpoint=f"http://127.0.0.1:{ports['http']}/v1/traces",
        compression=Compression.Gzip if compression else Compression.NoCompression,
    )


def _run_demo(sender: SpanExporter) -> list[str]:
    agent = DemoAgent("", sender)
    trace_ids = [agent.run(script) for script in RUNS]
    agent.flush()
    return trace_ids


def _judged(server: Server, downstream: Downstream) -> str:
    """Wait until all of the demo's runs were forwarded, judged and stored."""
    eventually(lambda: len(spans_in(downstream)) == SPANS + CARRIERS, f"{SPANS} spans and {CARRIERS} carriers")
    eventually(lambda: events_in(downstream).total() == EVENTS, f"{EVENTS} evaluations")
    eventually(lambda: len(failing_traces(server)) == FAILING_RUNS, "the stored results")
    return f"{SPANS} spans out, {EVENTS} evaluations, {FAILING_RUNS} of {len(RUNS)} runs failed as they should"


# Collectors


def before_us(place: Place, peer: Forwarder) -> Iterator[Row]:
    """SDK -> collector -> us."""
    for protocol in ("grpc", "http"):
        for transport in ("grpc", "http gzip"):
            folder = place.new("before")
            with (
                sink() as downstream,
                served(folder, exporters=exporter(downstream)) as server,
                peer.running(folder / "peer", port_of(server, protocol), protocol) as ports,
            ):
                _run_demo(_sdk_exporter(transport, ports))
                told = _judged(server, downstream)
            yield Row(peer.name, f"SDK by {transport} -> it -> us by {protocol} with gzip", told)


def behind_us(place: Place, peer: Forwarder) -> Iterator[Row]:
    """us -> collector -> server, beside us -> server: both must get the same."""
    for protocol in ("grpc", "http"):
        folder = place.new("behind")
        with sink() as direct, sink() as behind, peer.running(folder / "peer", behind.port, "grpc") as ports:
            endpoint = f"127.0.0.1:{ports['grpc']}" if protocol == "grpc" else f"http://127.0.0.1:{ports['http']}"
            two = {
                "otlp/direct": exporter(direct)["otlp"],
                "otlp/peer": exporter(behind)["otlp"] | {"endpoint": endpoint, "protocol": protocol},
            }
            if protocol == "http":
                del two["otlp/peer"]["tls"]
            with served(folder, exporters=two) as server:
                _run_demo(_sdk_exporter("grpc", {"grpc": port_of(server, "grpc")}))
                _judged(server, direct)
                eventually(lambda: len(spans_in(behind)) == SPANS + CARRIERS, "the spans behind the peer")
                eventually(lambda: events_in(behind).total() == EVENTS, "the evaluations behind the peer")
            assert spans_in(behind) == spans_in(direct)
            assert events_in(behind) == events_in(direct)
        yield Row(
            peer.name,
            f"us by {protocol} with gzip -> it -> server",
            f"{SPANS} spans, {CARRIERS} carriers, {EVENTS} events equal to those sent directly",
        )


def while_we_refuse(place: Place, peer: Forwarder) -> Iterator[Row]:
    """A full journal refuses (UNAVAILABLE, 429); the collector must try again until there is room."""
    for protocol in ("grpc", "http"):
        folder = place.new("full")
        with sink() as downstream:
            downstream.fail_every = 1
            settings: dict[str, Any] = {"exporters": exporter(downstream), "journal": {"max_size_mib": 8}}
            with (
                served(folder, **settings) as server,
                peer.running(folder / "peer", port_of(server, protocol), protocol) as ports,
            ):
                _fill_journal(server)
                _run_demo(_sdk_exporter("grpc", ports))
                refused = eventually(lambda: _refused(server, protocol) >= 3 and _refused(server, protocol), "refusals")  # noqa: B023
                downstream.fail_every = 0
                eventually(lambda: _demo_spans(downstream) == SPANS, "every span of the demo")
        yield Row(
            peer.name,
            f"it -> us by {protocol}, our journal full for a while",
            f"{refused:.0f} refusals ({REFUSAL[protocol]}), then all {SPANS} spans, none lost",
        )


def _fill_journal(server: Server) -> None:
    """Large requests until one is refused, then small ones: the rest must be full for those, too."""
    for size, most in ((MIB, 200), (1, 200_000)):
        for _ in range(most):
            filler = otlp_span(9_999, 1)
            filler.name = "x" * size
            if not _takes(server, payload([filler], service="filler")):
                break
        else:
            raise AssertionError("the journal never was full")


def _takes(server: Server, request: bytes) -> bool:
    try:
        export(server.endpoints["grpc"], request)
    except grpc.RpcError:
        return False
    return True


def _refused(server: Server, transport: str) -> float:
    return server.metric("tracegrade_receiver_requests_total", "receive", transport=transport, reason="journal_full")


def _demo_spans(downstream: Downstream) -> int:
    return sum(b"demo-agent" in whole for whole in spans_in(downstream).values())


def while_we_are_gone(place: Place, peer: Forwarder) -> Iterator[Row]:
    """kill -9 of us between two halves of a run of traces; what the collector holds it must send to our successor."""
    for protocol in ("grpc", "http"):
        folder = place.new("gone")
        fixed = {name: {"endpoint": f"127.0.0.1:{peers.free_port()}"} for name in ("grpc", "http")}
        with sink() as downstream:
            server = Server(folder, exporters=exporter(downstream), receivers={"otlp": {"protocols": fixed}})
            server.start()
            try:
                with peer.running(folder / "peer", port_of(server, protocol), protocol) as ports:
                    _run_demo(_sdk_exporter("grpc", ports))
                    eventually(lambda: len(spans_in(downstream)) >= SPANS, "the first half")
                    server.kill()
                    _run_demo(_sdk_exporter("grpc", ports))
                    time.sleep(1)  # the peer finds nobody
                    server.start()
                    eventually(lambda: _demo_spans(downstream) == 2 * SPANS, "both halves")
                    eventually(lambda: len(failing_traces(server)) == 2 * FAILING_RUNS, "both halves' results")  # noqa: B023
            finally:
                server.stop()
        yield Row(
            peer.name,
            f"it -> us by {protocol}, kill -9 of us, next start",
            f"{2 * SPANS} spans out, {2 * FAILING_RUNS} of {2 * len(RUNS)} runs failed as they should, none lost",
        )


# Prometheus


def metrics_page(place: Place) -> Iterator[Row]:
    """Our metrics page, linted by Prometheus."""
    linter = peers.promtool(place.installed)
    with sink() as downstream, served(place.new("metrics"), exporters=exporter(downstream)) as server:
        _run_demo(_sdk_exporter("grpc", {"grpc": port_of(server, "grpc")}))
        _judged(server, downstream)
        eventually(lambda: server.metric("tracegrade_evaluations_total", "judge") == EVENTS, "the judge's snapshot")
        with urlopen(f"http://{server.endpoints['telemetry']}/metrics", timeout=10) as response:
            page = response.read()
    linted = subprocess.run([linter, "check", "metrics"], input=page, capture_output=True, check=False)
    told = linted.stderr.decode() + linted.stdout.decode()
    assert linted.returncode == 0, told
    assert not told.strip(), told
    families = page.count(b"# TYPE ")
    yield Row("promtool", "check metrics < our /metrics", f"{families} families, nothing to say")
    for name in (b"tracegrade_evaluations_total", b"tracegrade_traces_closed_total"):
        assert b"\n%s{" % name in page, "the alert rules on results read it"
    rules = [DEPLOY / "tracegrade.alerts.example.yaml", DEPLOY / "tracegrade.score-alerts.example.yaml"]
    folder = place.new("promtool")
    for path in (DEPLOY / "compose" / "prometheus.yaml", *rules):
        shutil.copy(path, folder)
    for what, words in (
        ("check config deploy/compose/prometheus.yaml", ["check", "config", folder / "prometheus.yaml"]),
        ("check rules deploy/tracegrade.*alerts.example.yaml", ["check", "rules", *rules]),
        ("test rules tests/system/interop/health_alerts.yaml", ["test", "rules", HERE / "health_alerts.yaml"]),
        ("test rules tests/system/interop/score_alerts.yaml", ["test", "rules", HERE / "score_alerts.yaml"]),
    ):
        yield Row("promtool", what, _checked([linter, *words]).splitlines()[-1].strip())


def _checked(command: Sequence[str | Path]) -> str:
    """What a checker says that finds nothing wrong."""
    done = subprocess.run(command, capture_output=True, check=False)
    told = (done.stderr + done.stdout).decode().strip()
    assert done.returncode == 0, told
    return told


def alertmanager(place: Place) -> Iterator[Row]:
    """Our alerts through a real Alertmanager: taken, grouped, sent again while they fire, and resolved."""
    checker = peers.amtool(place.installed)
    _checked([checker, "check-config", DEPLOY / "alertmanager.example.yaml"])
    yield Row("amtool", "check-config deploy/alertmanager.example.yaml", "nothing to say")
    hook = Webhook()
    hook.refusals = 0
    folder = place.new("alertmanager")
    rules = folder / "rules"
    rules.mkdir()
    (rules / "rule.yaml").write_text(json.dumps(RULE))
    try:
        config = f"""\
route: {{receiver: hook, group_by: [rule], group_wait: 1s, group_interval: 1s, repeat_interval: 1h}}
receivers: [{{name: hook, webhook_configs: [{{url: "http://127.0.0.1:{hook.server_port}/"}}]}}]
"""
        with peers.alertmanager(place.installed, folder, config) as address:
            alerts = {"interval": "200ms", "channels": {"am": {"alertmanager": {"url": address}}}}
            home = place.new("server")
            remember(home / "data", FELL, time.time_ns(), *SHOPS)
            with served(home, rules={"paths": [str(rules)], "reload": "200ms"}, alerts=alerts) as server:
                for first, service in zip((1, 1001), SHOPS, strict=True):
                    send(server, range(first, first + MISSING), "create_order", service=service)
                firing = eventually(lambda: _told(hook, "firing", 1), "both services as one incident")
                assert firing["groupLabels"] == {"rule": RULE["id"]}
                eventually(lambda: _taken(address)[0]["annotations"]["summary"].endswith("(+1 alert)"), "both")
                yield Row("alertmanager", "two services, one rule > API v2 > its webhook", "one incident firing")
                taken = _taken(address)
                assert len(taken) == 1
                assert {alert["status"]["state"] for alert in taken} == {"active"}
                assert all("Traces to look at" in alert["annotations"]["description"] for alert in taken)
                yield Row("alertmanager", "GET /api/v2/alerts", f"{len(taken)} active, each names traces")
                (rules / "rule.yaml").write_text(json.dumps(WITHOUT_ALERT))
                eventually(lambda: _told(hook, "resolved", 1), "the end of both")
                yield Row("alertmanager", "their rule has no alert any more > its webhook", "resolved")
    finally:
        hook.shutdown()
        hook.server_close()


def _taken(address: str) -> list[dict[str, Any]]:
    """The alerts that Alertmanager has."""
    with urlopen(f"{address}/api/v2/alerts", timeout=10) as response:
        taken: list[dict[str, Any]] = json.load(response)
    return taken


def _told(hook: Webhook, status: str, alerts: int) -> dict[str, Any] | None:
    """The notification of so many alerts, all of `status`; Alertmanager may tell of some of them before."""
    for posted in hook.posted:
        if [alert["status"] for alert in posted["alerts"]] == [status] * alerts:
            return posted
    return None
