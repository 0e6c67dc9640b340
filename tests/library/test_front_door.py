import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import tracegrade
from build import each
from tracegrade.rule.load import builtin_rules

TRACES = builtin_rules() / "demo" / "order-steps-out-of-order" / "traces"
SERVERS = ("grpc", "starlette", "uvicorn", "sqlalchemy", "requests", "opentelemetry.sdk")


@each("name", tracegrade.__all__)
def test_every_name_at_the_front_door_leads_somewhere(name: str) -> None:
    assert getattr(tracegrade, name).__name__ in (name, "judge")


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'tracegrade' has no attribute 'evaluate_traces'"):
        _ = tracegrade.evaluate_traces


def test_a_trace_in_a_file_is_judged() -> None:
    rules = tracegrade.load_rules(["builtin:order-steps-out-of-order"])
    (trace,) = tracegrade.read_traces([str(TRACES / "ordered_before_validated.json")], rules)
    (evaluation,) = tracegrade.evaluate_trace(trace, rules).evaluations
    assert (evaluation.rule_id, evaluation.outcome) == ("order-steps-out-of-order", "fail")


def test_attributes_that_only_a_rule_reads_are_kept(tmp_path: Path) -> None:
    rule = tmp_path / "one.rule.yaml"
    rule.write_text(
        dedent("""\
        id: gold-order-without-validation
        title: A gold customer's order was not validated
        status: experimental
        level: low
        scope: agent
        match: {attributes: {tenant.tier: gold}}
        evaluate: [{evaluator: tool-call-count, tool_calls_count: {validate_user: ['>=', 1]}}]
        """)
    )
    span = (
        '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c",'
        '"spanId":"b7ad6b7169203331","name":"run","kind":1,"startTimeUnixNano":"1","endTimeUnixNano":"2",'
        '"attributes":[{"key":"tenant.tier","value":{"stringValue":"gold"}}]}]}]}]}'
    )
    (tmp_path / "trace.json").write_text(span)
    rules = tracegrade.load_rules([rule])
    (trace,) = tracegrade.read_traces([str(tmp_path / "trace.json")], rules)
    assert [evaluation.outcome for evaluation in tracegrade.evaluate_trace(trace, rules).evaluations] == ["fail"]


def test_judging_loads_no_server() -> None:
    program = f"""
        import sys
        import tracegrade
        rules = tracegrade.load_rules(["builtin:demo"])
        for trace in tracegrade.read_traces([{str(TRACES)!r}], rules):
            assert tracegrade.evaluate_trace(trace, rules).extraction.trace is trace
        print([name for name in {SERVERS!r} if name in sys.modules])
        """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
