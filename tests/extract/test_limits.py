"""What senders do not write is not evaluable, and never a fail: over every case that shows a limit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from build import each, read_case, trace
from tracegrade.judge import judge
from tracegrade.model.tool_call import ToolCall
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet


def limited_cases() -> Iterator[Any]:
    for path in sorted(Path(__file__).parent.glob("*/*.yaml")):
        text = path.read_text(encoding="utf-8")
        if "limit" in text and "limit" in (case := read_case(text)):
            yield pytest.param(case, id=f"{path.parent.name}/{path.stem}")


def outcomes(case: dict[str, Any], evaluator: str, **criteria: Any) -> list[tuple[ToolCall, str | None]]:
    """What a rule that no call can pass says of each call."""
    rule = Rule.model_validate(
        {"id": "a-rule", "scope": "tool-call", "evaluate": [{"evaluator": evaluator, "threshold": 1.0, **criteria}]}
    )
    judgement = judge(trace(case["spans"]), RuleSet([rule]))
    calls = judgement.extraction.calls
    return [(call, judged.evaluations[0].outcome) for call, judged in zip(calls, judgement.decisions, strict=True)]


@each("case", limited_cases)
def test_what_was_not_written_is_not_evaluable(case: dict[str, Any]) -> None:
    limited = 0
    for name in {call["name"] for call in case["expected"]["calls"]}:
        wanted = [{"name": name, "args": {"never": "written"}}]
        for call, outcome in outcomes(case, "tool-call-args", tool_calls=wanted):
            lacks = call.arguments_status in ("absent", "text", "truncated", "redacted")
            if call.name == name:
                assert outcome == ("not_evaluable" if lacks else "fail")
                limited += lacks
        for call, outcome in outcomes(case, "tool-call-output", tool_outputs=[{"name": name, "output": "never said"}]):
            lacks = call.output_status in ("absent", "truncated", "redacted")
            if call.name == name:
                knows = call.failed and call.output_status == "absent"  # its error is its result
                assert outcome == ("not_evaluable" if lacks and not knows else "fail")
                limited += lacks
    assert limited
