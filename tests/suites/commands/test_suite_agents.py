"""``suite run`` against agents of one's own: commands and HTTP endpoints that send their spans while they work."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build import each, rest_long, store_with
from build.processes import processes_with
from build.without_parts import of_all_parts
from suites.build.scripted_models import calling, prompt_of, serving, write_models
from tracegrade.cli import main
from tracegrade.store.heads import trace_heads
from tracegrade.store.open import reading_store
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.runs import Run, stored_runs
from tracegrade.store.tallies import tallies
from tracegrade.suites.agents.endpoint import Endpoint
from tracegrade.suites.models.pace import Stopped
from waiting import WITHIN_S, eventually

CITIES = ("Paris", "Tokyo", "Rome")
SUITE: dict[str, Any] = {
    "name": "Weather",
    "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}],
    "test_cases": [
        {"prompt": f"Weather in {city}?", "expected_tool": "get_weather", "expected_params": {"city": city}}
        for city in CITIES
    ],
}
PARIS = SUITE | {"test_cases": SUITE["test_cases"][:1]}
FLIGHT = {
    "prompt": "Book a flight",
    "expected_tool": "book_flight",
    "multi_turn": True,
    "optimal_hops": 2,
    "valid_prerequisites": ["search_flights"],
    "mock_responses": {},
}

# Sends what an instrumented agent would, without the second that importing OpenTelemetry's SDK takes. Its arguments
# change what it does.
AGENT = """\
import json, os, sys, time
from urllib.parse import unquote
from urllib.request import Request, urlopen

how = sys.argv[1:]
prompt = sys.stdin.read()
city = prompt.removeprefix("Weather in ").removesuffix("?")
print("not kept:", prompt)
print("working on", city, file=sys.stderr)
pairs = (pair.split("=") for pair in os.environ["OTEL_RESOURCE_ATTRIBUTES"].split(","))
resource = {} if "own-resource" in how else {key: unquote(value) for key, value in pairs}
if "other-case" in how:
    resource["tracegrade.case.id"] = "case-2"
spans = []

def attributes(values):
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]

def span(trace, parent, operation, **more):
    spans.append({
        "traceId": trace, "spanId": os.urandom(8).hex(), "parentSpanId": parent, "name": operation,
        "startTimeUnixNano": time.time_ns(), "endTimeUnixNano": time.time_ns() + 1,
        "attributes": attributes({"gen_ai.operation.name": operation, **{"gen_ai." + k: v for k, v in more.items()}}),
    })
    return spans[-1]["spanId"]

if "hang" in how and city == "Tokyo":
    time.sleep(3600)
trace = os.urandom(16).hex()
parent = span(trace, "", "invoke_agent", **{"agent.name": "shop"})
if "helper" in how:
    parent = span(trace, parent, "invoke_agent", **{"agent.name": "helper"})
if "two-traces" in how:
    trace, parent = os.urandom(16).hex(), ""
asked = {"city": "Milan" if "wrong" in how and city == "Rome" else city}
span(trace, parent, "execute_tool", **{"tool.name": "get_weather", "tool.call.arguments": json.dumps(asked)})
if "open" in how:
    del spans[0]
scopes = [{"scope": {}, "spans": spans}]
body = json.dumps({"resourceSpans": [{"resource": {"attributes": attributes(resource)}, "scopeSpans": scopes}]})
for _ in range(2 if "twice" in how else 1):
    address = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces"
    urlopen(Request(address, body.encode(), {"Content-Type": "application/json"})).close()
if "fail" in how and city == "Rome":
    print("no more flights", file=sys.stderr)
    sys.exit(7)
"""

# The same by OpenTelemetry's SDK, over the transport that it is told.
SDK_AGENT = """\
import json, sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

if sys.argv[1] == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
else:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
city = sys.stdin.read().removeprefix("Weather in ").removesuffix("?")
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("agent")
with tracer.start_as_current_span("invoke_agent shop") as run:
    run.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"})
    with tracer.start_as_current_span("execute_tool get_weather") as span:
        asked = {"city": "Milan" if city == "Rome" else city}
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", "get_weather")
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps(asked))
provider.shutdown()
"""


class Place:
    """A folder with a suite and an agent, and commands run over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.agent = folder / "agent.py"
        self.agent.write_text(AGENT)
        self.write(SUITE)

    def write(self, suite: Any) -> None:
        (self.folder / "weather.json").write_text(json.dumps(suite))

    def command(self, *how: str) -> tuple[str, str]:
        return "--agent-command", " ".join([sys.executable, str(self.agent), *how])

    def arguments(self, *options: str) -> list[str]:
        return ["suite", "run", str(self.folder / "weather.json"), "--data-dir", str(self.data), *options]

    def run(self, *options: str) -> Result:
        return CliRunner().invoke(main, self.arguments(*options))

    def results(self, *options: str) -> list[Any]:
        done = self.run(*options, "--format", "json")
        assert done.exit_code == 0, done.output
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return [row for row in rows if row["kind"] == "result"]

    def runs(self) -> list[Run]:
        with reading_store(f"sqlite:///{self.data / 'tracegrade.db'}") as connection:
            return stored_runs(connection, "default")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)
    place = Place(tmp_path)
    store_with(place.data)
    return place


@pytest.mark.parametrize(
    ("agent", "how"),
    [
        pytest.param(SDK_AGENT, "grpc", marks=pytest.mark.long),
        pytest.param(SDK_AGENT, "http", marks=pytest.mark.long),
        (AGENT, "wrong"),
    ],
)
def test_each_case_is_judged_by_what_its_command_sent(place: Place, agent: str, how: str) -> None:
    place.agent.write_text(agent)
    done = place.run(*place.command(how), "--max-parallel", "3", "--experiment", "own")
    assert done.exit_code == 0, done.output
    assert "Stored as run own/1 of experiment own: 3 traces, score 0.8667." in done.stderr
    assert "fail agent.py case-3 overall 0.6" in done.stderr
    (run,) = place.runs()
    assert (run.state, run.labels) == ("complete", {"model": "agent.py"})
    assert run.selection["command"] == f"{sys.executable} {place.agent} {how}"
    with reading_store(f"sqlite:///{place.data / 'tracegrade.db'}") as connection:
        assert (tallies(connection, ResultFilter()), trace_heads(connection, ResultFilter(), 9)) == ({}, [])  # not live


def test_a_result_has_the_calls_the_exit_code_and_the_end_of_stderr(place: Place) -> None:
    first, _, last = place.results(*place.command("fail"))
    assert first["calls"] == [{"name": "get_weather", "arguments": {"city": "Paris"}}]
    assert (first["outcome"], first["overall"], first["exit_code"], first["stderr"]) == (
        "pass",
        1.0,
        0,
        "working on Paris",
    )
    assert (last["outcome"], last["overall"], last["exit_code"]) == ("error", None, 7)
    assert last["stderr"] == "working on Rome\nno more flights"
    assert last["explanation"].endswith("the agent ended with exit code 7: no more flights")
    assert last["calls"]  # what it did before is kept


def test_a_command_that_hangs_is_ended_and_the_others_count(place: Place) -> None:
    results = place.results(*place.command("hang"), "--agent-timeout", "8s", "--max-parallel", "3")
    assert [item["outcome"] for item in results] == ["pass", "error", "pass"]
    assert results[1]["explanation"].endswith("the agent took longer than 8 s and was ended")
    assert not processes_with(str(place.agent))


def test_no_span_is_an_error_that_says_what_to_set(place: Place) -> None:
    place.write(PARIS)
    command = f"{sys.executable} -c pass"
    (first,) = place.results("--agent-command", command, "--agent-spans-within", "300ms")
    assert first["outcome"] == "error"
    assert "no span came to http://127.0.0.1:" in first["explanation"]
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in first["explanation"]


@pytest.mark.parametrize("how", rest_long(["other-case", "other-case own-resource"], ["other-case"]))
def test_the_id_of_another_case_is_an_error_and_does_not_reach_that_case(place: Place, how: str) -> None:
    first, second, third = place.results(*place.command(how))
    assert [first["outcome"], second["outcome"], third["outcome"]] == ["error", "pass", "error"]
    assert "its spans say tracegrade.case.id 'case-2', and it was asked 'case-1'" in first["explanation"]
    assert second["calls"] == [{"name": "get_weather", "arguments": {"city": "Tokyo"}}]


def test_a_resource_that_says_nothing_will_do_where_one_case_runs_at_a_time(place: Place) -> None:
    assert [item["outcome"] for item in place.results(*place.command("own-resource"))] == ["pass"] * 3


def test_spans_without_their_parent_are_no_result(place: Place) -> None:
    place.write(PARIS)
    (first,) = place.results(*place.command("open"), "--agent-spans-within", "300ms")
    assert first["outcome"] == "error"
    assert "1 span did not come that others name as their parent" in first["explanation"]


def test_spans_that_come_twice_count_once(place: Place) -> None:
    place.write(PARIS)
    (first,) = place.results(*place.command("twice"))
    assert (first["outcome"], len(first["calls"])) == ("pass", 1)


def test_the_traces_of_one_case_are_judged_as_one(place: Place) -> None:
    place.write(PARIS)
    (first,) = place.results(*place.command("two-traces"))
    assert (first["outcome"], first["calls"]) == ("pass", [{"name": "get_weather", "arguments": {"city": "Paris"}}])
    assert first["notes"] == ["its spans were in 2 traces, which are judged as one"]


def test_what_another_agent_called_for_it_is_its_call(place: Place) -> None:
    place.write(PARIS)
    results = place.results(*place.command("helper"), "--repeat", "2")
    assert [(item["outcome"], len(item["calls"])) for item in results] == [("pass", 1)] * 2  # one a run of a case


@of_all_parts
def test_models_and_an_agent_are_asked_in_one_command_and_compared(place: Place) -> None:
    with serving(lambda body: calling(("get_weather", {"city": prompt_of(body)[11:-1]}))) as server:
        models = write_models(place.folder, server.url)
        own = (*place.command("wrong"), "--agent-name", "own", "--temperature", "0.5")
        done = place.run("--model", "m-1", "--models", str(models), *own)
        assert done.exit_code == 0, done.output
    assert [(run.labels["model"], run.state) for run in place.runs()] == [
        ("one::m-1", "complete"),
        ("own", "complete"),
    ]
    sides = CliRunner().invoke(main, ["compare", "weather/1", "weather/2", "--data-dir", str(place.data)])
    assert "3 pairs by case: 1 worse, 0 better" in sides.stdout, sides.output
    assert "other rules" not in sides.output


def test_the_prompt_is_one_argument_without_a_shell(place: Place) -> None:
    cases = [{"prompt": "a b; $(touch x) {case}", "expected_tool": "get_weather"}]
    place.write(SUITE | {"test_cases": cases})
    seen = place.folder / "seen.json"
    script = (
        f"import json, os, sys; json.dump([sys.argv, sys.stdin.read(), dict(os.environ)], open({str(seen)!r}, 'w'))"
    )
    command = f'{sys.executable} -c "{script}" {{prompt}} --ask={{prompt}}'
    place.results("--agent-command", command, "--agent-spans-within", "100ms", "--repeat", "2")
    words, stdin, environment = json.loads(seen.read_text())
    assert words[1:] == [cases[0]["prompt"], f"--ask={cases[0]['prompt']}"]
    assert stdin == cases[0]["prompt"]
    said = environment["OTEL_RESOURCE_ATTRIBUTES"].split(",")
    assert {"tracegrade.case.id=case-1", "tracegrade.run=weather%2F1", "tracegrade.suite.repetition=2"} <= {*said}
    unit = next(item for item in said if item.startswith("tracegrade.suite.unit=")).partition("=")[2]
    assert environment["TRACEPARENT"].startswith(f"00-{unit}-")


def test_the_port_is_closed_at_the_end(place: Place) -> None:
    place.write(PARIS)
    port = _free_port()
    place.results(*place.command(), "--listen", f"127.0.0.1:{port}")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()


@each(
    ("options", "said"),
    [
        (("--agent-command", ""), "--agent-command: expected a program and its arguments, found nothing"),
        (("--agent-command", "a 'b"), "cannot be divided into words"),
        (("--agent-command", "KEY=1 agent"), "sets a variable, which only a shell does"),
        (("--agent-command", "a", "--agent-url", "http://x/"), "give one of them"),
        (("--agent-command", "a", "--agent-header", "a: b"), "--agent-header is sent to --agent-url"),
        (("--agent-command", "a", "--temperature", "1"), "--temperature is for models"),
        (("--agent-command", "a", "--agent-timeout", "soon"), "--agent-timeout: "),
        (("--agent-command", "a", "--agent-timeout", "0s"), "--agent-timeout: expected a time longer than 0"),
        (("--agent-command", "a", "--listen", "4318"), "--listen: expected host:port"),
        (("--agent-command", "a", "--agent-name", " "), "--agent-name: expected 1 to 100 printable characters"),
        (("--agent-url", "ftp://x/"), "--agent-url: expected http://HOST:PORT/PATH"),
        (("--agent-url", "http://me:secret@x/"), "without user and password"),
        (("--agent-url", "http://x:y/"), "is no address"),
        (("--agent-url", "http://x/", "--agent-header", "traceparent: 1"), "traceparent is set by TraceGrade itself"),
        (("--listen", "127.0.0.1:0"), "give --agent-command or --agent-url"),
    ],
)
def test_wrong_options_are_said_before_anything_runs(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    place = Place(tmp_path)
    done = place.run(*options)
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())
    assert "secret" not in done.output
    assert not place.data.exists()


def test_a_command_that_cannot_be_started_ends_the_run_and_stores_nothing(place: Place) -> None:
    done = place.run("--agent-command", "no-such-program --x")
    assert done.exit_code == 3, done.output
    assert "Error: no-such-program: 'no-such-program' cannot be started: No such file or directory" in done.stderr
    assert place.runs() == []


def test_an_address_that_is_taken_is_said(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = place.run(*place.command(), "--listen", address)
    assert done.exit_code == 2, done.output
    assert f"--listen: cannot listen on '{address}': Address already in use" in done.stderr
    assert place.runs() == []


@pytest.mark.parametrize("how", rest_long([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]))
def test_ctrl_c_ends_agents_and_the_same_command_goes_on(place: Place, how: signal.Signals) -> None:
    options = (*place.command("hang"), "--experiment", "own", "--max-parallel", "3")
    command = [sys.executable, "-m", "tracegrade", *place.arguments(*options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert {process.stderr.readline()[:20] for _ in range(2)} == {"pass agent.py case-1", "pass agent.py case-3"}
        assert processes_with(str(place.agent))
        process.send_signal(how)
        _, said = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, said[:12]) == (130, "Interrupted:")
    assert not processes_with(f"{place.agent}")
    place.agent.write_text(AGENT.replace("time.sleep(3600)", "pass"))
    done = place.run(*options)
    assert "Going on with run own/1 of agent.py" in done.stderr
    assert "2 results stored before, and not asked again." in done.stderr
    assert "3 traces, score 1.0000" in done.stderr


@pytest.mark.long
def test_a_killed_run_loses_no_case_and_stores_none_twice(place: Place) -> None:
    options = (*place.command(), "--experiment", "own", "--repeat", "4")
    command = [sys.executable, "-m", "tracegrade", *place.arguments(*options)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for _ in range(3):
            assert process.stderr.readline().startswith("pass")
        process.kill()
    done = place.run(*options)
    assert "12 traces, score 1.0000" in done.stderr, done.stderr
    assert [(run.name, run.state) for run in place.runs()] == [("own/1", "complete")]


Answer = Callable[[dict[str, Any], dict[str, str]], tuple[int, dict[str, str]]]


class Service(ThreadingHTTPServer):
    """An agent behind HTTP: `answer` gets each body and its headers, and gives a status and headers."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.url = f"http://127.0.0.1:{self.server_port}/ask"
        self.asked: list[tuple[dict[str, Any], dict[str, str]]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((body, headers))
        status, more = self.server.answer(body, headers)
        self.send_response(status)
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"key-very-secret" if status >= 300 else b"{}")

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Callable[[Answer], Service]]:
    running: list[Service] = []

    def serve(answer: Answer) -> Service:
        running.append(Service(answer))
        threading.Thread(target=running[-1].serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return running[-1]

    yield serve
    for one in running:
        one.shutdown()
        one.server_close()


def _sends(port: int, *, traceparent: bool = True, city: str = "") -> Answer:
    """An agent whose spans go to `port` before it answers."""

    def answer(body: dict[str, Any], headers: dict[str, str]) -> tuple[int, dict[str, str]]:
        _, trace_id, span_id, _ = headers["traceparent"].split("-")
        request = ExportTraceServiceRequest()
        span = (
            request.resource_spans.add()
            .scope_spans.add()
            .spans.add(
                trace_id=bytes.fromhex(trace_id) if traceparent else b"7" * 16,
                span_id=os.urandom(8),
                parent_span_id=bytes.fromhex(span_id),
                flags=0x301,
                name="execute_tool get_weather",
                start_time_unix_nano=1,  # its clock is wrong
                end_time_unix_nano=2,
            )
        )
        arguments = {"city": city or body["prompt"].removeprefix("Weather in ").removesuffix("?")}
        said = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "get_weather",
            "gen_ai.tool.call.arguments": json.dumps(arguments),
        }
        for key, value in said.items():
            span.attributes.add(key=key).value.string_value = value
        kind = {"Content-Type": "application/x-protobuf"}
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/traces", request.SerializeToString(), kind)
        with urllib.request.urlopen(asked, timeout=WITHIN_S):
            return 200, {}

    return answer


def test_an_endpoint_is_asked_with_a_traceparent_and_judged_by_its_spans(place: Place, service: Any) -> None:
    port = _free_port()
    agent = service(_sends(port))
    header = ("--agent-header", "Authorization: Bearer key-very-secret")
    done = place.run("--agent-url", agent.url, "--listen", f"127.0.0.1:{port}", *header, "--max-parallel", "3")
    assert done.exit_code == 0, done.output
    assert f"Receiving spans at http://127.0.0.1:{port}, gRPC and HTTP" in done.stderr
    assert "3 traces, score 1.0000" in done.stderr
    bodies = sorted((body["case"], body["prompt"]) for body, _ in agent.asked)
    assert bodies == [(f"case-{number}", f"Weather in {city}?") for number, city in enumerate(CITIES, 1)]
    assert all(headers["authorization"] == "Bearer key-very-secret" for _, headers in agent.asked)
    assert "messages" not in agent.asked[0][0]
    assert all(b"key-very-secret" not in path.read_bytes() for path in place.data.iterdir() if path.is_file())
    (run,) = place.runs()
    assert (run.labels["model"], run.selection["url"]) == (f"127.0.0.1:{agent.server_port}", agent.url)


def test_a_case_of_several_turns_has_messages(place: Place, service: Any) -> None:
    place.write(SUITE | {"test_cases": [FLIGHT]})
    agent = service(lambda body, headers: (200, {}))
    place.results("--agent-url", agent.url, "--agent-spans-within", "100ms")
    assert agent.asked[0][0]["messages"] == [{"role": "user", "content": "Book a flight"}]


def test_spans_that_go_elsewhere_are_an_error_that_says_so(place: Place, service: Any) -> None:
    agent = service(lambda body, headers: (200, {}))
    port = _free_port()
    options = ("--agent-url", agent.url, "--listen", f"127.0.0.1:{port}", "--agent-spans-within", "100ms")
    first, *_ = place.results(*options)
    assert first["outcome"] == "error"
    assert (
        f"no span came to http://127.0.0.1:{port} within 0.1 s: the agent's exporter has to point there"
        in (first["explanation"])
    )
    assert "stays live traffic" in first["explanation"]


def test_spans_of_another_trace_are_an_error_that_says_so(place: Place, service: Any) -> None:
    port = _free_port()
    agent = service(_sends(port, traceparent=False))
    options = ("--agent-url", agent.url, "--listen", f"127.0.0.1:{port}", "--agent-spans-within", "100ms")
    first, *_ = place.results(*options)
    assert "1 came that do not say their case: the agent has to go on with the trace" in first["explanation"]


@pytest.mark.parametrize("status", [500, 429])
def test_another_status_is_an_error_of_the_case(place: Place, service: Any, status: int) -> None:
    agent = service(lambda body, headers: (status, {}))
    header = ("--agent-header", "X-Key: key-very-secret")
    done = place.run("--agent-url", agent.url, *header, "--format", "json", "--max-parallel", "3")
    assert done.exit_code == 0
    assert len(agent.asked) == 3  # none twice
    assert f"{agent.url} answers {status}: **********" in json.loads(done.stdout.splitlines()[0])["explanation"]
    assert "key-very-secret" not in done.output


@pytest.mark.parametrize(
    ("status", "said"), [(401, "answers 401"), (404, "answers 404"), (307, "redirects (to http://other/) are not")]
)
def test_what_every_case_would_meet_ends_the_run(place: Place, service: Any, status: int, said: str) -> None:
    agent = service(lambda body, headers: (status, {"Location": "http://other/"}))
    done = place.run("--agent-url", agent.url)
    assert done.exit_code == 3, done.output
    assert said in done.stderr
    assert (len(agent.asked), place.runs()) == (1, [])


def test_an_endpoint_where_nothing_listens_ends_the_run(place: Place) -> None:
    done = place.run("--agent-url", f"http://127.0.0.1:{_free_port()}/")
    assert done.exit_code == 3, done.output
    assert "cannot be reached: Connection refused; is the agent running there?" in " ".join(done.stderr.split())


def test_an_endpoint_that_does_not_answer_is_an_error_of_the_case(place: Place, service: Any) -> None:
    held = threading.Event()
    agent = service(lambda body, headers: (200 if held.wait(WITHIN_S) else 500, {}))
    results = place.results("--agent-url", agent.url, "--agent-timeout", "300ms", "--max-parallel", "3")
    held.set()
    assert [item["outcome"] for item in results] == ["error"] * 3
    assert results[0]["explanation"].endswith("did not answer within 0.3 s")


def test_the_end_of_a_run_breaks_off_what_is_asked(service: Any) -> None:
    held, stop = threading.Event(), threading.Event()
    agent = service(lambda body, headers: (200 if held.wait(WITHIN_S) else 500, {}))
    endpoint = Endpoint(agent.url, {}, 60.0, 1, stop)
    raised: list[Exception] = []

    def ask() -> None:
        try:
            endpoint.ask({}, "00-1-2-01")
        except Stopped as error:
            raised.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: agent.asked, "the request")
    stop.set()
    endpoint.close()
    asking.join(WITHIN_S)
    held.set()
    assert raised


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port
