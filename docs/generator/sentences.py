"""Rules as sentences: each with its constraint, a run that keeps to it and one that does not, judged while written."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from click.testing import CliRunner

from generator.cases import flow, judged, run_text
from generator.recipes import steps_text
from tracegrade.cli import main
from tracegrade.history.new_rules.made_run import made_run
from tracegrade.history.new_rules.new_rule import trace_file

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
    line = f"```yaml\n- {_line(each['constraint'])}\n```"
    return f"**{number}. {each['says']}**\n\n{line}\n\n" + "\n".join(runs)


def _line(constraint: dict[str, Any]) -> str:
    """The constraint on one line, or a line for each key where a page has no room for one."""
    line = flow(constraint)
    return line if len(line) <= _ROOM else "\n  ".join(f"{key}: {flow(value)}" for key, value in constraint.items())


_ROOM = 78  # characters


def judge(constraint: dict[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """What ``tracegrade evaluate`` says of these calls."""
    return judged({"evaluator": "constraints", "criteria": {"constraints": [constraint]}, "calls": calls, "gate": True})


def rule_list(agent: str) -> str:
    """The sentences that take a whole rule, each with its rule and what it makes of two runs.

    Raises:
        ValueError: a run is not judged as it says.
    """
    return "\n\n".join(_rule(number, each) for number, each in enumerate(SENTENCES[agent], 1))


def _rule(number: int, each: dict[str, Any]) -> str:
    if (wrong := mistake_in_rule(each)) is not None:
        raise ValueError(f"docs/guides/constraints.yaml: {each['says']!r}: {wrong}")
    runs = [f"- {key}: {steps_text(each[key])}" for key in ("kept", "broken")]
    return f"**{number}. {each['says']}**\n\n```yaml\n{each['rule']}```\n\n" + "\n".join(runs)


def mistake_in_rule(each: dict[str, Any]) -> str | None:
    """What ``tracegrade rules test`` says of the rule and its two runs; None where they are judged as they say."""
    evaluated = yaml.safe_load(each["rule"])
    (item,) = evaluated.get("evaluate") or evaluated["then"]
    tests = []
    with TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "traces").mkdir()
        for key, outcome in (("kept", "pass"), ("broken", "fail")):
            trace = trace_file([made_run("example", "example", each[key])])
            (root / "traces" / f"{key}.json").write_text(trace, encoding="utf-8")
            tests.append({"description": key, "trace": f"{key}.json", "expect": {item["evaluator"]: outcome}})
        (root / "rule.yaml").write_text(yaml.safe_dump({"id": "a-sentence", "title": each["says"], **evaluated}))
        (root / "tests.yaml").write_text(yaml.safe_dump(tests))
        done = CliRunner().invoke(main, ["rules", "test", folder])
    return None if done.exit_code == 0 else done.output
