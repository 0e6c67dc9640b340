"""Rules as sentences: each with its constraint, a run that keeps to it and one that does not, judged while written."""

from pathlib import Path
from typing import Any

import yaml

from generator.cases import flow, judged, run_text

SENTENCES: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).resolve().parents[1] / "guides" / "constraints.yaml").read_text(encoding="utf-8")
)


def sentence_list(agent: str) -> str:
    """The sentences for an agent, each with its line and what it makes of two runs.

    Raises:
        ValueError: a run is not judged as it says.
    """
    return "\n\n".join(_sentence(number, each) for number, each in enumerate(SENTENCES[agent], 1))


def _sentence(number: int, each: dict[str, Any]) -> str:
    runs = []
    for key, outcome in (("kept", "pass"), ("broken", "fail")):
        found = judge(each["constraint"], each[key])
        if found["outcome"] != outcome:
            raise ValueError(f"docs/guides/constraints.yaml: {each['says']!r}: {key} is {found}, expected {outcome}")
        runs.append(f"- {key}: {run_text(each[key])}")
    line = f"```yaml\n- {flow(each['constraint'])}\n```"
    return f"**{number}. {each['says']}**\n\n{line}\n\n" + "\n".join(runs)


def judge(constraint: dict[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """What ``tracegrade evaluate`` says of these calls."""
    return judged({"evaluator": "constraints", "criteria": {"constraints": [constraint]}, "calls": calls, "gate": True})
