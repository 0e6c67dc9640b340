"""The rules of docs/guides/recipes.md judge the runs shown below them as the page says, by `tracegrade rules test`."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from docs.pages import Write, steps
from tracegrade.cli import main

FILES = {step.path: step for step in steps("guides/recipes.md") if isinstance(step, Write)}
RULES = sorted(path.partition("/")[0] for path in FILES if path.endswith("/rule.yaml"))


def test_there_are_ten_recipes_each_with_its_runs() -> None:
    assert len(RULES) == 10
    assert FILES.keys() == {f"{rule}/{name}" for rule in RULES for name in ("rule.yaml", "runs.yaml")}


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_fails_one_run_and_passes_the_other(rule: str, tmp_path: Path) -> None:
    FILES[f"{rule}/rule.yaml"].apply(tmp_path)
    folder = tmp_path / rule
    runs = yaml.safe_load(FILES[f"{rule}/runs.yaml"].text)
    assert list(runs) == ["fails", "passes"]
    (item,) = yaml.safe_load(FILES[f"{rule}/rule.yaml"].text)["evaluate"]
    (folder / "traces").mkdir()
    tests = []
    for name, outcome in (("fails", "fail"), ("passes", "pass")):
        (folder / "traces" / f"{name}.json").write_text(json.dumps(_request(runs[name])))
        tests.append({"description": name, "trace": f"{name}.json", "expect": {item["evaluator"]: outcome}})
    (folder / "tests.yaml").write_text(yaml.safe_dump(tests))
    done = CliRunner().invoke(main, ["rules", "test", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "2 passed, 0 failed" in done.output


def _request(run: list[dict[str, Any]]) -> dict[str, Any]:
    """One OTLP request: a trace for each turn, an agent span with its calls in each."""
    turns: list[list[dict[str, Any]]] = [[]]
    for step in run:
        if "turn" in step:
            turns.append([])
        else:
            turns[-1].append(step)
    spans = [span for number, steps in enumerate(turns, 1) for span in _turn(number, steps)]
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "recipes"}, "spans": spans}]}]}


def _turn(number: int, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answer = "".join(step.get("answer", "") for step in steps)
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "help",
        "gen_ai.conversation.id": "c-1",
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]),
    }
    calls = [
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": step["tool"],
            "gen_ai.tool.call.arguments": json.dumps(step.get("args", {})),
            "gen_ai.tool.call.result": json.dumps(step.get("output", "done")),
        }
        for step in steps
        if "tool" in step
    ]
    return [_span(number, place, attributes) for place, attributes in enumerate([agent, *calls])]


def _span(turn: int, place: int, attributes: dict[str, str]) -> dict[str, Any]:
    start_s = turn * 1000 + place
    return {
        "traceId": f"{turn:032x}",
        "spanId": f"{turn:08x}{place + 1:08x}",
        **({"parentSpanId": f"{turn:08x}{1:08x}"} if place else {}),
        "name": attributes["gen_ai.operation.name"],
        "startTimeUnixNano": str(start_s * 10**9),
        "endTimeUnixNano": str((start_s + (0 if place else 100)) * 10**9 + 5 * 10**8),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
