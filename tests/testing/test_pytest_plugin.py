"""What the plugin loads, and when; and what becomes of the tracer provider of a process over several tests."""

import subprocess
import sys
from pathlib import Path

from build.code_files import write_rule

LOADED = """
import pytest, sys
before = set(sys.modules)
import tracegrade.pytest_plugin
print(sorted(name for name in set(sys.modules) - before))
"""


def test_the_plugin_loads_nothing_until_its_fixture_is_used() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout == "['tracegrade', 'tracegrade.pytest_plugin']\n"


PROVIDERS = """
import sys
import pytest
from pathlib import Path

LOADED = [name for name in sys.modules if name.startswith(("tracegrade.", "opentelemetry"))]


def test_nothing_was_loaded_for_tests_without_the_fixture(pytestconfig):
    assert LOADED == ["tracegrade.pytest_plugin"]


def run(tracer):
    with tracer.start_as_current_span("invoke_agent a") as span:
        span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"})


RULE = {"evaluator": "budget", "max_calls": 0}
KEPT = []


def test_a_provider_of_ours_is_in_force_where_none_is_set(tracegrade):
    from opentelemetry import trace

    KEPT.append(trace.get_tracer("kept"))
    run(KEPT[0])
    tracegrade.assert_passes(RULE)


def test_afterwards_none_is_set_and_nothing_is_recorded():
    from opentelemetry import trace

    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    assert not KEPT[0].start_span("x").is_recording()


def test_a_tracer_kept_from_an_earlier_test_is_collected(tracegrade):
    from opentelemetry import trace

    KEPT.append(trace.get_tracer("kept too"))
    run(KEPT[0])
    run(KEPT[1])
    tracegrade.assert_passes(RULE, runs=2)


def test_the_program_may_set_its_own_during_the_test(tracegrade, caplog):
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    own, exporter = TracerProvider(), InMemorySpanExporter()
    own.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(own)
    assert trace.get_tracer_provider() is own
    for tracer in (*KEPT, trace.get_tracer("new")):
        run(tracer)
    assert len(exporter.get_finished_spans()) == 3
    tracegrade.assert_passes(RULE, runs=3)
    assert not caplog.records
    trace.set_tracer_provider(TracerProvider())
    assert "Overriding of current TracerProvider is not allowed" in caplog.text


def test_it_stays_in_force_and_cannot_be_replaced_as_ever(caplog):
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    own = trace.get_tracer_provider()
    trace.set_tracer_provider(TracerProvider())
    assert trace.get_tracer_provider() is own
    assert "Overriding of current TracerProvider is not allowed" in caplog.text


def test_one_that_was_set_before_the_test_is_collected(tracegrade):
    from opentelemetry import trace

    run(trace.get_tracer("new"))
    run(KEPT[0])
    tracegrade.assert_passes(RULE, runs=2)


def test_log_records_come_with_their_spans(tracegrade):
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry._logs import LogRecord
    from opentelemetry import trace

    provider = LoggerProvider()
    with trace.get_tracer("new").start_as_current_span("x"):
        provider.get_logger("new").emit(LogRecord(event_name="gen_ai.user.message", body={"content": "hello"}))
    [judged] = tracegrade.judge("builtin:default").traces
    assert [record.event.name for record in judged.trace.log_records] == ["gen_ai.user.message"]


def test_rules_of_the_settings_hold_where_none_are_named(tracegrade):
    from opentelemetry import trace

    run(trace.get_tracer("new"))
    assert [rule.id for rule in tracegrade.judge().rules.rules] == ["of-the-settings"]
    tracegrade.assert_passes("of-the-settings")
"""
MADE_BEFORE = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

MADE_BEFORE = TracerProvider()


def test_one_that_was_made_before_the_test_and_is_set_during_it_is_collected(tracegrade):
    trace.set_tracer_provider(MADE_BEFORE)
    with trace.get_tracer("own").start_as_current_span("invoke_agent a") as span:
        span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"})
    assert trace.get_tracer_provider() is MADE_BEFORE
    tracegrade.assert_passes({"evaluator": "budget", "max_calls": 0})
"""
SETTINGS = """
[pytest]
tracegrade_rules = mine
tracegrade_allow_code = true
"""
RULE = "id: of-the-settings\nevaluate: [{evaluator: budget, max_calls: 0}]\n"


CODE = """
def test_code_beside_a_rule(tracegrade):
    from opentelemetry import trace

    with trace.get_tracer("new").start_as_current_span("invoke_agent a") as span:
        span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"})
    tracegrade.assert_passes("few", rules="code")
"""


def test_providers_and_settings_over_the_tests_of_a_process(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "rule.yaml").write_text(RULE)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    write_rule(tmp_path / "code")
    (tmp_path / "test_code.py").write_text(CODE)
    (tmp_path / "test_providers.py").write_text(PROVIDERS)
    output = pytest_output(tmp_path)
    assert "10 passed" in output, output


def test_without_settings_code_beside_a_rule_does_not_run_and_a_provider_may_be_made_before(tmp_path: Path) -> None:
    # The provider in a run of its own: a process takes one for ever.
    write_rule(tmp_path / "code")
    (tmp_path / "test_code.py").write_text(CODE)
    (tmp_path / "test_made_before.py").write_text(MADE_BEFORE)
    output = pytest_output(tmp_path)
    assert "1 failed, 1 passed" in output, output
    assert "./few_calls.py is code, which runs only with" in output


def pytest_output(folder: Path) -> str:
    """What pytest prints over the tests in `folder`, in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:anyio", "-p", "no:hypothesispytest", "-p", "no:xdist"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
