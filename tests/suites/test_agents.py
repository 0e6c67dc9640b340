"""What comes from agents under test: told apart by unit, and made one trace."""

import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build import each
from build.processes import processes_with
from tracegrade.model.signal import Signal
from tracegrade.suites.agents.arrivals import MAX_BYTES, Arrivals, Arrived
from tracegrade.suites.agents.command import Commands, Ended, environment_of
from tracegrade.suites.agents.target import AgentTarget, command_words, name_of
from tracegrade.suites.agents.unit_trace import Asked, problem_of, unit_trace
from tracegrade.suites.models.pace import Stopped
from tracegrade.suites.suite import SuiteCase
from waiting import WITHIN_S, eventually

ONE, TWO = b"1" * 16, b"2" * 16
ROOT = b"r" * 8
OTHER = b"o" * 16
REMOTE = 0x300


def request(
    *spans: tuple[bytes, bytes, bytes], said: Mapping[str, str] | None = None, flags: int = 0, size: int = 0
) -> bytes:
    """Spans as (trace id, span id, parent id) of one resource that says `said`."""
    made = ExportTraceServiceRequest()
    resource = made.resource_spans.add()
    for key, value in (said or {}).items():
        resource.resource.attributes.add(key=key).value.string_value = value
    scope = resource.scope_spans.add()
    for trace_id, span_id, parent_id in spans:
        span = scope.spans.add(trace_id=trace_id, span_id=span_id, parent_span_id=parent_id, flags=flags, name="x")
        span.start_time_unix_nano, span.end_time_unix_nano = 5, 6
        span.attributes.add(key="filling").value.string_value = "x" * size
    return made.SerializeToString()


def under_way(*units: bytes, may_be_unnamed: bool = False) -> Arrivals:
    arrivals = Arrivals(may_be_unnamed=may_be_unnamed)
    for number, unit in enumerate(units, 1):
        arrivals.begin(unit, f"case-{number}", ROOT)
    return arrivals


def span_ids(arrived: Arrived) -> set[bytes]:
    return set().union(*(trace.span_ids for trace in arrived.traces.values()))


def unit(trace_id: bytes) -> dict[str, str]:
    return {"tracegrade.suite.unit": trace_id.hex()}


def test_spans_belong_to_the_unit_of_their_trace_or_of_their_resource() -> None:
    arrivals = under_way(ONE, TWO)
    arrivals.take(Signal.TRACES, request((ONE, b"a" * 8, ROOT)))
    arrivals.take(Signal.TRACES, request((OTHER, b"b" * 8, b""), said=unit(TWO)))
    arrivals.take(Signal.TRACES, request((OTHER, b"c" * 8, b"b" * 8)))  # another service of that trace
    assert (span_ids(arrivals.end(ONE)), span_ids(arrivals.end(TWO))) == ({b"a" * 8}, {b"b" * 8, b"c" * 8})


def test_spans_that_come_before_their_unit_is_known_are_kept() -> None:
    arrivals = under_way(ONE, TWO, may_be_unnamed=True)
    arrivals.take(Signal.TRACES, request((OTHER, b"c" * 8, b"b" * 8)))
    assert arrivals.unnamed_spans == 1
    arrivals.take(Signal.TRACES, request((OTHER, b"b" * 8, b""), said=unit(TWO)))
    assert (arrivals.unnamed_spans, span_ids(arrivals.end(TWO))) == (0, {b"b" * 8, b"c" * 8})


def test_a_case_alone_names_the_only_unit_of_that_case() -> None:
    arrivals = under_way(ONE, TWO)
    arrivals.take(Signal.TRACES, request((OTHER, b"b" * 8, b""), said={"tracegrade.case.id": "case-2"}))
    assert span_ids(arrivals.end(TWO)) == {b"b" * 8}
    arrivals.begin(TWO, "case-1", ROOT)
    arrivals.take(Signal.TRACES, request((b"p" * 16, b"d" * 8, b""), said={"tracegrade.case.id": "case-1"}))
    assert (arrivals.unnamed_spans, span_ids(arrivals.end(ONE)), span_ids(arrivals.end(TWO))) == (1, set(), set())


def test_beside_other_commands_a_case_that_an_agent_makes_up_reaches_none_of_them() -> None:
    arrivals = under_way(ONE, TWO, may_be_unnamed=True)
    arrivals.take(Signal.TRACES, request((OTHER, b"b" * 8, b""), said={"tracegrade.case.id": "case-2"}))
    assert (arrivals.unnamed_spans, span_ids(arrivals.end(ONE)), span_ids(arrivals.end(TWO))) == (1, set(), set())


def test_what_says_nothing_is_of_the_only_command() -> None:
    for may_be_unnamed in (True, False):
        arrivals = under_way(ONE, may_be_unnamed=may_be_unnamed)
        arrivals.take(Signal.TRACES, request((OTHER, b"b" * 8, b"")))
        assert bool(span_ids(arrivals.end(ONE))) is may_be_unnamed


@pytest.mark.parametrize("said", [unit(b"9" * 16), {"tracegrade.suite.unit": "no id"}, {"other": "x"}])
def test_another_run_s_spans_are_nobody_s(said: dict[str, str]) -> None:
    arrivals = under_way(ONE, TWO)
    arrivals.take(Signal.TRACES, request((OTHER, b"b" * 8, b""), said=said))
    assert arrivals.unnamed_spans == 1


def test_late_spans_are_counted_and_reach_no_other_unit() -> None:
    arrivals = under_way(ONE, may_be_unnamed=True)
    arrivals.take(Signal.TRACES, request((OTHER, b"b" * 8, b""), said=unit(ONE)))
    arrivals.end(ONE)
    arrivals.begin(TWO, "case-2", ROOT)
    arrivals.take(Signal.TRACES, request((OTHER, b"c" * 8, b"b" * 8)))
    arrivals.take(Signal.TRACES, request((b"p" * 16, b"d" * 8, b""), said=unit(ONE)))
    assert (arrivals.late_spans, span_ids(arrivals.end(TWO))) == (2, set())


def test_more_than_is_kept_of_a_unit_is_an_error() -> None:
    arrivals = under_way(ONE)
    large = MAX_BYTES // 4
    for number in range(6):
        arrivals.take(Signal.TRACES, request((ONE, bytes([number + 1]) * 8, ROOT), size=large))
    arrived = arrivals.end(ONE)
    assert len(span_ids(arrived)) < 6
    assert problem_of(arrived, "there") == ("it sent more than 64 MiB of spans", "too_large")


def test_waiting_ends_when_no_parent_is_missing_and_it_was_quiet() -> None:
    arrivals, stop = under_way(ONE), threading.Event()
    arrivals.take(Signal.TRACES, request((ONE, b"b" * 8, b"a" * 8)))
    waiting = threading.Thread(target=arrivals.wait, args=(ONE, 0.05, 60.0, stop))
    waiting.start()
    arrivals.take(Signal.TRACES, request((ONE, b"c" * 8, b"a" * 8)))
    assert waiting.is_alive()
    arrivals.take(Signal.TRACES, request((ONE, b"a" * 8, b"")))
    waiting.join(WITHIN_S)
    assert not waiting.is_alive()
    stop.set()
    with pytest.raises(Stopped):
        arrivals.wait(ONE, 0.05, 60.0, stop)


def asked(**more: Any) -> Asked:
    case = SuiteCase("case-1", "Weather?", {"expected_tool": "get_weather"})
    return Asked(ONE, ROOT, case, 2, 1_000, 9_000, Ended(**more))


def spans_of(payload: bytes) -> dict[bytes, Any]:
    made = ExportTraceServiceRequest.FromString(payload)
    return {
        span.span_id: span for resource in made.resource_spans for scope in resource.scope_spans for span in scope.spans
    }


def test_several_traces_become_one_below_the_root_though_they_share_span_ids() -> None:
    arrivals = under_way(ONE)
    said = {**unit(ONE), "service.name": "shop"}
    shared = b"a" * 8
    arrivals.take(Signal.TRACES, request((OTHER, shared, b""), (OTHER, b"b" * 8, shared), said=said))
    arrivals.take(Signal.TRACES, request((b"p" * 16, shared, b""), (b"p" * 16, b"c" * 8, shared), said=said))
    arrivals.take(Signal.TRACES, request((ONE, b"d" * 8, b"q" * 8), said=said, flags=REMOTE))
    ran = unit_trace("agent", asked(), arrivals.end(ONE))
    spans = spans_of(ran.payload)
    assert (ran.spans, len(spans)) == (6, 6)
    assert {span.trace_id for span in spans.values()} == {ONE}
    (renamed,) = spans.keys() - {ROOT, shared, b"b" * 8, b"c" * 8, b"d" * 8}
    parents = {key: span.parent_span_id for key, span in spans.items()}
    assert parents == {
        ROOT: b"",
        shared: ROOT,
        b"b" * 8: shared,
        renamed: ROOT,
        b"c" * 8: renamed,
        b"d" * 8: ROOT,
    }
    assert not any(span.flags & REMOTE == REMOTE for span in spans.values())
    root = spans[ROOT]
    assert (root.name, root.start_time_unix_nano, root.end_time_unix_nano) == ("invoke_agent agent", 1_000, 9_000)
    attributes = {item.key: item.value for item in root.attributes}
    own = [item.string_value for item in attributes["tracegrade.suite.trace_ids"].array_value.values]
    assert own == [OTHER.hex(), (b"p" * 16).hex(), ONE.hex()]
    made = ExportTraceServiceRequest.FromString(ran.payload)
    services = [item.resource.attributes[-1].value.string_value for item in made.resource_spans]
    assert set(services) == {"shop"}  # the root's too


def test_log_records_go_with_their_spans() -> None:
    arrivals = under_way(ONE)
    arrivals.take(Signal.TRACES, request((OTHER, b"a" * 8, b""), said=unit(ONE)))
    logs = ExportLogsServiceRequest()
    logs.resource_logs.add().scope_logs.add().log_records.add(trace_id=OTHER, span_id=b"a" * 8)
    arrivals.take(Signal.LOGS, logs.SerializeToString())
    arrivals.take(Signal.METRICS, b"anything")
    ran = unit_trace("agent", asked(), arrivals.end(ONE))
    record = ExportLogsServiceRequest.FromString(ran.logs).resource_logs[0].scope_logs[0].log_records[0]
    assert (ran.log_records, record.trace_id, record.span_id) == (1, ONE, b"a" * 8)


def test_without_spans_there_is_the_root_with_its_error() -> None:
    arrived = under_way(ONE).end(ONE)
    problem, kind = problem_of(arrived, "http://x within 3 s")
    ran = unit_trace("agent", asked(problem=problem, error_type=kind, exit_code=0), arrived)
    (root,) = spans_of(ran.payload).values()
    assert (ran.problem, root.status.message) == ("no span came to http://x within 3 s",) * 2
    assert {item.key: item.value.string_value for item in root.attributes}["error.type"] == "no_spans"


@each(
    ("command", "url", "environment", "name"),
    [
        ("python agent.py --fast", "", {}, "agent.py"),
        ("/opt/bin/agent {prompt}", "", {}, "agent"),
        ("python3.11 -m shop", "", {}, "python3.11"),
        ("node dist/agent.mjs", "", {"OTEL_SERVICE_NAME": "shop"}, "shop"),
        ("agent", "", {"OTEL_RESOURCE_ATTRIBUTES": "a=b, service.name=my%20shop"}, "my shop"),
        ("", "https://shop.example:8080/ask?key=x", {"OTEL_SERVICE_NAME": "not this"}, "shop.example:8080"),
    ],
)
def test_an_agent_is_called_by_what_is_known_of_it(
    command: str, url: str, environment: dict[str, str], name: str
) -> None:
    assert name_of(command_words(command) if command else [], url, environment) == name


def test_headers_and_secrets_are_not_shown() -> None:
    target = AgentTarget(key="a", url="http://x/?token=secret-1", headers={"authorization": "secret-2"})
    assert "secret" not in repr(target.asked_by)
    assert "secret-2" not in repr(target)


def test_what_the_environment_said_stays_and_the_unit_wins() -> None:
    outer = {
        "OTEL_RESOURCE_ATTRIBUTES": "team=a,tracegrade.case.id=old,deployment.environment=x",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://elsewhere",
        "TRACESTATE": "x=1",
        "PATH": "/bin",
    }
    found = environment_of("http://127.0.0.1:1", "a,b=c", "own/1", 3, ONE, ROOT, outer)
    assert found["OTEL_RESOURCE_ATTRIBUTES"] == (
        "team=a,deployment.environment=x,tracegrade.case.id=a%2Cb%3Dc,tracegrade.run=own%2F1,"
        f"tracegrade.suite.repetition=3,tracegrade.suite.unit={ONE.hex()}"
    )
    assert (found["OTEL_EXPORTER_OTLP_ENDPOINT"], found["PATH"]) == ("http://127.0.0.1:1", "/bin")
    assert "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" not in found
    assert "TRACESTATE" not in found


def test_the_end_of_standard_error_is_kept_and_safe_to_print() -> None:
    script = "import sys; sys.stderr.write('x' * 5000 + chr(27) + '[31mred' + chr(10) + 'last'); sys.exit(3)"
    ended = Commands([sys.executable, "-c", script], 30, threading.Event()).run("", {})
    assert (ended.exit_code, ended.problem) == (3, "the agent ended with exit code 3: last")
    assert len(ended.stderr) < 2100
    assert ended.stderr.endswith("\\x1b[31mred\nlast")


def test_a_signal_that_ended_it_is_named() -> None:
    script = "import os; os.kill(os.getpid(), 9)"
    ended = Commands([sys.executable, "-c", script], 30, threading.Event()).run("", {})
    assert (ended.exit_code, ended.problem) == (137, "the agent was ended by SIGKILL")


def test_a_prompt_that_no_argument_can_be_is_an_error_of_the_case() -> None:
    commands = Commands([sys.executable, "-c", "pass", "{prompt}"], 30, threading.Event())
    assert "null byte" in commands.run("a\0b", {}).problem
    assert "the prompt is too long for an argument; leave {prompt} out" in commands.run("x" * 5_000_000, {}).problem


def test_what_a_command_started_is_ended_with_it() -> None:
    stop = threading.Event()
    mark = f"grandchild-{time.time_ns()}"
    script = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(3600)', '{mark}'])"
    )
    commands = Commands([sys.executable, "-c", script], 600, stop)
    raised: list[Exception] = []

    def run() -> None:
        try:
            commands.run("", {})
        except Stopped as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: processes_with(mark), "what the command starts")
    stop.set()
    thread.join(WITHIN_S)
    assert raised
    eventually(lambda: not processes_with(mark), "its end")
