"""The calls that a result of `constraints` names, for the trace's page: in words with links, and on the timeline."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from tracegrade.evaluate.evaluators import constraints
from tracegrade.model.evaluation import Decision, Evaluation


@dataclass(frozen=True, slots=True)
class NamedCall:
    """A call that a violation names: its tool, its number within the subject from 1, and its span."""

    name: str
    number: int
    span_id: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """One constraint: how often it was triggered and satisfied, and of each violation the calls, and the nearest miss.

    ``outcome`` is `not_evaluable` also where all violations may be none, since something could not be read.
    """

    text: str
    template: str
    triggered: int
    satisfied: int
    outcome: Literal["pass", "fail", "not_evaluable"]
    violations: list[tuple[list[NamedCall], NamedCall | None]]


def sentences(evaluation: Evaluation) -> list[Sentence]:
    """The constraints of an evaluation, as its details have them; none of another evaluator."""
    if evaluation.evaluator != constraints.EVALUATOR.name:
        return []
    found: Any = evaluation.details.get("constraints", [])
    return [
        Sentence(
            item["constraint"],
            item["template"],
            item["triggered"],
            item["satisfied"],
            _outcome(item),
            [
                (
                    [_call(call) for call in violation["calls"]],
                    _call(near) if (near := violation.get("nearest")) else None,
                )
                for violation in item["violations"]
            ],
        )
        for item in found
    ]


def named_spans(decisions: Iterable[Decision]) -> dict[str, list[str]]:
    """The rules of which a violated constraint names the call of a span, by the span's hex id."""
    found: dict[str, list[str]] = {}
    for decision in decisions:
        for evaluation in decision.evaluations:
            if evaluation.outcome != "fail":
                continue
            broken = [item for item in sentences(evaluation) if item.outcome == "fail"]
            for call in (call for item in broken for some, _ in item.violations for call in some):
                rules = found.setdefault(call.span_id, [])
                if decision.pair.rule_id not in rules:
                    rules.append(decision.pair.rule_id)
    return found


def _outcome(item: Any) -> Literal["pass", "fail", "not_evaluable"]:
    if any(not violation.get("unknown") for violation in item["violations"]):
        return "fail"
    return "not_evaluable" if item["violations"] or not item["triggered"] else "pass"


def _call(written: Any) -> NamedCall:
    return NamedCall(written["name"], written["call"], written["span_id"])
