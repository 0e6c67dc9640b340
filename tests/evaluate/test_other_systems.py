"""Each line of the table of other systems, judged: what stands there gives the scores that they give."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from build import call, each
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.rule.rule import Rule


@cache
def lines() -> list[Any]:
    found: list[Any] = yaml.safe_load((Path(__file__).parent / "other_systems.yaml").read_text(encoding="utf-8"))
    return found


def test_every_system_has_lines_and_what_cannot_be_said_says_why() -> None:
    first = ["promptfoo", "Mastra", "BFCL", "pydantic-evals", "DeepEval"]
    others = ["ADK", "Strands", "agentevals", "MLflow", "Ragas", "Vertex AI", "AgentCore", "Azure AI Evaluation"]
    assert list(dict.fromkeys(line["system"] for line in lines())) == first + others
    for line in lines():
        assert bool(line["here"]) == bool(line.get("scores")), line["there"]
        assert line["here"] or line["but"]


@each("line", lambda: [line for line in lines() if line["here"]], ids=lambda line: line["system"] + line["there"])
def test_a_line_scores_as_the_other_system(line: Any) -> None:
    rule = Rule.model_validate({"id": "line", "evaluate": line["here"]})
    found, expected = [], []
    for example in line["scores"]:
        made = [{"name": item} if isinstance(item, str) else item for item in example["calls"]]
        evidence = Evidence([call(item["name"], item.get("args", {}), failed=item.get("failed")) for item in made])
        # The items of a rule must all pass.
        found.append(
            min(spec.evaluator.evaluate(evidence, spec.criteria, spec.settings).score for spec in rule.evaluate)
        )
        expected.append(example["is"])
    assert found == pytest.approx(expected, abs=0.005)  # some round to two decimals
    # A line that is always the same would show nothing; of maxSteps only the score within is known.
    assert len(set(expected)) > 1 or line["there"] == "`maxSteps`"
