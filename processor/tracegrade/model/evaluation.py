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


def evaluation_id(
    *,
    tenant: str,
    run: str,
    trace_id: str,
    subject_kind: str,
    subject_id: str,
    rule_id: str,
    rule_hash: str,
    evaluation: str,
    case_id: str | None,
    revision: int,
) -> str:
    """The id of an evaluation: 32 hex digits, a hash of what makes it this one and no other (promise 4).

    The trace id is part of it because span ids, which most subject ids are, are unique within a trace only.
    """
    # NUL cannot be in any part: all come from YAML or OTLP text where it is refused or hex.
    text = "\0".join(
        (tenant, run, trace_id, subject_kind, subject_id, rule_id, rule_hash, evaluation, case_id or "", str(revision))
    )
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(slots=True)
class Evaluation:
    """One evaluator's judgement of one subject, by the keys that JSON shows everywhere.

    ``score`` is None unless the outcome is pass or fail. ``label`` equals the outcome. ``reason`` says why an
    evaluation is not_evaluable or error, "" otherwise. ``details`` is the evaluator's justification. ``probability``
    is the chance with which the subject was sampled. ``time`` is the judged subject's latest end, ns since 1970 UTC.
    """

    id: str
    tenant: str
    run: str
    rule_id: str
    rule_hash: str
    evaluation: str
    evaluator: str
    case: str | None
    subject_kind: str
    subject_id: str
    trace_id: str
    span_id: str  # hex id of the span the result is attached to
    session: str | None
    agent: str
    service: str
    release: str | None
    level: str
    score: float | None
    label: str
    threshold: float
    outcome: Outcome
    reason: str
    explanation: str
    details: dict[str, JsonValue]
    close_reason: str
    complete: bool
    missing: list[str]
    revision: int
    probability: float
    time: int

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
