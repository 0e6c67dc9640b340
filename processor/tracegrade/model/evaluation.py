"""What came of judging: evaluations, and one decision for every (subject, rule) pair."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, TypeAlias

from tracegrade.model.json_value import JsonValue

# pass, fail: judged. not_evaluable: nothing there to judge, with a reason. error: judging failed, with a reason.
Outcome: TypeAlias = Literal["pass", "fail", "not_evaluable", "error"]
DecisionKind: TypeAlias = Literal["evaluated", "not_matched", "sampled_out", "not_evaluable", "error"]


def pair_key(
    *, tenant: str, run: str, trace_id: str, subject_kind: str, subject_id: str, rule_id: str, rule_hash: str
) -> str:
    """What makes a (subject, rule) pair this one and no other: the part of its evaluations' ids that they share.

    The trace id is part of it because span ids, which most subject ids are, are unique within a trace only.
    """
    # NUL cannot be in any part: all come from YAML or OTLP text where it is refused or hex.
    return "\0".join((tenant, run, trace_id, subject_kind, subject_id, rule_id, rule_hash))


def evaluation_id(pair: str, evaluation: str, case_id: str | None, revision: int) -> str:
    """The id of an evaluation: 32 hex digits, a hash of what makes it this one and no other (promise 4).

    Args:
        pair: the `pair_key` of its subject and rule.
        evaluation: its name in the rule.
        case_id: the case that the rule was applied with, if any.
        revision: the trace's.
    """
    text = f"{pair}\0{evaluation}\0{case_id or ''}\0{revision}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(slots=True)
class Evaluation:
    """One evaluator's judgement of one subject, by the keys that JSON shows everywhere.

    ``score`` is None unless the outcome is pass or fail. ``label`` equals the outcome. ``reason`` says why an
    evaluation is not_evaluable or error, "" otherwise. ``details`` is the evaluator's justification. ``probability``
    is the chance with which the subject was sampled. ``time`` is the judged subject's latest end, ns since 1970 UTC.
    """

    # What all evaluations of one subject share comes first, then the rule's, then its own.
    tenant: str
    run: str
    trace_id: str
    subject_kind: str
    subject_id: str
    span_id: str  # hex id of the span the result is attached to
    session: str | None
    agent: str
    service: str
    release: str | None
    close_reason: str
    complete: bool
    missing: list[str]
    revision: int
    probability: float
    time: int
    rule_id: str
    rule_hash: str
    level: str
    case: str | None
    id: str
    evaluation: str
    evaluator: str
    threshold: float
    score: float | None
    label: str
    outcome: Outcome
    reason: str
    explanation: str
    details: dict[str, JsonValue]

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object: ``subject`` is ``{kind, id}``, all else by field name."""
        return {
            "id": self.id,
            "tenant": self.tenant,
            "run": self.run,
            "rule_id": self.rule_id,
            "rule_hash": self.rule_hash,
            "evaluation": self.evaluation,
            "evaluator": self.evaluator,
            "case": self.case,
            "subject": {"kind": self.subject_kind, "id": self.subject_id},
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "session": self.session,
            "agent": self.agent,
            "service": self.service,
            "release": self.release,
            "level": self.level,
            "score": self.score,
            "label": self.label,
            "threshold": self.threshold,
            "outcome": self.outcome,
            "reason": self.reason,
            "explanation": self.explanation,
            "details": self.details,
            "close_reason": self.close_reason,
            "complete": self.complete,
            "missing": list(self.missing),
            "revision": self.revision,
            "probability": self.probability,
            "time": self.time,
        }


# What may differ between two runs over the same spans and rules.
_RUN_DEPENDENT = ("id", "run", "revision", "close_reason", "time")


def canonical_line(evaluation: Mapping[str, JsonValue]) -> str:
    """One line of a run's canonical results: `Evaluation.to_json` without what depends on the run, keys sorted."""
    kept = {key: value for key, value in evaluation.items() if key not in _RUN_DEPENDENT}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))


@dataclass(slots=True)
class Decision:
    """What became of one (subject, rule) pair.

    ``outcome`` is the rule's outcome on the subject when kind is evaluated (pass or fail), else None. ``reason`` is
    the clause that did not match, why it could not be evaluated, or the error.
    """

    rule_id: str
    rule_hash: str
    subject_kind: str
    subject_id: str
    kind: DecisionKind
    outcome: Outcome | None = None
    reason: str = ""
    evaluations: list[Evaluation] = field(default_factory=list)
