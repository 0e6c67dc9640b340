"""OTLP/HTTP over real sockets; the numbers are those of the OTLP server checklist."""

import gzip
import http.client
import socket
import ssl
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import trustme
import zstandard
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from build import each
from receive.conftest import until_closed
from tracegrade.journal.errors import JournalRefused
from tracegrade.journal.record import Encoding
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.otlp.json import to_json
from waiting import eventually

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
Serve = Callable[..., Any]


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def content_type(self) -> str:
        return self.headers["content-type"]

    def message(self) -> str:
        """The google.rpc.Status' message, in the encoding that Content-Type names."""
        if self.content_type == PROTOBUF:
            return Status.FromString(self.body).message
        assert self.content_type == JSON
        message = orjson.loads(self.body)["message"]
        assert isinstance(message, str)
        return message


def send(
    served: Any,
    body: Any,
    content_type: str | None = PROTOBUF,
    *,
    path: str = "/v1/traces",
    method: str = "POST",
    **headers: str,
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", served.http_port)
    try:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        if content_type is not None:
            named["Content-Type"] = content_type
        connection.request(method, path, body, named)
        return Answer(connection.getresponse())
    finally:
        connection.close()


@pytest.fixture
def json_wire(request_of: Callable[..., ExportTraceServiceRequest]) -> bytes:
    return orjson.dumps(to_json(request_of()))


def test_3_25_success_is_an_empty_response_of_the_requests_type(serve: Serve, wire: bytes, json_wire: bytes) -> None:
    served = serve()
    for body, content_type, expected in ((wire, PROTOBUF, b""), (json_wire, JSON, b"{}")):
        answer = send(served, body, content_type)
        assert (answer.status, answer.content_type, answer.body) == (200, content_type, expected)
    assert [entry.payload for entry in served.journal.entries] == [wire, wire]
    assert [entry.encoding for entry in served.journal.entries] == [Encoding.PROTOBUF, Encoding.JSON]
    assert served.requests(transport="http", outcome="accepted") == 2


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
def test_1_gzip_is_accepted(serve: Serve, wire: bytes, json_wire: bytes, content_type: str) -> None:
    served = serve()
    body = gzip.compress(wire if content_type == PROTOBUF else json_wire)
    assert send(served, body, content_type, Content_Encoding="gzip").status == 200
    assert send(served, body + body, content_type, Content_Encoding="GZIP").status == (
        200 if content_type == PROTOBUF else 400  # twice a request is a request in protobuf alone
    )
    assert served.journal.entries[0].payload == wire


@each(("name", "pack"), [("zstd", zstandard.compress), ("deflate", zlib.compress), ("zlib", zlib.compress)])
def test_1_zstd_and_deflate_are_accepted(serve: Serve, wire: bytes, name: str, pack: Callable[[bytes], bytes]) -> None:
    served = serve()
    assert send(served, pack(wire), Content_Encoding=name).status == 200
    assert served.journal.entries[0].payload == wire


@each("content_type", [PROTOBUF, JSON])
def test_2_empty_requests_succeed_and_are_not_journalled(serve: Serve, content_type: str) -> None:
    served = serve()
    empty = {PROTOBUF: [b"", b"\x0a\x00"], JSON: [b"{}", b'{"resourceSpans":[{"scopeSpans":[{"spans":[]}]}]}']}
    for body in empty[content_type]:
        assert send(served, body, content_type).status == 200
    assert served.journal.entries == []


def test_4_bad_spans_are_a_partial_success(serve: Serve, request_of: Callable[..., ExportTraceServiceRequest]) -> None:
    served = serve()
    request = request_of((b"t" * 16, b"s" * 8, b""), (b"", b"s" * 8, b""))
    answer = send(served, request.SerializeToString())
    partial = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert (answer.status, partial.rejected_spans) == (200, 1)
    assert "trace ids must be 16 bytes" in partial.error_message

    answer = send(served, orjson.dumps(to_json(request)), JSON)
    assert answer.status == 200
    assert orjson.loads(answer.body) == {
        "partialSuccess": {"rejectedSpans": "1", "errorMessage": partial.error_message}
    }
    assert [entry.items for entry in served.journal.entries] == [1, 1]


def test_5_a_warning_rejects_nothing_and_has_a_message(serve: Serve) -> None:
    served = serve()
    span = {"traceId": "01" * 16, "spanId": "02" * 8, "start_time_unix_nano": 1}
    body = orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    answer = send(served, body, JSON)
    [partial] = orjson.loads(answer.body).values()
    assert list(partial) == ["errorMessage"]
    assert "snake_case" in partial["errorMessage"]
    assert len(served.journal.entries) == 1


@each("content_type", [PROTOBUF, JSON])
def test_5_44_a_repaired_text_rejects_nothing_and_is_remarked(
    serve: Serve, request_of: Callable[..., ExportTraceServiceRequest], content_type: str
) -> None:
    served = serve()
    body = request_of().SerializeToString() if content_type == PROTOBUF else orjson.dumps(to_json(request_of()))
    answer = send(served, body.replace(b"work", b"wor\xff"), content_type)
    assert answer.status == 200
    if content_type == PROTOBUF:
        partial = ExportTraceServiceResponse.FromString(answer.body).partial_success
        assert (partial.rejected_spans, partial.error_message[:19]) == (0, "1 text not in UTF-8")
    else:
        [partial] = orjson.loads(answer.body).values()
        assert (list(partial), partial["errorMessage"][:19]) == (["errorMessage"], "1 text not in UTF-8")
    assert [b"wor\xef\xbf\xbd" in entry.payload for entry in served.journal.entries] == [True]


def test_23_each_signal_has_its_path(serve: Serve, wire: bytes) -> None:
    served = serve()
    logs, metrics = ExportLogsServiceRequest(), ExportMetricsServiceRequest()
    logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=1)
    metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="m").gauge.data_points.add(as_int=1)
    sent = {"/v1/traces": wire, "/v1/logs": logs.SerializeToString(), "/v1/metrics": metrics.SerializeToString()}
    for path, body in sent.items():
        assert send(served, body, path=path).status == 200
    assert [(entry.signal, entry.payload) for entry in served.journal.entries] == list(
        zip([Signal.TRACES, Signal.LOGS, Signal.METRICS], sent.values(), strict=True)
    )


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON", f"{JSON} ;x=y"])
def test_24_media_types_are_read_with_their_parameters(serve: Serve, json_wire: bytes, content_type: str) -> None:
    answer = send(serve(), json_wire, content_type)
    assert (answer.status, answer.content_type) == (200, JSON)


def test_24_media_types_of_protobuf_with_parameters(serve: Serve, wire: bytes) -> None:
    answer = send(serve(), wire, f"{PROTOBUF}; proto=x")
    assert (answer.status, answer.content_type) == (200, PROTOBUF)


BAD = [
    # what, body, headers, expected status, part of the message
    ("garbage in protobuf", b"\xff\xff garbage", {}, 400, "not an OTLP traces request in protobuf"),
    ("garbage in JSON", b"\xff\xff garbage", {"content_type": JSON}, 400, "not JSON"),
    ("JSON of another kind", b'{"resourceSpans": 5}', {"content_type": JSON}, 400, "$.resourceSpans: expected a list"),
    ("JSON nested too deep", b'{"a":' * 5000, {"content_type": JSON}, 400, "depth limit"),
    ("gzip that is none", b"plain", {"Content_Encoding": "gzip"}, 400, "the body is not"),
    ("torn gzip", gzip.compress(bytes(99))[:-4], {"Content_Encoding": "gzip"}, 400, "it ends too early"),
    ("gzip and garbage", gzip.compress(b"") + b"!", {"Content_Encoding": "gzip"}, 400, "the body is not"),
    ("an unknown encoding", b"", {"Content_Encoding": "br"}, 415, "expected Content-Encoding gzip, zstd"),
    ("no content type", b"", {"content_type": None}, 415, f"expected Content-Type {PROTOBUF} or {JSON}"),
    ("a wrong content type", b"", {"content_type": "text/plain"}, 415, "found 'text/plain'"),
    ("protobuf's other name", b"", {"content_type": "application/protobuf"}, 415, "expected Content-Type"),
    ("another method", None, {"method": "GET"}, 405, "OTLP is sent by POST"),
    ("a preflight", None, {"method": "OPTIONS"}, 405, "OTLP is sent by POST"),
    ("an unknown path", b"", {"path": "/v1/profiles"}, 404, "nothing is served at '/v1/profiles'"),
    ("a slash too many", b"", {"path": "/v1/traces/"}, 404, "expected one of /v1/traces"),
]


@each(("body", "how", "status", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_26_27_30_32_bad_requests_get_a_status_in_their_encoding(
    serve: Serve, body: Any, how: dict[str, Any], status: int, message: str, wire: bytes
) -> None:
    served = serve()
    answer = send(served, body, **how)
    assert (answer.status, message in answer.message()) == (status, True), answer.message()
    known = how.get("content_type", PROTOBUF)
    assert answer.content_type == (known if known in (PROTOBUF, JSON) else JSON)
    assert answer.headers["Allow"] == ("POST" if status == 405 else None)
    assert "Retry-After" not in answer.headers
    assert served.requests() == served.requests(outcome="refused") == (0 if status in (404, 405) else 1)
    # And the next one is taken as if nothing had been.
    assert send(served, wire).status == 200
    assert len(served.journal.entries) == 1


def mebibytes(size: float) -> bytes:
    return bytes(int(size * 1024 * 1024))


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """200 MiB of zeros, in 0.2 MiB of gzip."""
    return gzip.compress(mebibytes(200), 9)


OVERSIZE: dict[str, tuple[Callable[[bytes], Any], dict[str, str]]] = {
    # how the body is made, given the bomb
    "announced": (lambda _: mebibytes(1.5), {}),
    "chunked": (lambda _: iter([mebibytes(0.5)] * 3), {}),
    "bomb": (lambda bomb: bomb, {"Content_Encoding": "gzip"}),
    "chunked bomb": (lambda bomb: iter([bomb]), {"Content_Encoding": "gzip"}),
}


@pytest.mark.parametrize("what", OVERSIZE)
@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
def test_28_oversize_raw_or_decompressed_is_413_and_memory_stays_flat(
    serve: Serve, what: str, content_type: str, bomb: bytes, peak_memory: Callable[[], Any]
) -> None:
    body, headers = OVERSIZE[what]
    served = serve(http={"max_request_body_size_mib": 1})
    memory = peak_memory()
    answer = send(served, body(bomb), content_type, **headers)
    assert (answer.status, answer.content_type) == (413, content_type)
    assert "larger than 1048576 bytes" in answer.message()
    assert served.requests(outcome="refused", reason="too_large") == 1
    assert served.ingest.in_flight.taken_bytes == 0
    assert memory.growth_mib() < 16


@each(
    ("error", "status"),
    [
        (JournalRefused("journal_full", "2.0 of 2.0 GiB"), 429),
        (JournalRefused("journal_unavailable", "disk failed"), 503),
    ],
)
def test_29_overload_says_when_to_come_back(serve: Serve, wire: bytes, error: Exception, status: int) -> None:
    served = serve()
    served.journal.refuse_with = error
    answer = send(served, wire)
    assert (answer.status, answer.headers["Retry-After"]) == (status, "1")
    assert answer.message() == str(error)
    served.journal.refuse_with = None
    assert send(served, wire).status == 200


def test_29_no_room_for_requests_in_work_is_429(serve: Serve, wire: bytes) -> None:
    served = serve(http={"max_request_body_size_mib": 1}, grpc={"max_recv_msg_size_mib": 1}, max_in_flight_mib=2)
    served.ingest.in_flight.taken_bytes = served.ingest.in_flight.bound_bytes
    answer = send(served, wire)
    assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
    assert "max_in_flight_mib" in answer.message()


@each("bad", [b"x" * 2_000_000, [b"x"] * 50_000], ids=["one long", "many"])
def test_8_an_answer_stays_short_however_much_there_is_to_say(serve: Serve, bad: bytes | list[bytes]) -> None:
    ids = [bad] if isinstance(bad, bytes) else bad
    spans = [{"traceId": text.decode(), "spanId": text.decode(), "name": "work"} for text in ids]
    body = orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    answer = send(serve(), body, JSON)
    assert answer.status == 200
    assert orjson.loads(answer.body)["partialSuccess"]["rejectedSpans"] == str(len(spans))
    assert len(answer.body) < 4096


@each("name", ["Upgrade", "preface"])
def test_35_who_asks_for_http_2_is_answered_in_http_1(serve: Serve, wire: bytes, name: str) -> None:
    served = serve()
    if name == "Upgrade":
        settings = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2_Settings": "AAMAAABkAAQAAP__"}
        assert send(served, wire, **settings).status == 200
        assert send(served, iter([wire[:7], wire[7:]]), **settings).status == 200
        head = b"POST /v1/traces HTTP/1.1\r\nConnection: %s\r\nUpgrade: h2c\r\nContent-Type: application/x-protobuf\r\n"
        body = b"Content-Length: %d\r\n\r\n%s" % (len(wire), wire)
        with socket.create_connection(("127.0.0.1", served.http_port)) as connection:
            connection.sendall(head % b"Upgrade" + body + head % b"Upgrade, close" + body)
            assert until_closed(connection).count(b"HTTP/1.1 200 OK") == 2
        assert [entry.payload for entry in served.journal.entries] == [wire] * 4
    else:
        with socket.create_connection(("127.0.0.1", served.http_port)) as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert until_closed(connection).startswith(b"HTTP/1.1 4")


def test_22_while_stopping_the_answer_is_503(serve: Serve, wire: bytes) -> None:
    served = serve()
    served.loop.call_soon_threadsafe(served.ingest.stop)
    served.run(served.ingest.wait_stopping())
    answer = send(served, wire)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")


def test_22_stopping_finishes_what_is_in_work(serve: Serve, wire: bytes) -> None:
    served = serve()
    served.journal.hold = True
    answers: list[Answer] = []
    sender = threading.Thread(target=lambda: answers.append(send(served, wire)))
    sender.start()
    assert served.journal.appended.acquire()
    stopping = served.submit(served.stop(10))
    served.run(served.ingest.wait_stopping())
    served.loop.call_soon_threadsafe(served.journal.futures[0].set_result, 1)
    stopping.result()
    sender.join()
    assert [answer.status for answer in answers] == [200]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", served.http_port))


def test_31_chunked_bodies_without_a_length_work(serve: Serve, wire: bytes) -> None:
    served = serve()
    answer = send(served, iter([wire[:7], wire[7:]]))
    assert answer.status == 200
    assert served.journal.entries[0].payload == wire


def test_33_connections_are_kept_also_after_a_refusal(serve: Serve, wire: bytes) -> None:
    served = serve(http={"max_request_body_size_mib": 1})
    connection = http.client.HTTPConnection("127.0.0.1", served.http_port)
    statuses = []
    for body in (wire, mebibytes(2), b"\xff", wire):
        connection.request("POST", "/v1/traces", body, {"Content-Type": PROTOBUF})
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
    connection.close()
    assert statuses == [200, 413, 400, 200]


def test_33_slow_senders_are_cut_off_and_hold_up_nobody(serve: Serve, wire: bytes) -> None:
    served = serve(http={"read_header_timeout": "300ms", "read_timeout": "300ms", "idle_timeout": "1s"})
    starts = [b"", b"POST /v1/tra", b"POST /v1/traces HTTP/1.1\r\nHost: x\r\n"]
    half_open = [socket.create_connection(("127.0.0.1", served.http_port)) for _ in range(30)]
    for index, connection in enumerate(half_open):
        connection.sendall(starts[index % 3])
    slow_body = socket.create_connection(("127.0.0.1", served.http_port))
    slow_body.sendall(
        b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    )
    assert send(served, wire).status == 200
    assert all(until_closed(connection) == b"" for connection in half_open)
    said = until_closed(slow_body)
    assert said.startswith(b"HTTP/1.1 503 ")
    assert b"the request did not arrive within 0.3 s" in said
    for connection in (*half_open, slow_body):
        connection.close()
    assert served.requests(outcome="refused", reason="read_timeout") == 1


def test_33_an_idle_connection_is_closed(serve: Serve, wire: bytes) -> None:
    served = serve(http={"idle_timeout": "1s"})
    with socket.create_connection(("127.0.0.1", served.http_port)) as connection:
        head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\nContent-Length: {len(wire)}\r\n\r\n"
        connection.sendall(head.encode() + wire)
        assert until_closed(connection).startswith(b"HTTP/1.1 200 OK")


def test_33_headers_without_end_are_cut_off(serve: Serve) -> None:
    served = serve()
    with socket.create_connection(("127.0.0.1", served.http_port)) as connection:
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\n")
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            connection.sendall(b"x-filler: f\r\n" * 1_000_000)


def test_a_sender_that_goes_away_within_its_body_is_counted(serve: Serve, wire: bytes) -> None:
    served = serve()
    with socket.create_connection(("127.0.0.1", served.http_port)) as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
    assert send(served, wire).status == 200
    eventually(lambda: served.requests(reason="disconnected") == 1)
    assert served.ingest.in_flight.taken_bytes == 0


def test_34_no_answer_speaks_of_other_origins(serve: Serve, wire: bytes) -> None:
    answer = send(serve(), wire, Origin="http://somewhere.example")
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_what_carries_our_own_instance_id_is_not_journalled(serve: Serve, wire: bytes) -> None:
    served = serve()
    assert send(served, wire, X_TraceGrade_Instance="instance-under-test").status == 200
    assert served.journal.entries == []
    assert send(served, wire, X_TraceGrade_Instance="another").status == 200
    assert len(served.journal.entries) == 1
    assert served.requests(outcome="accepted", reason="loop") == 1


def test_a_port_in_use_stops_the_start_and_leaves_nothing_behind(serve: Serve) -> None:
    taken = serve().http_port
    with pytest.raises(TraceGradeError, match=rf"protocols\.http\.endpoint: cannot listen on '127.0.0.1:{taken}'"):
        serve(http={"endpoint": f"127.0.0.1:{taken}"})


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def write_server_files(authority: trustme.CA, folder: Path) -> dict[str, str]:
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(folder / "server.pem")
    certificate.private_key_pem.write_to_path(folder / "server.key")
    return {"cert_file": str(folder / "server.pem"), "key_file": str(folder / "server.key")}


def test_tls_is_served(serve: Serve, wire: bytes, authority: trustme.CA, tmp_path: Path) -> None:
    served = serve(http={"tls": write_server_files(authority, tmp_path)})
    context = ssl.create_default_context()
    authority.configure_trust(context)
    connection = http.client.HTTPSConnection("127.0.0.1", served.http_port, context=context)
    connection.request("POST", "/v1/traces", wire, {"Content-Type": PROTOBUF})
    assert connection.getresponse().status == 200
    connection.close()


def test_with_a_client_authority_only_its_clients_get_in(
    serve: Serve, wire: bytes, authority: trustme.CA, tmp_path: Path
) -> None:
    tls = write_server_files(authority, tmp_path)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    served = serve(http={"tls": {**tls, "client_ca_file": str(tmp_path / "ca.pem")}})
    context = ssl.create_default_context()
    authority.configure_trust(context)

    def status() -> int:
        connection = http.client.HTTPSConnection("127.0.0.1", served.http_port, context=context)
        try:
            connection.request("POST", "/v1/traces", wire, {"Content-Type": PROTOBUF})
            return connection.getresponse().status
        finally:
            connection.close()

    with pytest.raises((ssl.SSLError, ConnectionError)):
        status()
    authority.issue_cert("client").configure_cert(context)
    assert status() == 200
