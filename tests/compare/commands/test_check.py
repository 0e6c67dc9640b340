"""Commands that are run, and judged by what they send."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest
from click.testing import CliRunner

from build import each, rest_long
from build.replayed import write_rule
from tracegrade.cli import main
from waiting import WITHIN_S, eventually

SDK_AGENT = """\
import sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

transport, exit_code, *tools = sys.argv[1:]
if transport == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
else:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("agent")
with tracer.start_as_current_span("invoke_agent shop") as run:
    run.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"})
    for tool in tools:
        with tracer.start_as_current_span("execute_tool " + tool) as call:
            call.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool})
provider.shutdown()
print("said by the agent:", sys.stdin.read())
sys.exit(int(exit_code))
"""
# The same without OpenTelemetry's SDK, which takes a second to import.
AGENT = """\
import json, os, sys, time
from urllib.request import Request, urlopen

exit_code, *tools = sys.argv[1:]

def span(number, operation, **names):
    values = {"gen_ai.operation.name": operation, **{f"gen_ai.{key}.name": name for key, name in names.items()}}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]
    now_ns = time.time_ns()
    return {"traceId": "1" * 32, "spanId": f"{number:016x}", "parentSpanId": "" if number == 1 else f"{1:016x}",
            "name": operation, "startTimeUnixNano": now_ns, "endTimeUnixNano": now_ns + 1, "attributes": attributes}

spans = [span(1, "invoke_agent", agent="shop")]
spans += [span(number, "execute_tool", tool=tool) for number, tool in enumerate(tools, 2)]
body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
address = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces"
urlopen(Request(address, body, {"Content-Type": "application/json"})).read()
print("said by the agent:", sys.stdin.read())
sys.exit(int(exit_code))
"""
IN_ORDER = ("check_inventory", "create_order")
OUT_OF_ORDER = ("create_order", "check_inventory")
GATE = ("--fail-under", "1", "--min-results", "1")
PYTHON = sys.executable


@pytest.fixture
def rule(tmp_path: Path) -> str:
    return write_rule(tmp_path)


class Check(Protocol):
    def __call__(self, *arguments: str, command: str = "check") -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def check(capfd: pytest.CaptureFixture[str]) -> Check:
    """`check` in this process; what it and the command print is read from the descriptors that they share."""

    def run(*arguments: str, command: str = "check") -> subprocess.CompletedProcess[str]:
        with pytest.raises(SystemExit) as ended:
            main([command, *arguments], prog_name="tracegrade")
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out, err)

    return run


def test_the_streams_and_the_exit_code_are_those_of_a_process(rule: str) -> None:
    words = [PYTHON, "-m", "tracegrade", "check", "--rules", rule, *GATE, "--", PYTHON, "-c", AGENT, "0", *IN_ORDER]
    done = subprocess.run(words, input="hello", capture_output=True, text=True, timeout=WITHIN_S)
    assert (done.returncode, done.stderr.splitlines()[-1][:12]) == (0, "Gate passed:"), done.stderr
    assert done.stdout.startswith("said by the agent: hello\n")
    assert "1 trace judged, 0 of them incomplete" in done.stdout


@each("transport", ["grpc", "http"])
def test_what_a_command_sends_by_either_transport_is_judged(check: Check, rule: str, transport: str) -> None:
    done = check("--rules", rule, *GATE, "--", PYTHON, "-c", SDK_AGENT, transport, "0", *IN_ORDER)
    assert (done.returncode, done.stderr.splitlines()[-1][:12]) == (0, "Gate passed:"), done.stderr
    assert "1 trace judged, 0 of them incomplete" in done.stdout


def test_a_gate_that_fails_is_the_exit_code(check: Check, rule: str) -> None:
    done = check("--rules", rule, *GATE, PYTHON, "-c", AGENT, "0", *OUT_OF_ORDER)
    assert done.returncode == 1, done.stderr
    assert "Gate failed: 1 rule under 1: create-before-check" in done.stderr


def test_without_a_gate_every_stable_rule_has_to_pass(check: Check, rule: str) -> None:
    agent = ("--", PYTHON, "-c", AGENT, "0")
    done = check("--rules", rule, *agent, *IN_ORDER)
    assert (done.returncode, "Gate passed: 1 rule of 1 as required." in done.stderr) == (0, True), done.stderr
    done = check("--rules", rule, *agent, *OUT_OF_ORDER)
    assert done.returncode == 1
    assert "Gate failed: 1 rule fails: create-before-check (0.0000 of 1 result, none may fail)." in done.stderr
    assert "agent" in done.stderr.partition("create-before-check")[2].splitlines()[0]  # as 'why' shows it
    assert "score 0.5, threshold 1. 1 of 2 expected calls were made in the expected order" in done.stderr
    done = check("--rules", rule, *agent, "look_up")
    assert (done.returncode, "Cannot tell: no stable rule" in done.stderr) == (3, True), done.stderr
    done = check("--rules", rule, "--level", "high", *agent, *OUT_OF_ORDER)
    assert (done.returncode, "Cannot tell: no stable rule" in done.stderr) == (3, True), done.stderr
    done = check("--rules", rule, "--no-gate", *agent, *OUT_OF_ORDER)
    assert (done.returncode, "Gate" in done.stderr) == (0, False), done.stderr
    assert "✗ fail   create-before-check/tool-call-order" in done.stdout


@pytest.mark.long
def test_a_gate_in_the_rules_file_decides_for_that_rule_alone(check: Check, rule: str, tmp_path: Path) -> None:
    agent = ("--", PYTHON, "-c", AGENT, "0")
    text = Path(rule).read_text()
    Path(rule).write_text(text + "gate: {at_least: 0.0}\n")
    done = check("--rules", rule, "--min-results", "1", *agent, *OUT_OF_ORDER)
    assert (done.returncode, "Gate passed" in done.stderr) == (0, True), done.stderr
    (tmp_path / "other.rule.yaml").write_text(text.replace("create-before-check", "other"))
    done = check("--rules", str(tmp_path), "--min-results", "1", *agent, *OUT_OF_ORDER)
    assert done.returncode == 1
    assert "Gate failed: 1 rule fails: other (0.0000 of 1 result, none may fail)" in done.stderr
    done = check("--rules", str(tmp_path), "--fail-under-overall", "0", *agent, *OUT_OF_ORDER)
    assert "none may fail" not in done.stderr


@pytest.mark.long
def test_a_report_in_another_format_is_left_alone(check: Check, rule: str) -> None:
    done = check("--rules", rule, "--format", "junit", "--", PYTHON, "-c", AGENT, "0", *OUT_OF_ORDER)
    assert (done.returncode, "none may fail" in done.stdout, "score 0.5, threshold" in done.stderr) == (1, True, False)


def test_a_report_in_a_file_leaves_the_reasons_to_standard_error(check: Check, rule: str, tmp_path: Path) -> None:
    options = ("--rules", rule, "--format", "junit", "-o", str(tmp_path / "found.xml"))
    done = check(*options, "--", PYTHON, "-c", AGENT, "0", *OUT_OF_ORDER)
    assert (done.returncode, "score 0.5, threshold" in done.stderr) == (1, True), done.stderr
    assert "none may fail" in (tmp_path / "found.xml").read_text()


def test_a_command_that_fails_keeps_its_exit_code_and_is_judged(check: Check, rule: str) -> None:
    done = check("--rules", rule, *GATE, "--", PYTHON, "-c", AGENT, "7", *OUT_OF_ORDER)
    assert done.returncode == 7
    assert "ended with exit code 7, which is that of check, too" in done.stderr
    assert "Gate failed: 1 rule under 1: create-before-check" in done.stderr


SENDER = """\
import json, os
from urllib.request import Request, urlopen

def span(number, trace, tool):
    names = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in names.items()]
    return {"traceId": trace, "spanId": f"{number:016x}", "name": "x", "startTimeUnixNano": number,
            "endTimeUnixNano": number, "attributes": attributes}

spans = [span(1, "1" * 32, "check_inventory"), span(2, "1" * 32, "create_order"), span(3, "0" * 32, "create_order")]
body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
address = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces"
urlopen(Request(address, body, {"Content-Type": "application/json"})).read()
"""


def test_a_gate_cannot_tell_where_spans_were_rejected(check: Check, rule: str) -> None:
    done = check("--rules", rule, *GATE, PYTHON, "-c", SENDER)
    said = "the command: 1 span was not read: trace ids must be 16 bytes and not all zero"
    assert (done.returncode, f"Cannot tell: {said}." in done.stderr) == (3, True), done.stderr


def test_no_span_is_no_pass_and_says_what_to_set(check: Check, rule: str, tmp_path: Path) -> None:
    store = ("--experiment", "prompts", "--data-dir", str(tmp_path / "data"))
    done = check("--rules", rule, *store, "--", PYTHON, "-c", "print('hello')")
    assert (done.returncode, done.stdout) == (3, "hello\n")
    assert "no span came from the command" in done.stderr
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in done.stderr
    done = check("--rules", rule, "--", PYTHON, "-c", "raise SystemExit(5)")
    assert done.returncode == 5


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("no-such-program", "--version"), "'no-such-program' cannot be started: No such file or directory"),
        ((tempfile.gettempdir(),), "cannot be started: Permission denied"),
        ((), "Missing argument"),
    ],
)
def test_a_command_that_cannot_be_started_is_wrong_usage(
    check: Check, rule: str, command: tuple[str, ...], said: str
) -> None:
    done = check("--rules", rule, "--", *command)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_wrong_option_is_said_before_the_command_runs(rule: str, tmp_path: Path) -> None:
    touch = ("--", PYTHON, "-c", "import sys; open(sys.argv[1], 'w')", str(tmp_path / "ran"))
    of_gates = ("--min-results", "3")  # without a gate, one fail is one too many
    for wrong in (("--require", "no-such-rule", *GATE), ("--run", "a"), ("--experiment", "live"), of_gates):
        arguments = ["check", "--rules", rule, "--data-dir", str(tmp_path / "data"), *wrong, *touch]
        assert CliRunner().invoke(main, arguments).exit_code == 2, wrong
    assert not (tmp_path / "ran").exists()


def test_options_after_the_command_are_its_own(check: Check, rule: str) -> None:
    done = check("--rules", rule, PYTHON, "-c", "import sys; print(sys.argv[1:])", "--format", "json", "--", "-x")
    assert done.stdout == "['--format', 'json', '--', '-x']\n"


def test_a_report_has_a_file_of_its_own_and_the_run_is_stored(check: Check, rule: str, tmp_path: Path) -> None:
    file, data = tmp_path / "found.jsonl", ("--data-dir", str(tmp_path / "data"))
    options = ("--rules", rule, "--format", "json", "-o", str(file), "--experiment", "prompts", "--label", "a=b", *data)
    done = check(*options, "--", PYTHON, "-c", AGENT, "0", *IN_ORDER)
    assert (done.returncode, done.stdout) == (0, "said by the agent: \n"), done.stderr
    assert [json.loads(line)["outcome"] for line in file.read_text().splitlines()] == ["pass"]
    assert "Stored as run prompts/1 of experiment prompts: 1 trace" in done.stderr


def test_the_traces_that_came_are_kept_where_that_is_asked_for(check: Check, rule: str, tmp_path: Path) -> None:
    saved = tmp_path / "a" / "traces"
    options = ("--rules", rule, *GATE, "--save-traces", str(saved))
    assert check(*options, "--", PYTHON, "-c", AGENT, "0", *OUT_OF_ORDER).returncode == 1
    done = check(str(saved), "--rules", rule, *GATE, command="replay")
    assert (done.returncode, "Gate failed: 1 rule under 1" in done.stderr) == (1, True), done.stderr
    done = check(*options, "--", PYTHON, "-c", AGENT, "0", *IN_ORDER)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--save-traces {saved}: is not empty" in done.stderr
    file = tmp_path / "file"
    file.touch()
    done = check("--rules", rule, "--save-traces", str(file / "x"), "--", PYTHON, "-c", "")
    assert (done.returncode, "Not a directory" in done.stderr) == (2, True), done.stderr


SHOWS_ENVIRONMENT = """\
import json, os
print(json.dumps({name: value for name, value in os.environ.items() if name.startswith("OTEL_")}))
"""


def test_the_environment_of_the_command_keeps_what_is_the_users(
    check: Check, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_user = {
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
        "OTEL_RESOURCE_ATTRIBUTES": "team=a",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://elsewhere:4318/v1/traces",
    }
    for name, value in of_user.items():
        monkeypatch.setenv(name, value)
    done = check("--rules", rule, "--", PYTHON, "-c", SHOWS_ENVIRONMENT)
    found = json.loads(done.stdout)
    assert found["OTEL_EXPORTER_OTLP_ENDPOINT"].startswith("http://127.0.0.1:")
    assert found["OTEL_EXPORTER_OTLP_PROTOCOL"] == "http/json"
    assert found["OTEL_TRACES_EXPORTER"] == "otlp"
    assert found["OTEL_RESOURCE_ATTRIBUTES"].startswith("team=a,")
    assert "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" not in found


WAITS = """\
import signal, sys
signal.signal(signal.Signals[sys.argv[2]], lambda number, frame: sys.exit(9))
open(sys.argv[1], "w").close()
while True:
    signal.pause()
"""


@pytest.mark.parametrize("name", rest_long(["SIGTERM", "SIGINT"], ["SIGTERM"]))
def test_signals_are_passed_on(rule: str, tmp_path: Path, name: str) -> None:
    begun = tmp_path / "begun"
    words = [PYTHON, "-m", "tracegrade", "check", "--rules", rule, "--", PYTHON, "-c", WAITS, str(begun), name]
    # In a session of its own, so that no terminal sends signals as well.
    with subprocess.Popen(words, start_new_session=True, stderr=subprocess.PIPE, text=True) as started:
        try:
            eventually(begun.exists, "the command")
            started.send_signal(signal.Signals[name])
            assert started.wait(WITHIN_S) == 9
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)


def test_a_command_that_a_signal_ends_has_the_code_that_shells_give_it(check: Check, rule: str) -> None:
    done = check("--rules", rule, "--", PYTHON, "-c", "import os; os.kill(os.getpid(), 15)")
    assert done.returncode == 128 + 15


def test_what_a_killed_check_received_is_removed_by_the_next(
    check: Check, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is left by a process that is killed: see test_temporary_folder.py."""
    left = tmp_path / "temporary" / "tracegrade-check-left"
    left.mkdir(mode=0o700, parents=True)
    (left / "request").write_bytes(b"a value")
    monkeypatch.setattr(tempfile, "tempdir", str(left.parent))
    check("--rules", rule, "--", PYTHON, "-c", "")
    assert list(left.parent.iterdir()) == []
