"""The results of judging: evaluations, and one decision for every (subject, rule) pair."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

from tracegrade.model.json_value import JsonValue

# pass, fail: judged. not_evaluable: nothing there to judge, with a reason. error: judging failed, with a reason.
Outcome: TypeAlias = Literal["pass", "fail", "not_evaluable", "error"]
Measure: TypeAlias = Literal["tokens", "cost", "duration"]
DecisionKind: TypeAlias = Literal["evaluated", "not_matched", "sampled_out", "not_evaluable", "error"]

OUTCOMES: tuple[Outcome, ...] = ("pass", "fail", "not_evaluable", "error")
MEASURES: tuple[Measure, ...] = ("tokens", "cost", "duration")
"""What may be measured of a subject: tokens of its model calls, what these cost, and how long it took, in seconds."""


def subject_key(tenant: str, run: str, trace_id: str, kind: str, id: str) -> "blake2b":
    """What makes a subject this one and no other: what the ids of all its evaluations share.

    The trace id is part of it because span ids, which most subject ids are, are unique within a trace only; it is ""
    for a session.
    """
    # NUL cannot be in any part of an id: all come from YAML or OTLP text where it is refused or hex.
    text = f"{tenant}\0{run}\0{trace_id}\0{kind}\0{id}\0"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)


def pair_key(subject: "blake2b", rule_id: str, rule_hash: str, revision: int) -> "blake2b":
    """What makes a (subject, rule) pair in one revision this one and no other: what its evaluations' ids share.

    Args:
        subject: the `subject_key`; not changed.
        rule_id: of the rule.
        rule_hash: of its content.
        revision: of the trace.
    """
    key = subject.copy()
    key.update(f"{rule_id}\0{rule_hash}\0{revision}\0".encode())
    return key


def evaluation_id(pair: "blake2b", evaluation: str, case_id: str | None) -> str:
    """The id of an evaluation: 32 hex digits, a hash of what makes it this one and no other (promise 4).

    Args:
        pair: the `pair_key` of its subject and rule; not changed.
        evaluation: its name in the rule.
        case_id: the case that the rule was applied with, if any.
    """
    key = pair.copy()
    key.update((f"{evaluation}\0{case_id}" if case_id else evaluation).encode("utf-8", "surrogatepass"))
    return key.hexdigest()


@dataclass(slots=True)
class JudgedSubject:
    """What all results for one subject of one trace share; of a session, with the trace of it that ended last.

    ``span_id`` (hex) is the span that results are attached to, ``time`` the subject's latest end, ns since 1970 UTC;
    ``service`` is the subject's own, which in a trace of several services need not be the root's.
    """

    tenant: str
    run: str
    trace_id: str
    revision: int
    close_reason: str
    complete: bool
    missing: list[str]
    release: str | None
    kind: str
    id: str
    span_id: str
    session: str | None
    agent: str
    service: str
    time: int


@dataclass(slots=True)
class Pair:
    """One subject and one rule that judges it; ``probability`` is the chance with which this result is kept."""

    subject: JudgedSubject
    rule_id: str
    rule_hash: str
    level: str
    probability: float = 1.0


class Pairing(NamedTuple):
    """Which call made was counted as which expected call: positions alone, never values.

    Attributes:
        positions: by the index of the expected call, the position among the calls judged of the call paired with it;
            None for none. A list, or where each is paired with the call at its own place, a range.
        not_asked: the indexes of expected calls that nothing asked for as things went, such as those of a branch that
            was not chosen.
        more: how many more pairs there may be, where it took too much work to see; not stored.
    """

    positions: Sequence[int | None]
    not_asked: Set[int] = frozenset()
    more: float = 0

    @classmethod
    def of(cls, size: int, pairs: Iterable[tuple[int, int]], not_asked: Set[int] = frozenset()) -> "Pairing":
        """The (index, position) `pairs`, where so many calls are expected."""
        positions: list[int | None] = [None] * size
        for index, position in pairs:
            positions[index] = position
        return cls(positions, not_asked)


MAX_PAIRS = 1000
"""The most expected calls of one evaluation whose pairs are stored."""


@dataclass(slots=True)
class Evaluation:
    """One evaluator's judgement of one subject.

    ``score`` is None unless the outcome is pass or fail. ``reason`` says why an evaluation is not_evaluable or error,
    "" otherwise. ``details`` is the evaluator's justification. ``pairing`` is stored for the page, of the first
    `MAX_PAIRS` expected calls, and neither sent nor part of the JSON; None where the evaluator expects no particular
    calls, without a score, and in results from before it was stored.
    """

    pair: Pair
    id: str
    evaluation: str
    evaluator: str
    case: str | None
    threshold: float
    score: float | None
    outcome: Outcome
    reason: str
    explanation: str
    details: dict[str, JsonValue]
    pairing: Pairing | None = None

    @property
    def rule_id(self) -> str:
        """The rule that asked for it."""
        return self.pair.rule_id

    @property
    def subject(self) -> JudgedSubject:
        """What was judged."""
        return self.pair.subject

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object; ``label`` equals the outcome."""
        pair, subject = self.pair, self.pair.subject
        return {
            "id": self.id,
            "tenant": subject.tenant,
            "run": subject.run,
            "rule_id": pair.rule_id,
            "rule_hash": pair.rule_hash,
            "evaluation": self.evaluation,
            "evaluator": self.evaluator,
            "case": self.case,
            "subject": {"kind": subject.kind, "id": subject.id},
            "trace_id": subject.trace_id,
            "span_id": subject.span_id,
            "session": subject.session,
            "agent": subject.agent,
            "service": subject.service,
            "release": subject.release,
            "level": pair.level,
            "score": self.score,
            "label": self.outcome,
            "threshold": self.threshold,
            "outcome": self.outcome,
            "reason": self.reason,
            "explanation": self.explanation,
            "details": self.details,
            "close_reason": subject.close_reason,
            "complete": subject.complete,
            "missing": list(subject.missing),
            "revision": subject.revision,
            "probability": pair.probability,
            "time": subject.time,
        }


@dataclass(slots=True)
class Decision:
    """The decision on one (subject, rule) pair.

    ``outcome`` is the rule's outcome on the subject when kind is evaluated (pass or fail), else None. ``reason`` is
    the clause that did not match, why it could not be evaluated, or the error. ``evaluations`` are in the rule's order.
    ``measured`` is what the rule's alerts watch beside outcomes; None of what is not known.
    """

    pair: Pair
    kind: DecisionKind
    outcome: Outcome | None
    reason: str
    evaluations: list[Evaluation]
    measured: tuple[tuple[Measure, float | None], ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """The decision as a JSON object, without its evaluations."""
        pair = self.pair
        return {
            "rule_id": pair.rule_id,
            "rule_hash": pair.rule_hash,
            "subject_kind": pair.subject.kind,
            "subject_id": pair.subject.id,
            "kind": self.kind,
            "outcome": self.outcome,
            "reason": self.reason,
        }
