"""The client against real servers on loopback: what reaches the peer, and what its answers are taken for."""

import asyncio
import gzip
import shutil
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import pytest
import trustme
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from build import each
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.otlp.client import Answer, ExporterSettings, OtlpClient

# A request with a field that no version of OTLP has yet (number 100, text "future") inside and outside its span.
FUTURE = b"\xa2\x06\x06future"
SPAN = Span(trace_id=bytes(range(16)), span_id=bytes(range(8)), name="s").SerializeToString() + FUTURE
PAYLOAD = (
    ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[Span.FromString(SPAN)])])]
    ).SerializeToString()
    + FUTURE
)
SIGNALS = [Signal.TRACES, Signal.LOGS, Signal.METRICS]

Handler = Callable[[bytes, grpc.aio.ServicerContext], Awaitable[bytes]]


async def accept(payload, context):
    return b""


@dataclass
class GrpcPeer:
    port: int
    server: grpc.aio.Server
    got: list[tuple[str, bytes, dict[str, str]]] = field(default_factory=list)


@asynccontextmanager
async def grpc_peer(answer: Handler = accept, credentials: grpc.ServerCredentials | None = None):
    class Export(grpc.GenericRpcHandler):
        def service(self, details):
            async def handle(payload, context):
                peer.got.append((details.method, payload, dict(context.invocation_metadata())))
                return await answer(payload, context)

            return grpc.unary_unary_rpc_method_handler(handle)

    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers([Export()])
    if credentials is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("localhost:0", credentials)
    peer = GrpcPeer(port, server)
    await server.start()
    try:
        yield peer
    finally:
        await server.stop(0)


@dataclass
class HttpPeer:
    port: int
    got: list[tuple[str, dict[str, str], bytes]]


@contextmanager
def http_peer(status=200, headers=None, body=b"", content_type="application/x-protobuf", ssl_context=None):
    got = []

    class Handle(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            sent = self.rfile.read(int(self.headers["content-length"]))
            got.append((self.path, {key.lower(): value for key, value in self.headers.items()}, sent))
            self.send_response(status)
            for name, value in {"content-type": content_type, **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handle)
    server.daemon_threads = True
    server.handle_error = lambda *arguments: None  # a refused handshake is no news
    if ssl_context is not None:
        server.socket = ssl_context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield HttpPeer(server.server_port, got)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def grpc_settings(port: int, **more) -> ExporterSettings:
    return ExporterSettings.model_validate({"endpoint": f"127.0.0.1:{port}", "tls": {"insecure": True}, **more})


def http_settings(port: int, **more) -> ExporterSettings:
    return ExporterSettings.model_validate({"protocol": "http", "endpoint": f"http://127.0.0.1:{port}", **more})


async def export(settings: ExporterSettings, *sends: tuple[Signal, bytes]) -> list[Answer]:
    client = OtlpClient(settings, "instance-7", lambda signal: "a,b" if signal is Signal.LOGS else "")
    try:
        return [await client.export(signal, payload) for signal, payload in sends or [(Signal.TRACES, PAYLOAD)]]
    finally:
        await client.close()


def over_grpc(answer: Handler, signal: Signal = Signal.TRACES, **more) -> Answer:
    async def run():
        async with grpc_peer(answer) as peer:
            return (await export(grpc_settings(peer.port, **more), (signal, PAYLOAD)))[0]

    return asyncio.run(run())


def over_http(signal: Signal = Signal.TRACES, **peer_behaviour) -> Answer:
    with http_peer(**peer_behaviour) as peer:
        return asyncio.run(export(http_settings(peer.port), (signal, PAYLOAD)))[0]


# What reaches the peer


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_grpc_delivers_every_byte_of_every_signal_and_names_this_instance(compression):
    async def run():
        async with grpc_peer() as peer:
            settings = grpc_settings(peer.port, compression=compression, headers={"X-Tenant": "gold"})
            answers = await export(settings, *((signal, PAYLOAD) for signal in SIGNALS))
            return answers, peer.got

    answers, got = asyncio.run(run())
    assert answers == [Answer("sent")] * 3
    assert [(method, payload) for method, payload, _ in got] == [
        ("/opentelemetry.proto.collector.trace.v1.TraceService/Export", PAYLOAD),
        ("/opentelemetry.proto.collector.logs.v1.LogsService/Export", PAYLOAD),
        ("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", PAYLOAD),
    ]
    for _, _, metadata in got:
        assert metadata["x-tracegrade-instance"] == "instance-7"
        assert metadata["x-tenant"] == "gold"
        assert metadata["user-agent"].startswith("tracegrade/")
    assert [metadata.get("x-tracegrade-heard") for _, _, metadata in got] == [None, "a,b", None]


def test_http_delivers_every_byte_of_every_signal_and_names_this_instance():
    with http_peer() as peer:
        settings = http_settings(peer.port, compression="gzip", headers={"X-Tenant": "gold"})
        answers = asyncio.run(export(settings, *((signal, PAYLOAD) for signal in SIGNALS)))
    assert answers == [Answer("sent")] * 3
    assert [(path, gzip.decompress(body)) for path, _, body in peer.got] == [
        ("/v1/traces", PAYLOAD),
        ("/v1/logs", PAYLOAD),
        ("/v1/metrics", PAYLOAD),
    ]
    for _, headers, _ in peer.got:
        assert headers["content-type"] == "application/x-protobuf"
        assert headers["content-encoding"] == "gzip"
        assert headers["x-tracegrade-instance"] == "instance-7"
        assert headers["x-tenant"] == "gold"
        assert headers["user-agent"].startswith("tracegrade/")
    assert [headers.get("x-tracegrade-heard") for _, headers, _ in peer.got] == [None, "a,b", None]


def test_http_without_compression_sends_the_payload_itself_under_the_endpoints_path():
    with http_peer() as peer:
        settings = http_settings(peer.port, endpoint=f"http://127.0.0.1:{peer.port}/otlp/")  # auto, to this machine
        asyncio.run(export(settings))
    [(path, headers, body)] = peer.got
    assert (path, body) == ("/otlp/v1/traces", PAYLOAD)
    assert "content-encoding" not in headers


def test_sending_again_sends_the_same_bytes_again_on_the_same_connection():
    with http_peer() as peer:
        settings = http_settings(peer.port, compression="gzip")
        asyncio.run(export(settings, (Signal.TRACES, PAYLOAD), (Signal.TRACES, PAYLOAD)))
    first, again = peer.got
    assert first == again
    assert first[2][4:8] == bytes(4)  # gzip's header would hold the time


def test_http_goes_through_the_proxy_that_the_environment_names(monkeypatch):
    with http_peer() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        settings = ExporterSettings(protocol="http", endpoint="http://collector.invalid:4318")
        assert asyncio.run(export(settings)) == [Answer("sent")]
    assert proxy.got[0][0] == "http://collector.invalid:4318/v1/traces"


# What answers are taken for


RETRYABLE = {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}


@each("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_grpc_codes_are_retryable_exactly_as_the_specification_lists_them(code):
    async def refuse(payload, context):
        await context.abort(code, "the peer's own words")

    answer = over_grpc(refuse)
    assert answer == Answer(
        "retry" if code.name in RETRYABLE else "failed", code.name.lower(), message="the peer's own words"
    )


def status_with_delay(seconds: int, nanos: int = 0) -> bytes:
    detail = Any()
    detail.Pack(RetryInfo(retry_delay=Duration(seconds=seconds, nanos=nanos)))
    return Status(code=8, details=[detail]).SerializeToString()


def refusing(code: grpc.StatusCode, trailer: bytes) -> Handler:
    async def refuse(payload, context):
        await context.abort(code, "busy", trailing_metadata=(("grpc-status-details-bin", trailer),))

    return refuse


def test_resource_exhausted_is_retryable_only_with_retry_info_and_after_its_delay():
    exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
    with_delay = over_grpc(refusing(exhausted, status_with_delay(2, 500_000_000)))
    assert (with_delay.kind, with_delay.retry_after_s) == ("retry", 2.5)
    without = over_grpc(refusing(exhausted, Status(code=8).SerializeToString()))
    assert (without.kind, without.retry_after_s) == ("failed", None)
    unreadable = over_grpc(refusing(exhausted, b"\xff\xff not a status"))
    assert (unreadable.kind, unreadable.retry_after_s) == ("failed", None)


def test_the_delay_of_an_unavailable_peer_is_honoured_and_that_of_a_permanent_refusal_is_not():
    assert over_grpc(refusing(grpc.StatusCode.UNAVAILABLE, status_with_delay(7))).retry_after_s == 7.0
    assert over_grpc(refusing(grpc.StatusCode.INVALID_ARGUMENT, status_with_delay(7))).retry_after_s is None


@each("status", [300, 307, 400, 401, 403, 404, 405, 408, 413, 415, 429, 500, 501, 502, 503, 504])
def test_http_statuses_are_retryable_exactly_as_the_specification_lists_them(status):
    answer = over_http(status=status, headers={"location": "http://127.0.0.1:1/elsewhere"})
    assert answer == Answer("retry" if status in {429, 502, 503, 504} else "failed", f"http_{status}")


@each(
    ("value", "delay"),
    [
        ("3", 3.0),
        (" 3 ", 3.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),  # long ago: now
        ("soon", None),
        ("-3", None),
    ],
)
def test_retry_after_may_be_seconds_or_a_date(value, delay):
    assert over_http(status=503, headers={"retry-after": value}).retry_after_s == delay


def test_retry_after_of_a_permanent_refusal_means_nothing():
    assert over_http(status=400, headers={"retry-after": "3"}).retry_after_s is None


PARTIAL = {
    Signal.TRACES: ExportTraceServiceResponse(partial_success={"rejected_spans": 3, "error_message": "too old"}),
    Signal.LOGS: ExportLogsServiceResponse(partial_success={"rejected_log_records": 3, "error_message": "too old"}),
    Signal.METRICS: ExportMetricsServiceResponse(
        partial_success={"rejected_data_points": 3, "error_message": "too old"}
    ),
}


@pytest.mark.parametrize("signal", SIGNALS)
def test_partial_success_is_sent_with_what_was_rejected(signal):
    body = PARTIAL[signal].SerializeToString()

    async def answer(payload, context):
        return body

    expected = Answer("sent", rejected=3, message="too old")
    assert over_grpc(answer, signal) == expected
    assert over_http(signal, body=body) == expected


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("text/html", b"<p>welcome</p>"), ("application/json", b'{"partialSuccess":null}'), ("", b"")],
)
def test_a_success_whose_body_is_no_export_response_is_a_success(content_type, body):
    assert over_http(content_type=content_type, body=body) == Answer("sent")


def test_a_status_body_gives_its_message():
    body = Status(message="spans are too old").SerializeToString()
    assert over_http(status=400, body=body) == Answer("failed", "http_400", message="spans are too old")


def test_a_proxys_page_survives_as_one_short_line():
    page = b"<html>\n  <h1>502 Bad Gateway</h1>\n" + b"x" * 2_000_000
    answer = over_http(status=502, content_type="text/html", body=page)
    assert (answer.kind, answer.reason) == ("retry", "http_502")
    assert answer.message.startswith("<html> <h1>502 Bad Gateway</h1> xxx")
    assert len(answer.message) <= 500


def test_a_page_that_calls_itself_protobuf_survives_too():
    assert "\ufffd oops" in over_http(status=500, body=b"\xff oops").message


# Trouble on the way


@pytest.fixture
def closed_port():
    """A port where nobody listens: taken and let go."""
    with http_peer() as peer:
        pass
    return peer.port


def test_nobody_listening_is_worth_a_retry(closed_port):
    [by_grpc] = asyncio.run(export(grpc_settings(closed_port)))
    assert (by_grpc.kind, by_grpc.reason) == ("retry", "unavailable")
    [by_http] = asyncio.run(export(http_settings(closed_port)))
    assert (by_http.kind, by_http.reason) == ("retry", "connection")
    assert "refused" in by_http.message


def test_a_name_that_does_not_resolve_is_worth_a_retry():
    settings = ExporterSettings(protocol="http", endpoint="http://collector.invalid:4318")
    [answer] = asyncio.run(export(settings))
    assert (answer.kind, answer.reason) == ("retry", "connection")


@contextmanager
def silent_peer(hang_up: bool):
    """Takes connections and some bytes; then hangs up, or never answers."""
    done = threading.Event()

    class Handle(BaseHTTPRequestHandler):
        def handle(self):
            self.request.recv(10)
            if not hang_up:
                done.wait()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handle)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        done.set()
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_peer_that_hangs_up_in_mid_request_is_worth_a_retry():
    with silent_peer(hang_up=True) as port:
        [by_http] = asyncio.run(export(http_settings(port)))
        [by_grpc] = asyncio.run(export(grpc_settings(port)))
    assert (by_http.kind, by_http.reason) == ("retry", "connection")
    assert (by_grpc.kind, by_grpc.reason) == ("retry", "unavailable")


def test_a_peer_that_stops_while_it_has_our_request_is_worth_a_retry():
    async def run():
        holding = asyncio.Event()

        async def hold(payload, context):
            holding.set()
            await asyncio.Event().wait()

        async with grpc_peer(hold) as peer:
            sending = asyncio.create_task(export(grpc_settings(peer.port)))
            await holding.wait()
            await peer.server.stop(0)
            return await sending

    [answer] = asyncio.run(run())
    assert answer.kind == "retry"


def test_a_peer_that_does_not_answer_in_time_is_worth_a_retry():
    with silent_peer(hang_up=False) as port:
        [by_http] = asyncio.run(export(http_settings(port, timeout="50ms")))
        [by_grpc] = asyncio.run(export(grpc_settings(port, timeout="50ms")))
    assert (by_http.kind, by_http.reason) == ("retry", "timeout")
    assert (by_grpc.kind, by_grpc.reason) == ("retry", "deadline_exceeded")


def test_a_peer_that_is_back_takes_the_next_request():
    async def run():
        async with grpc_peer() as peer:
            port = peer.port
        client = OtlpClient(grpc_settings(port), "instance-7")
        down = await client.export(Signal.TRACES, PAYLOAD)
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers([Accepts()])
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        answers = [await client.export(Signal.TRACES, PAYLOAD)]
        while answers[-1].kind == "retry":
            answers.append(await client.export(Signal.TRACES, PAYLOAD))
        await client.close()
        await server.stop(0)
        return down, answers[-1]

    class Accepts(grpc.GenericRpcHandler):
        def service(self, details):
            return grpc.unary_unary_rpc_method_handler(accept)

    down, back = asyncio.run(asyncio.wait_for(run(), 600))
    assert (down.kind, back.kind) == ("retry", "sent")


def test_an_unforeseen_error_is_an_answer_too():
    async def run():
        client = OtlpClient(http_settings(1), "instance-7")
        await client.close()
        return await client.export(Signal.TRACES, PAYLOAD)

    answer = asyncio.run(run())
    assert (answer.kind, answer.reason) == ("retry", "client_error")
    assert "shutdown" in answer.message


# TLS


@dataclass
class Keys:
    authority: trustme.CA
    ca_file: str
    stranger_file: str
    cert_file: str
    key_file: str


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    authority = trustme.CA()
    own = authority.issue_cert("client.example")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(folder / "stranger.pem"))
    own.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    own.private_key_pem.write_to_path(str(folder / "key.pem"))
    return Keys(authority, *(str(folder / name) for name in ("ca.pem", "stranger.pem", "cert.pem", "key.pem")))


@asynccontextmanager
async def peer_with_tls(protocol: str, keys: Keys, server_name: str = "localhost") -> AsyncIterator[dict[str, str]]:
    """The protocol and endpoint of a server that shows a certificate for `server_name` and asks for one of ours."""
    certificate = keys.authority.issue_cert(server_name)
    if protocol == "grpc":
        credentials = grpc.ssl_server_credentials(
            [(certificate.private_key_pem.bytes(), certificate.cert_chain_pems[0].bytes())],
            root_certificates=keys.authority.cert_pem.bytes(),
            require_client_auth=True,
        )
        async with grpc_peer(credentials=credentials) as peer:
            yield {"protocol": "grpc", "endpoint": f"localhost:{peer.port}"}
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    keys.authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    with http_peer(ssl_context=context) as peer:
        yield {"protocol": "http", "endpoint": f"https://localhost:{peer.port}"}


def export_by_tls(protocol: str, keys: Keys, server_name: str, tls: dict[str, object]) -> Answer:
    async def run():
        async with peer_with_tls(protocol, keys, server_name) as peer:
            return (await export(ExporterSettings.model_validate({**peer, "tls": tls})))[0]

    return asyncio.run(run())


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_tls_sends_to_a_peer_whose_authority_and_name_are_trusted_and_to_no_other(protocol, keys):
    ours = {"cert_file": keys.cert_file, "key_file": keys.key_file}
    trusted = {**ours, "ca_file": keys.ca_file}
    assert export_by_tls(protocol, keys, "localhost", trusted) == Answer("sent")
    assert export_by_tls(protocol, keys, "localhost", {**ours, "ca_file": keys.stranger_file}).kind == "retry"
    assert export_by_tls(protocol, keys, "collector.example", trusted).kind == "retry"
    named = {**trusted, "server_name_override": "collector.example"}
    assert export_by_tls(protocol, keys, "collector.example", named) == Answer("sent")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_peer_that_asks_for_a_certificate_gets_nothing_without_one(protocol, keys):
    assert export_by_tls(protocol, keys, "localhost", {"ca_file": keys.ca_file}).kind == "retry"


@pytest.mark.parametrize(
    ("peer", "tls"),
    [
        ({"protocol": "http", "endpoint": "https://localhost:4318"}, {"ca_file": "text"}),
        ({"protocol": "grpc", "endpoint": "localhost:4317"}, {"ca_file": "text"}),
        ({"protocol": "grpc", "endpoint": "localhost:4317"}, {"cert_file": "cert.pem", "key_file": "other.pem"}),
    ],
    ids=["http, no authority", "grpc, no authority", "a key of another certificate"],
)
def test_files_that_are_not_what_they_should_be_stop_the_start(keys, tmp_path, peer, tls):
    (tmp_path / "text").write_text("not a certificate")
    shutil.copy(keys.cert_file, tmp_path / "cert.pem")
    keys.authority.issue_cert("x").private_key_pem.write_to_path(str(tmp_path / "other.pem"))
    settings = ExporterSettings.model_validate(
        {**peer, "tls": {key: str(tmp_path / name) for key, name in tls.items()}}
    )
    with pytest.raises(TraceGradeError, match=rf"exporter to {peer['endpoint']}: tls: expected PEM files"):
        OtlpClient(settings, "instance-7")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_certificate_is_exchanged_without_a_restart(protocol, keys, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("tracegrade.otlp.reloading.LOOK_EVERY_S", 0.0)
    cert_file, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"

    def put(authority):
        issued = authority.issue_cert("client.example")
        issued.cert_chain_pems[0].write_to_path(str(cert_file))
        issued.private_key_pem.write_to_path(str(key_file))

    async def run():
        put(trustme.CA())
        tls = {"ca_file": keys.ca_file, "cert_file": str(cert_file), "key_file": str(key_file)}
        async with peer_with_tls(protocol, keys) as peer:
            client = OtlpClient(ExporterSettings.model_validate({**peer, "tls": tls}), "instance-7")
            answers = [await client.export(Signal.TRACES, PAYLOAD)]
            put(keys.authority)
            answers.append(await client.export(Signal.TRACES, PAYLOAD))
            cert_file.write_text("not a certificate")
            answers.append(await client.export(Signal.TRACES, PAYLOAD))
            put(trustme.CA())
            answers.append(await client.export(Signal.TRACES, PAYLOAD))
            await client.close()
        return [answer.kind for answer in answers]

    assert asyncio.run(run()) == ["retry", "sent", "sent", "retry"]
    assert "the old one stays in force" in caplog.text
