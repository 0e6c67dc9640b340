"""``tracegrade demo --send-to``: the demo's agent in front of a receiver that runs elsewhere."""

import signal
import subprocess
import sys

from click.testing import CliRunner
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build import each
from build.served import TRACES, Downstream
from tracegrade.cli import main
from tracegrade.cli.demo_agent import RUNS
from waiting import eventually


def _roots(downstream: Downstream) -> int:
    return sum(
        not span.parent_span_id
        for request in list(downstream.requests[TRACES])
        for resource in ExportTraceServiceRequest.FromString(request).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    )


def test_the_agent_sends_until_it_is_told_to_end_and_then_what_it_still_has() -> None:
    downstream = Downstream()
    command = [sys.executable, "-m", "tracegrade", "demo", "--send-to", f"127.0.0.1:{downstream.port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == f"The order agent sends its traces to {command[-1]}. Ctrl-C ends it.\n"
        eventually(lambda: _roots(downstream), "a trace")
        agent.send_signal(signal.SIGTERM)
        assert agent.wait() == 0
    assert _roots(downstream) % len(RUNS) == 0
    once = subprocess.run([*command, "--once"], check=True, capture_output=True, text=True)
    assert once.stdout == f"The order agent sends its traces to {command[-1]}.\n"
    downstream.stop()


@each(
    ("arguments", "found"),
    [
        (["--send-to", "collector"], "expected host:port such as '127.0.0.1:4317', found 'collector'"),
        (["--send-to", "collector:4317", "--data-dir", "here"], "--data-dir: with --send-to nothing is stored here"),
    ],
)
def test_wrong_use_is_refused(arguments: list[str], found: str) -> None:
    done = CliRunner().invoke(main, ["demo", *arguments])
    assert done.exit_code == 2
    assert found in " ".join(done.output.split())
