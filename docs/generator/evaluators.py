"""One page an evaluator: what it judges, every field, and examples that are judged while the page is written."""

import ast
import importlib
import inspect
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from generator.cases import flow, judged
from generator.fields import Row, field_rows
from tracegrade.cli.output import markdown_table
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.registry import EVALUATORS, PLACES

FOLDER = Path(__file__).resolve().parents[1] / "reference" / "evaluators"
_COLUMNS = ("field", "takes", "default", "meaning")
# Of the settings: in a rule, `name` is that of the evaluation, and criteria always stand there.
_NOT_IN_RULES = {"description", "name", "default_evaluation_criteria"}
_BY_HAND = "These are for `tracegrade evaluate` alone, which takes them in its `--config`:\n"
_READS = {"arguments": "their arguments", "output": "their outputs", "final_answer": "the final answer"}


def pages() -> dict[Path, str]:
    """Every evaluator's page, by its file."""
    return {FOLDER / f"{name}.md": page(evaluator) for name, evaluator in EVALUATORS.items()}


def page(evaluator: Evaluator[Any, Any]) -> str:
    """The page of one evaluator."""
    about = _about(evaluator)
    expected, settings = field_rows(evaluator.Criteria), field_rows(evaluator.Settings)
    by_hand = [row for row in settings if row[0] in _NOT_IN_RULES]
    parts = [
        f"<!-- Written by docs/generate.py from the code and from {evaluator.name}.yaml. -->\n",
        f"# {evaluator.name}\n",
        f"{evaluator.summary}\n",
        *([f"{about}\n"] if about else []),
        "## What is expected\n",
        _table(expected, "Nothing."),
        "## Settings\n",
        _table([row for row in settings if row[0] not in _NOT_IN_RULES], "None of its own."),
        "Every item of `evaluate` also takes [`name`, `threshold` and `matchers`](index.md).\n",
        *([_BY_HAND, _table(by_hand, "")] if by_hand else []),
        "## What it reads\n",
        f"{_reads(evaluator)}\n",
        "## Examples\n",
        *(_example(evaluator, example) for example in examples(evaluator.name)),
    ]
    return "\n".join(parts).rstrip("\n") + "\n"


def examples(name: str) -> list[dict[str, Any]]:
    """The worked examples of an evaluator: ``title``, ``evaluate`` as in a rule, and what happened."""
    path = FOLDER / f"{name}.yaml"
    if not path.exists():
        raise SystemExit(f"{path}: not there; expected two examples of {name} at least, with different scores")
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def judge(evaluator: Evaluator[Any, Any], example: dict[str, Any]) -> dict[str, Any]:
    """What ``tracegrade evaluate`` says of an example."""
    settings = evaluator.Settings.model_fields
    given = {key: value for key, value in example["evaluate"].items() if key not in ("threshold", "matchers")}
    case = {
        **{key: value for key, value in example.items() if key not in ("title", "evaluate")},
        "evaluator": evaluator.name,
        "config": {key: value for key, value in given.items() if key in settings},
        "criteria": {key: value for key, value in given.items() if key not in settings},
        "threshold": example["evaluate"].get("threshold", 1.0),
        "gate": True,
    }
    result = judged(case)
    if result["outcome"] == "error":
        raise ValueError(f"{evaluator.name}.yaml: {example['title']!r}: {result['error']['message']}")
    return result


def _about(evaluator: Evaluator[Any, Any]) -> str:
    """The text below the evaluator in its module, or that of the module without its first sentence, the summary."""
    module, _, attribute = PLACES[evaluator.name].partition(".")
    source = inspect.getsource(importlib.import_module(f"tracegrade.evaluate.evaluators.{module}"))
    tree = ast.parse(source)
    for assigned, below in pairwise(tree.body):
        match assigned, below:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(text))):
                if name == attribute:
                    return _as_markdown(inspect.cleandoc(text))
    first, _, rest = inspect.cleandoc(ast.get_docstring(tree) or "").partition("\n\n")
    sentence = first.partition(": ")[2].replace("\n", " ")
    beginning = (sentence[:1].upper() + sentence[1:]).removeprefix(evaluator.summary).strip()
    return _as_markdown(f"{beginning}\n\n{rest}")


def _as_markdown(text: str) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", text).strip()


def _table(rows: list[Row], otherwise: str) -> str:
    written = [(f"`{path}`", kind, default, meaning) for path, kind, default, meaning in rows]
    return (markdown_table(_COLUMNS, written) if rows else otherwise) + "\n"


def _reads(evaluator: Evaluator[Any, Any]) -> str:
    read = [text for key, text in _READS.items() if key in evaluator.reads | evaluator.asks]
    if not read:
        return "Of each call its name, and whether it failed."
    return (
        f"The names of calls, and {' and '.join(read)}. Where the outcome depends on something that was not recorded, "
        "was cut off or is masked, the evaluation is `not_evaluable` and says why."
    )


def _example(evaluator: Evaluator[Any, Any], example: dict[str, Any]) -> str:
    result = judge(evaluator, example)
    happened = {key: value for key, value in example.items() if key not in ("title", "evaluate")}
    score = "no score" if result["score"] is None else f"score {result['score']:.4g}"
    fields = [
        f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in result["details"].items()
    ]
    rule = _rule(evaluator.name, example["evaluate"])
    details = "{\n" + ",\n".join(fields) + "\n}"
    return (
        f"### {example['title']}\n\nIn the rule:\n\n```yaml\n{rule}```\n\nWhat happened:\n\n"
        f"```yaml\n{_yaml(happened)}```\n\n"
        f"Result: **{result['outcome']}**, {score}. {result['explanation']}\n"
        + (f"\n`details`:\n\n```json\n{details}\n```\n" if result["details"] else "")
    )


def _rule(name: str, given: dict[str, Any]) -> str:
    lines = [f"  - evaluator: {name}", *(f"    {key}: {flow(value)}" for key, value in given.items())]
    return "\n".join(["evaluate:", *lines]) + "\n"


def _yaml(value: dict[str, Any]) -> str:
    lines = []
    for key, inner in value.items():
        if isinstance(inner, list) and inner:
            lines += [f"{key}:", *(f"  - {flow(item)}" for item in inner)]
        else:
            lines.append(f"{key}: {flow(inner)}")
    return "\n".join(lines) + "\n"
