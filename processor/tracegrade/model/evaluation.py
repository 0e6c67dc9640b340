"""The results of judging: evaluations, and one decision for every (subject, rule) pair."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeAlias

from tracegrade.model.field_schema import FLATTENED, FieldSpec, json_of
from tracegrade.model.json_value import JsonValue

# pass, fail: judged. not_evaluable: nothing there to judge, with a reason. error: judging failed, with a reason.
Outcome: TypeAlias = Literal["pass", "fail", "not_evaluable", "error"]
Measure: TypeAlias = Literal["tokens", "cost", "duration"]
DecisionKind: TypeAlias = Literal["evaluated", "not_matched", "sampled_out", "not_evaluable", "error"]

OUTCOMES: tuple[Outcome, ...] = ("pass", "fail", "not_evaluable", "error")
MEASURES: tuple[Measure, ...] = ("tokens", "cost", "duration")
"""What may be measured of a subject: tokens of its model calls, what these cost, and how long it took, in seconds."""

RULE_SENTENCE = "explain"
"""The key in the details of a fail of the sentence that its rule gives for it, with values."""

LIVE = "live"
"""The run of what a judge stored as it came in."""
BACKFILL = "backfill"
"""The run of results that `rules backtest --store` keeps: they stand in the row of the live trace that they judge."""


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

    tenant: Annotated[str, FieldSpec("the tenant of its trace")]
    run: Annotated[str, FieldSpec("`live`, or the run that judged")]
    trace_id: Annotated[str, FieldSpec("the trace id; of a session that of the trace which ended last")]
    revision: Annotated[int, FieldSpec("the revision of its trace that was judged")]
    close_reason: Annotated[str, FieldSpec("why its trace was closed")]
    complete: Annotated[bool, FieldSpec("whether nothing was missing; the others are left out of pass rates")]
    missing: Annotated[list[str], FieldSpec("what was missing")]
    release: Annotated[str | None, FieldSpec("its release")]
    kind: Annotated[str, FieldSpec("`agent`, `trace`, `session` or `tool-call`", "subject.kind")]
    id: Annotated[str, FieldSpec("what was judged", "subject.id", in_column="; unique together with `judged_id`")]
    span_id: Annotated[str, FieldSpec("the span that the result is attached to")]
    session: Annotated[str | None, FieldSpec("its conversation")]
    agent: Annotated[str, FieldSpec("its agent")]
    service: Annotated[str, FieldSpec("the subject's service")]
    time: Annotated[int, FieldSpec("the latest end of what was judged", is_time=True)]


@dataclass(slots=True)
class Pair:
    """One subject and one rule that judges it; ``probability`` is the chance with which this result is kept."""

    subject: Annotated[JudgedSubject, FLATTENED]
    rule_id: Annotated[
        str, FieldSpec("the rule", in_column="; null where this revision has no result, and replaces one that had")
    ]
    rule_hash: Annotated[str, FieldSpec("the rule's content")]
    level: Annotated[str, FieldSpec("how much a fail matters")]
    probability: Annotated[float, FieldSpec("the chance with which this result is kept (`sample`)")] = 1.0


Pairs: TypeAlias = int | Sequence[int | None]
"""A `Pairing` as it is stored: its positions, -1 for what was not asked; their number if each is at its own place."""

MAX_PAIRS = 1000
"""The most expected calls of one evaluation whose pairs are stored."""

_NOT_ASKED = -1


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

    @property
    def pairs(self) -> Pairs:
        """What is stored of it, of the first `MAX_PAIRS` expected calls."""
        positions, not_asked, _ = self
        if len(positions) > MAX_PAIRS:
            positions = positions[:MAX_PAIRS]
        if isinstance(positions, range):
            return len(positions)
        return (
            [_NOT_ASKED if index in not_asked else at for index, at in enumerate(positions)] if not_asked else positions
        )

    @classmethod
    def stored_as(cls, pairs: Pairs) -> "Pairing":
        """The pairing whose `pairs` these are."""
        if isinstance(pairs, int):
            return cls(range(pairs))
        if _NOT_ASKED not in pairs:
            return cls(pairs)
        not_asked = {index for index, at in enumerate(pairs) if at == _NOT_ASKED}
        return cls([None if at == _NOT_ASKED else at for at in pairs], not_asked)


_ERROR_TYPE = "; of an error only its type, unless values are included"


@dataclass(slots=True)
class Evaluation:
    """One evaluator's judgement of one subject.

    ``score`` is None unless the outcome is pass or fail. ``reason`` says why an evaluation is not_evaluable or error,
    "" otherwise. ``pairs`` are stored for the page, and neither sent nor part of the JSON; None where the evaluator
    expects no particular calls, without a score, and in results from before they were stored.
    """

    pair: Annotated[Pair, FLATTENED]
    id: Annotated[
        str,
        FieldSpec(
            "the evaluation's id",
            in_column="; null in the row of a decision without evaluations, as all that follows",
        ),
    ]
    evaluation: Annotated[str, FieldSpec("its name in the rule")]
    evaluator: Annotated[str, FieldSpec("the evaluator")]
    case: Annotated[str | None, FieldSpec("the case of the rule, if it has cases")]
    threshold: Annotated[float, FieldSpec("the score needed to pass")]
    score: Annotated[float | None, FieldSpec("the score; null unless `outcome` is pass or fail")]
    outcome: Annotated[
        Outcome,
        FieldSpec("`pass`, `fail`, `not_evaluable` or `error`"),
        FieldSpec("equals `outcome`", "label", column=None),
    ]
    reason: Annotated[str, FieldSpec("why it is not_evaluable, or the error", is_long=True, in_column=_ERROR_TYPE)]
    explanation: Annotated[
        str, FieldSpec("one sentence; of a fail the rule's own, if any", is_long=True, in_column=_ERROR_TYPE)
    ]
    details: Annotated[
        dict[str, JsonValue], FieldSpec("the evaluator's justification", is_value=True, in_column=" as JSON")
    ]
    pairs: Pairs | None = None

    JSON_ORDER: ClassVar = (
        *("id", "tenant", "run", "rule_id", "rule_hash", "evaluation", "evaluator", "case", "subject", "trace_id"),
        *("span_id", "session", "agent", "service", "release", "level", "score", "label", "threshold", "outcome"),
        *("reason", "explanation", "details", "close_reason", "complete", "missing", "revision", "probability", "time"),
    )

    @property
    def rule_id(self) -> str:
        """The rule that asked for it."""
        return self.pair.rule_id

    @property
    def pairing(self) -> Pairing | None:
        """Which calls made were counted as which expected calls."""
        return None if self.pairs is None else Pairing.stored_as(self.pairs)

    @property
    def subject(self) -> JudgedSubject:
        """What was judged."""
        return self.pair.subject

    @property
    def full_explanation(self) -> str:
        """The explanation with values, for those who may see the details, which hold them: see `RULE_SENTENCE`."""
        full = self.details.get(RULE_SENTENCE) if self.outcome == "fail" else None
        return full if isinstance(full, str) else self.explanation

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object."""
        return json_of(self) | {"explanation": self.full_explanation}


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
