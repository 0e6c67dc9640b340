"""The matchers: what each takes, when it holds, and an example that is judged while the table is written."""

from pathlib import Path
from typing import Any

import yaml

from generator.cases import flow, judged
from tracegrade.cli.output import markdown_table
from tracegrade.evaluate.criteria.registry import MATCHERS_BY_WORD

EXAMPLES: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).resolve().parents[1] / "reference" / "matchers.yaml").read_text(encoding="utf-8")
)
_LITERAL = ("any value", "the value is equal to that, whatever its keys")


def matcher_table() -> str:
    """The matchers, and when each holds."""
    meanings = {word: (matcher.argument, matcher.summary) for word, matcher in MATCHERS_BY_WORD.items()}
    rows = [(f"`{word}`", *meaning) for word, meaning in {**meanings, "$literal": _LITERAL}.items()]
    return markdown_table(("matcher", "takes", "holds when"), rows)


def example_table() -> str:
    """An example of each.

    Raises:
        LookupError: a matcher without an example.
        ValueError: an example that is not judged as it says.
    """
    if missing := {*MATCHERS_BY_WORD, "$literal"} - set(EXAMPLES):
        raise LookupError(f"docs/reference/matchers.yaml: give an example of {', '.join(sorted(missing))}")
    rows = []
    for word, example in EXAMPLES.items():
        if not example.get("needs_model"):
            for key, score in (("met_by", 1.0), ("not_met_by", 0.0)):
                if (found := judge(example, example[key])) != score:
                    raise ValueError(f"docs/reference/matchers.yaml: {word}: {key} scores {found}, expected {score}")
        before = example.get("before", [])
        after = f", after `{flow(before[0]['name'])}` gave `{flow(before[0]['output'])}`" if before else ""
        met, missed = (f"`{flow(example[key])}`" for key in ("met_by", "not_met_by"))
        rows.append((f"`{flow(example['expected'])}`", met + after, missed))
    return markdown_table(("expected arguments", "are met by", "and not by"), rows)


def judge(example: dict[str, Any], arguments: dict[str, Any]) -> float | None:
    """The score that ``tracegrade evaluate`` gives a call with these arguments."""
    case = {
        "evaluator": "tool-call-args",
        "criteria": {"tool_calls": [{"name": "call", "args": example["expected"]}]},
        "calls": [*example.get("before", []), {"name": "call", "args": arguments}],
    }
    score: float | None = judged(case)["score"]
    return score
