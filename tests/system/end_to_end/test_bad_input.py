"""Bad input against a real ``serve``: each has a clear answer and costs nothing else; a wrong start is refused at once.

``pytest -s`` prints the table.
"""

import errno
import gzip
import http.client
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from build.otlp import agent_span, payload, tool_span
from build.served import TRACES, Server, children, export, served
from tracegrade.config import Config
from tracegrade.model.errors import TraceGradeError
from tracegrade.serve.process import explains_folder_errors
from waiting import eventually

pytestmark = pytest.mark.long

MIB = 1024 * 1024
BOMB_BYTES = 200 * MIB
# One request of 64 MiB, which is allowed, and some room for the allocator.
GROWTH_AT_MOST_MIB = 90

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
MISTAKES = Path(__file__).parents[2] / "rule" / "mistakes"


@dataclass
class Table:
    """What was sent and what came back."""

    rows: list[tuple[str, str]] = field(default_factory=list)

    def add(self, given: str, answer: str) -> None:
        self.rows.append((given, " ".join(answer.split())))

    def show(self, title: str) -> None:
        width = max((len(given) for given, _ in self.rows), default=0)
        print(f"\n\n{title}")
        for given, answer in self.rows:
            print(f"  {given:<{width}}  {answer[:200]}")


@pytest.fixture(scope="module")
def answers() -> Iterator[Table]:
    table = Table()
    yield table
    table.show("input -> answer")


@pytest.fixture(scope="module")
def starts() -> Iterator[Table]:
    table = Table()
    yield table
    table.show("start -> answer")


@dataclass
class Receiver:
    """A server, the process ids it began with, and the good traces it has taken."""

    server: Server
    pid: int
    judge_pid: int
    good: int = 0

    def address(self, protocol: str) -> tuple[str, int]:
        host, _, port = self.server.endpoints[protocol].rpartition(":")
        return host, int(port)

    def take_good(self) -> None:
        """A good trace, of another id each time."""
        self.good += 1
        spans = [agent_span(self.good, 1), tool_span(self.good, 2, 1, "create_order")]
        assert export(self.server.endpoints["grpc"], payload(spans)) == b""


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with served(tmp_path_factory.mktemp("bad_input")) as server:
        assert server.process is not None
        export(server.endpoints["grpc"], b"")
        yield Receiver(server, server.process.pid, server.judge_pid)


# HTTP


def post(
    receiver: Receiver, body: Any, media_type: str | None = PROTOBUF, path: str = "/v1/traces", **more: str
) -> tuple[int, str]:
    """Status and message of the answer."""
    method = more.pop("method", "POST")
    headers = {name.replace("_", "-"): value for name, value in more.items()}
    if media_type is not None:
        headers["Content-Type"] = media_type
    connection = http.client.HTTPConnection(*receiver.address("http"))
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, _message(response.headers.get("Content-Type", ""), response.read())
    finally:
        connection.close()


def _message(media_type: str, body: bytes) -> str:
    if media_type == PROTOBUF:
        return Status.FromString(body).message
    return str(json.loads(body)["message"])


@dataclass
class Bad:
    """A bad HTTP request, the status it gets and a part of what it is told."""

    what: str
    status: int
    told: str
    body: Any = b""
    media_type: str | None = PROTOBUF
    path: str = "/v1/traces"
    headers: dict[str, str] = field(default_factory=dict)


def _pieces(size: int) -> Iterator[bytes]:
    """A body without announced length: http.client sends it chunked."""
    for _ in range(size // MIB):
        yield bytes(MIB)


GOOD_JSON = b'{"resourceSpans": [{"scopeSpans": [{"spans": [%s]}]}]}'
BAD_REQUESTS = [
    Bad("random bytes as protobuf", 400, "not an OTLP traces request in protobuf", b"\xff\x00garbage" * 50),
    Bad("protobuf cut off", 400, "not an OTLP traces request in protobuf", payload([agent_span(1, 1)])[:-3]),
    Bad("random bytes as JSON", 400, "not JSON", b"\xff\x00garbage" * 50, JSON),
    Bad("JSON cut off", 400, "not JSON", b'{"resourceSpans": [{', JSON),
    Bad("JSON and more after it", 400, "not JSON", b'{"resourceSpans": []} true', JSON),
    Bad("JSON of another kind", 400, "resourceSpans", b'{"resourceSpans": {"a": 1}}', JSON),
    Bad("JSON a list", 400, "expected an object", b"[]", JSON),
    Bad("JSON 1,000,000 deep", 400, "depth", b'{"resourceSpans":' + b"[" * 1_000_000, JSON),
    Bad("protobuf called JSON", 400, "not JSON", payload([agent_span(1, 1)]), JSON),
    Bad("JSON called protobuf", 400, "in protobuf", GOOD_JSON % b"", PROTOBUF),
    Bad("text/plain", 415, "expected Content-Type", b"hello", "text/plain"),
    Bad("no Content-Type", 415, "expected Content-Type", b"hello", None),
    Bad("Content-Encoding br", 415, "expected Content-Encoding gzip", b"x", headers={"Content-Encoding": "br"}),
    Bad("gzip that is none", 400, "the body is not", b"not gzip", headers={"Content-Encoding": "gzip"}),
    Bad(
        "gzip cut off",
        400,
        "ends too early",
        gzip.compress(payload([agent_span(1, 1)]))[:-6],
        headers={"Content-Encoding": "gzip"},
    ),
    Bad("65 MiB announced", 413, "max_request_body_size_mib", b"", headers={"Content-Length": str(65 * MIB)}),
    Bad("unknown path", 404, "/v1/traces", b"", path="/v1/trace"),
    Bad("path of a backend", 404, "/v1/traces", b"", path="/api/v2/spans"),
    Bad("GET", 405, "POST", None, None, headers={"method": "GET"}),
    Bad("PUT", 405, "POST", b"", headers={"method": "PUT"}),
]


@pytest.mark.parametrize("bad", BAD_REQUESTS, ids=lambda bad: bad.what)
def test_a_bad_http_request_is_told_what_is_wrong(bad: Bad, receiver: Receiver, answers: Table) -> None:
    status, message = post(receiver, bad.body, bad.media_type, bad.path, **bad.headers)
    answers.add(f"HTTP: {bad.what}", f"{status} {message}")
    assert status == bad.status
    assert bad.told in message
    receiver.take_good()


def test_a_body_that_grows_too_large_is_cut_off(receiver: Receiver, answers: Table) -> None:
    # The answer comes while we still send, so that sending may fail first; what counts is that it ends.
    try:
        status, message = post(receiver, _pieces(80 * MIB))
    except (BrokenPipeError, ConnectionResetError):
        status, message = 413, "(connection closed while sending)"
    answers.add("HTTP: 80 MiB, chunked", f"{status} {message}")
    assert status == 413
    receiver.take_good()


RAW = {
    "no HTTP at all": b"\x00\x01\x02\x03\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "an HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "a negative length": b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    "a chunk of no size": b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "100 KiB of headers": b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 102_400,
}


@pytest.mark.parametrize("what", RAW)
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_what_is_no_request_ends_its_own_connection(
    what: str, protocol: str, receiver: Receiver, answers: Table
) -> None:
    with socket.create_connection(receiver.address(protocol)) as connection:
        answer = _told(connection, RAW[what])
    answers.add(f"{protocol} port: {what}", answer)
    receiver.take_good()


def _told(connection: socket.socket, sent: bytes) -> str:
    """The first line that comes back once we have said all we say."""
    try:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        got = b""
        while piece := connection.recv(65536):
            got += piece
    except OSError as error:
        if not isinstance(error, ConnectionError) and error.errno != errno.ENOTCONN:  # reset before we shut down
            raise
        return "connection reset"
    if not got:
        return "connection closed"
    return got.split(b"\r\n")[0].decode() if got.startswith(b"HTTP/1.1 ") else f"{len(got)} bytes of HTTP/2, closed"


@pytest.mark.parametrize("part", ["headers", "body", "chunk"])
def test_a_client_that_disappears_in_mid_request_costs_only_itself(
    part: str, receiver: Receiver, answers: Table
) -> None:
    body = payload([agent_span(900, 1)])
    length = b"Transfer-Encoding: chunked" if part == "chunk" else b"Content-Length: %d" % len(body)
    head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n" + length
    sent = {
        "headers": head[:-4],
        "body": head + b"\r\n\r\n" + body[:20],
        "chunk": head + b"\r\n\r\n" + b"%x\r\n" % len(body) + body[:20],
    }[part]
    gone = receiver.server.metric("tracegrade_receiver_requests_total", "receive", reason="disconnected")
    with socket.create_connection(receiver.address("http")) as connection:
        connection.sendall(sent)
    if part != "headers":
        eventually(
            lambda: (
                receiver.server.metric("tracegrade_receiver_requests_total", "receive", reason="disconnected") > gone
            ),
            "the disappearance to be counted",
        )
    answers.add(f"HTTP: client gone within its {part}", "nothing taken" + ("" if part == "headers" else ", counted"))
    receiver.take_good()


# gRPC


def call(receiver: Receiver, request: bytes, method: str = TRACES, **more: Any) -> str:
    """Code and details of a call that must fail."""
    with (
        grpc.insecure_channel(receiver.server.endpoints["grpc"]) as channel,
        pytest.raises(grpc.RpcError) as raised,
    ):
        channel.unary_unary(method)(request, **more)
    error: Any = raised.value
    return f"{error.code().name} {error.details()}"


def test_bad_grpc_calls_are_told_what_is_wrong(receiver: Receiver, answers: Table) -> None:
    garbage = call(receiver, b"\xff\x00garbage" * 50)
    answers.add("gRPC: random bytes", garbage)
    assert garbage.startswith("INVALID_ARGUMENT not an OTLP traces request in protobuf")
    oversize = call(receiver, bytes(65 * MIB))
    answers.add("gRPC: 65 MiB", oversize)
    assert oversize.startswith("RESOURCE_EXHAUSTED")
    for method in ("/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", "/nothing/Here"):
        unknown = call(receiver, b"", method)
        answers.add(f"gRPC: {method[-28:]}", unknown)
        assert unknown.startswith("UNIMPLEMENTED")
    receiver.take_good()


def test_a_grpc_call_that_is_cancelled_costs_only_itself(receiver: Receiver, answers: Table) -> None:
    with grpc.insecure_channel(receiver.server.endpoints["grpc"]) as channel:
        pending = channel.unary_unary(TRACES).future(bytes(30 * MIB))
        pending.cancel()
        answers.add("gRPC: cancelled by its client", pending.code().name)
        assert pending.cancelled()
    receiver.take_good()


# Bombs


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_gzip_bomb_is_refused_before_it_is_large(protocol: str, receiver: Receiver, answers: Table) -> None:
    Path(f"/proc/{receiver.pid}/clear_refs").write_text("5")  # forget the highest mark so far
    before = memory_mib(receiver.pid, "VmRSS")
    if protocol == "http":
        bomb = gzip.compress(bytes(BOMB_BYTES), compresslevel=9)
        status, message = post(receiver, bomb, Content_Encoding="gzip")
        told = f"{status} {message}"
        assert status == 413
    else:
        told = call(receiver, bytes(BOMB_BYTES), compression=grpc.Compression.Gzip)
        assert told.startswith("RESOURCE_EXHAUSTED")
    growth = memory_mib(receiver.pid, "VmHWM") - before
    answers.add(f"{protocol}: 200 MiB in 0.2 MB of gzip", f"[memory at most +{growth:.0f} MiB] {told}")
    assert growth < GROWTH_AT_MOST_MIB
    receiver.take_good()


def memory_mib(pid: int, what: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"no {what} of process {pid}")


# Bad spans among good ones


def test_a_bad_span_costs_its_neighbours_nothing(receiver: Receiver, answers: Table) -> None:
    receiver.good += 1
    good = agent_span(receiver.good, 1)
    no_id, short_id, bad_parent = agent_span(500, 1), agent_span(501, 1), agent_span(502, 1)
    no_id.trace_id = bytes(16)
    short_id.span_id = b"\x01\x02"
    bad_parent.parent_span_id = b"\x01"
    answer = export(receiver.server.endpoints["grpc"], payload([no_id, good, short_id, bad_parent]))
    partial = ExportTraceServiceResponse.FromString(answer).partial_success
    answers.add("gRPC: 3 of 4 spans with wrong ids", f"OK, {partial.rejected_spans} rejected: {partial.error_message}")
    assert partial.rejected_spans == 3
    assert "trace" in partial.error_message


def test_a_json_span_with_an_id_in_base64_costs_only_itself(receiver: Receiver, answers: Table) -> None:
    receiver.good += 1
    spans = [
        {"traceId": "W47/95gDgQPSabYzgTGGCQ==", "spanId": "7uGbdQ0kJPI=", "name": "base64"},
        {"traceId": f"{receiver.good:032x}", "spanId": f"{1:016x}", "name": "hex"},
    ]
    body = GOOD_JSON % b", ".join(json.dumps(span).encode() for span in spans)
    connection = http.client.HTTPConnection(*receiver.address("http"))
    connection.request("POST", "/v1/traces", body, {"Content-Type": JSON})
    response = connection.getresponse()
    told = json.loads(response.read())
    connection.close()
    answers.add("HTTP: 1 of 2 spans with ids in base64", f"{response.status} {json.dumps(told)}")
    assert response.status == 200
    assert told["partialSuccess"]["rejectedSpans"] == "1"


# After all of it


def test_every_good_trace_among_them_was_judged(receiver: Receiver, answers: Table) -> None:
    receiver.take_good()
    server = receiver.server
    listed = eventually(
        lambda: (found := _stored_traces(server)) and len(found) == receiver.good and found, "every good trace"
    )
    assert listed == {f"{n:032x}" for n in range(1, receiver.good + 1)}
    assert server.process is not None
    assert server.process.poll() is None
    assert children(receiver.pid) == [receiver.judge_pid]
    assert "Traceback" not in server.log
    answers.add("afterwards", f"all {receiver.good} good traces judged; both processes are those of the start")


def _stored_traces(server: Server) -> set[str]:
    shown = server.cli("traces", "list", "--data-dir", str(server.data), "--limit", "1000", "--format", "json")
    return {json.loads(line)["trace_id"] for line in shown.stdout.splitlines()}


# Starts


def start(folder: Path, text: str) -> tuple[int, str]:
    """`serve` with these settings; it must end by itself. Its exit code and what it said last."""
    config = folder / "config.yaml"
    config.write_text(text)
    command = [sys.executable, "-m", "tracegrade", "serve", "-c", str(config)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, stdin=subprocess.DEVNULL, check=False)
    return ended.returncode, reason(ended.stderr)


def reason(said: str) -> str:
    """Why it did not start."""
    assert "Traceback" not in said, said
    return said.partition("Error: ")[2].strip() or said


# Nothing is left of a start that its settings stopped: one process can try another.
STARTS = """
import contextlib, io, json, os, sys
from tracegrade.cli import main
for config in sys.argv[1:]:
    os.chdir(os.path.dirname(config))
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            main(["serve", "-c", config])
        except SystemExit as end:
            code = end.code
    print(json.dumps([code, said.getvalue()]))
"""


FREE_PORTS = """\
data_dir: data
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}, http: {endpoint: "127.0.0.1:0"}}}}
telemetry: {endpoint: "127.0.0.1:0"}
web: null
"""

WRONG_SETTINGS = {
    "not YAML": ("traces: [\n", ":1:10: "),
    "a list": ("- traces\n", ":1:1: "),
    "two documents": ("traces: {}\n---\ntraces: {}\n", ":2:1: "),
    "a key twice": ("traces: {}\nrules: {}\ntraces: {}\n", ":3:1: "),
    "an unknown key": ("traces:\n  setle: 1s\n", ":2:3: traces.setle: "),
    "a wrong type": ("traces:\n  settle: [1]\n", ":2:3: traces.settle: "),
    "a bare number for a time": ("traces:\n  settle: 3\n", ":2:3: traces.settle: "),
    "a unit nobody knows": ("traces:\n  settle: 3 parsecs\n", ":2:3: traces.settle: "),
    "a value out of range": ("judge:\n  hang_timeout: 0s\n", ":2:3: judge.hang_timeout: "),
    "no port": ("telemetry:\n  endpoint: localhost\n", ":2:3: telemetry.endpoint: "),
    "open to all, in plaintext": (
        'receivers:\n  otlp:\n    protocols:\n      http: {endpoint: "0.0.0.0:4318"}\n',
        ":4:7: receivers.otlp.protocols.http: ",
    ),
    "no protocol": ("receivers:\n  otlp:\n    protocols: {}\n", ":3:5: receivers.otlp.protocols: "),
    "an exporter of another kind": ("exporters:\n  kafka: {}\n", ":2:3: exporters.kafka: "),
    "an exporter without endpoint": ("exporters:\n  otlp: {}\n", ":2:3: exporters.otlp: "),
    "an exporter to ourselves": (
        "exporters:\n  otlp:\n    endpoint: 127.0.0.1:4317\n",
        ":3:5: exporters.otlp.endpoint: ",
    ),
    "a variable that is not set": ("data_dir: ${env:TRACEGRADE_NOT_SET}\n", ":1:11: "),
    "an alias": ("traces: &a {}\nrules: *a\n", ":1:9: "),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, int, str]]:
    """For each of the wrong settings their file, the exit code of `serve` and what it said last."""
    files = []
    for text, _ in WRONG_SETTINGS.values():
        files.append(tmp_path_factory.mktemp("refused") / "config.yaml")
        files[-1].write_text(text)
    command = [sys.executable, "-c", STARTS, *map(str, files)]
    ended = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True)
    answers = map(json.loads, ended.stdout.splitlines())
    return {
        what: (file, code, reason(said))
        for what, file, (code, said) in zip(WRONG_SETTINGS, files, answers, strict=True)
    }


@pytest.mark.parametrize("what", WRONG_SETTINGS)
def test_wrong_settings_stop_the_start_with_their_place(
    what: str, refused: dict[str, tuple[Path, int, str]], starts: Table
) -> None:
    file, code, told = refused[what]
    starts.add(f"settings: {what}", f"exit {code}: {told.replace(f'{file.parent}/', '')}")
    assert code == 2
    assert told.startswith(f"{file}{WRONG_SETTINGS[what][1]}"), told
    assert list(file.parent.iterdir()) == [file]


def _keys(folder: Path) -> None:
    authority = trustme.CA()
    issued, other = authority.issue_cert("127.0.0.1"), authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    other.private_key_pem.write_to_path(folder / "other.pem")
    (folder / "text").write_text("two words\n")


WRONG_FILES = {
    # what, the settings below FREE_PORTS' protocol, what is told
    "no certificate": (
        "tls: {cert_file: none.pem, key_file: key.pem}",
        "none.pem': No such file",
    ),
    "a certificate that is none": ("tls: {cert_file: text, key_file: key.pem}", "key.pem' are not a certificate"),
    "a key that does not fit": ("tls: {cert_file: cert.pem, key_file: other.pem}", "KEY_VALUES_MISMATCH"),
    "no token file": ("auth: {token_file: none}", "/none': No such file"),
    "a token file of other things": ("auth: {token_file: text}", "line 1: expected a token of printable ASCII"),
}


@pytest.mark.parametrize("what", WRONG_FILES)
def test_files_that_cannot_be_used_stop_the_start(what: str, tmp_path: Path, starts: Table) -> None:
    settings, expected = WRONG_FILES[what]
    _keys(tmp_path)
    code, told = start(tmp_path, FREE_PORTS.replace("http: {", f"http: {{{settings}, "))
    starts.add(f"files: {what}", f"exit {code}: {told}")
    assert code == 2
    assert ": receivers.otlp.protocols.http." in told
    assert expected in told
    assert len(told.splitlines()) == 1


def test_an_exporter_whose_files_cannot_be_used_stops_the_start(tmp_path: Path, starts: Table) -> None:
    _keys(tmp_path)
    exporter = 'exporters: {otlp: {endpoint: "127.0.0.1:4", tls: {cert_file: cert.pem, key_file: other.pem}}}\n'
    code, told = start(tmp_path, FREE_PORTS + exporter)
    starts.add("files: an exporter's key that does not fit", f"exit {code}: {told}")
    assert code == 2
    assert told.startswith("exporter to 127.0.0.1:4: tls: expected PEM files, a certificate with its key")


def test_settings_that_are_not_there_stop_the_start(tmp_path: Path, starts: Table) -> None:
    command = [sys.executable, "-m", "tracegrade", "serve", "-c", str(tmp_path / "none.yaml")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    starts.add("settings: no such file", f"exit {ended.returncode}: {ended.stderr.replace(str(tmp_path) + '/', '')}")
    assert ended.returncode == 2
    assert "none.yaml" in ended.stderr


def test_every_mistake_of_every_rule_file_stops_the_start_with_its_place(tmp_path: Path, starts: Table) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    expected = []
    for file in sorted(MISTAKES.glob("*.yaml")):
        copied = rules / f"{file.stem}.rule.yaml"
        shutil.copy(file, copied)
        expected += [f"{copied}:{line[3:]}" for line in file.read_text().splitlines() if line.startswith("#! ")]
    code, told = start(tmp_path, FREE_PORTS + f"rules: {{paths: [{rules}]}}\n")
    for line in told.splitlines():
        starts.add("rule", line.removeprefix(f"{rules}/"))
    assert code == 2
    assert sorted(told.splitlines()) == sorted(expected)
    assert len(expected) >= len(list(rules.iterdir()))


@pytest.mark.parametrize("listener", ["grpc", "http", "telemetry"])
def test_a_port_in_use_stops_the_start(listener: str, tmp_path: Path, starts: Table) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        free = f'{listener}: {{endpoint: "127.0.0.1:'
        code, told = start(tmp_path, FREE_PORTS.replace(free + "0", f"{free}{port}"))
    starts.add(f"{listener} port in use", f"exit {code}: {told}")
    assert code == 2
    assert f"{listener}.endpoint: cannot listen on '127.0.0.1:{port}': Address already in use" in told


def test_a_data_folder_in_use_stops_the_second_start_and_leaves_the_first_alone(tmp_path: Path, starts: Table) -> None:
    with served(tmp_path) as first:
        assert first.process is not None
        second = tmp_path / "second"
        second.mkdir()
        code, told = start(second, FREE_PORTS.replace("data_dir: data", f"data_dir: {first.data}"))
        starts.add("data folder in use", f"exit {code}: {told.replace(str(tmp_path) + '/', '')}")
        assert code == 2
        assert str(first.process.pid) in told
        assert export(first.endpoints["grpc"], payload([agent_span(1, 1)])) == b""


@pytest.mark.parametrize("name", ["data", "data/journal", "data/results", "data/positions"])
def test_a_file_where_a_folder_should_be_stops_the_start(name: str, tmp_path: Path, starts: Table) -> None:
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    place.write_text("in the way")
    code, told = start(tmp_path, FREE_PORTS)
    starts.add(f"{name} is a file", f"exit {code}: {told}")
    assert code == 2
    assert ": data_dir: cannot use '" in told


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user who is refused something; this one is root")
def test_a_data_folder_that_may_not_be_written_stops_the_start(tmp_path: Path, starts: Table) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    code, told = start(tmp_path, FREE_PORTS)
    starts.add("data folder not writable", f"exit {code}: {told}")
    assert code == 2
    assert "Permission denied" in told


def test_a_folder_on_a_disk_that_can_only_be_read_is_named(tmp_path: Path) -> None:
    wrong = OSError(errno.EROFS, os.strerror(errno.EROFS), "data/judges.lock")
    with (
        pytest.raises(
            TraceGradeError, match=r"^data_dir: cannot use '.*data': data/judges\.lock: Read-only file system"
        ),
        explains_folder_errors(Config(data_dir="data")),
    ):
        raise wrong


def _newer(store: Path) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        connection.execute("INSERT INTO alembic_version VALUES ('9999')")
    connection.close()


STORES: dict[str, tuple[Callable[[Path], None], str]] = {
    "of a newer version": (_newer, "written by a newer TraceGrade"),
    "that is a folder": (Path.mkdir, "cannot be opened"),
}


@pytest.mark.parametrize("what", STORES)
def test_a_store_that_no_judge_can_open_stops_the_start_before_anything_listens(
    what: str, tmp_path: Path, starts: Table
) -> None:
    make, expected = STORES[what]
    (tmp_path / "data").mkdir()
    make(tmp_path / "data" / "tracegrade.db")
    code, told = start(tmp_path, FREE_PORTS)
    starts.add(f"a store {what}", f"exit {code}: {told}")
    assert code == 2
    assert expected in told
    assert "Listening" not in told
    assert "next start in" not in told
