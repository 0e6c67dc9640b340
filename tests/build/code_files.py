"""Rules with an evaluator in a file beside them, written into a folder."""

import json
from pathlib import Path
from typing import Any

from build import trace
from tracegrade.judge import judge
from tracegrade.model.evaluation import Evaluation
from tracegrade.model.trace import Trace
from tracegrade.rule.rule_set import RuleSet

EVALUATOR = '''\
"""few-calls: are there at most so many calls?"""

from tracegrade.evaluate.evaluator import Evaluator, ParameterModel
from tracegrade.evaluate.evidence import Evidence, Score


class Criteria(ParameterModel):
    """What is expected."""

    most: int


class Settings(ParameterModel):
    """How it is compared."""


def score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    """1 up to the most, else 0."""
    found = len(evidence.calls)
    return Score(float(found <= criteria.most), {"calls": found}, f"There were {found} calls.")


EVALUATOR = Evaluator(name="few-calls", summary="Are there few?", Criteria=Criteria, Settings=Settings, score=score)
'''
RULE = """\
id: {id}
evaluate:
  - evaluator: {file}
    most: 1
"""


def write_rule(folder: Path, source: str | None = EVALUATOR, *, id: str = "few", file: str = "./few_calls.py") -> Path:
    """The rule's file; the evaluator's is beside it, with that `source` unless it is None."""
    folder.mkdir(parents=True, exist_ok=True)
    if source is not None:
        (folder / file).write_text(source, encoding="utf-8")
    path = folder / "rule.yaml"
    path.write_text(RULE.format(id=id, file=file), encoding="utf-8")
    return path


def changed(old: str, new: str) -> str:
    """The evaluator with other text in one place."""
    assert old in EVALUATOR
    return EVALUATOR.replace(old, new)


def trace_of(*arguments: dict[str, Any]) -> Trace:
    """A trace in which a tool is called with each of these arguments."""
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}
    given = [{"gen_ai.tool.call.arguments": json.dumps(each)} for each in arguments]
    return trace([{"id": number, "attributes": tool | each} for number, each in enumerate(given, 1)])


def judged(rule_set: RuleSet, calls: int = 2) -> list[Evaluation]:
    """What the rules say of a trace in which a tool is called so often."""
    return judge(trace_of(*[{}] * calls), rule_set).evaluations
