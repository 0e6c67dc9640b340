"""What of the calls made cannot be read."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from tracegrade.evaluate.call_facts import arguments
from tracegrade.evaluate.evidence import CallPart, Evidence, Score
from tracegrade.evaluate.not_evaluable_reasons import sentence
from tracegrade.model.json_value import JsonValue
from tracegrade.model.range import Range
from tracegrade.model.stand_ins import holds_hash, holds_mask, holds_open, is_masked, is_unknown
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.tri import Unknown, UnknownKind, UnknownPart

C = TypeVar("C")  # criteria
S = TypeVar("S")  # settings

IN_PART = frozenset({"masked", "hashed"})
"""The kinds of which matchers tell what follows from the rest, which can be read."""
REDACTED_IN_PART = IN_PART | {"open"}


def of_call(kind: UnknownKind, part: UnknownPart, position: int, call: ToolCall) -> Unknown:
    """That a part of the call at `position` cannot be read."""
    return Unknown(kind, part, position, call.name, call.span_id)


def unknown_arguments(evidence: Evidence) -> Mapping[int, Unknown]:
    """The calls of whose arguments something cannot be read, by position; for `Evidence.once`."""
    return _unknown(evidence, "arguments")


def unknown_outputs(evidence: Evidence) -> Mapping[int, Unknown]:
    """The same of outputs. A failed call needs none: its error is its result. A text is a good output."""
    return _unknown(evidence, "output")


def unknown_parts(evidence: Evidence, part: CallPart) -> Mapping[int, Unknown]:
    """The calls of which something in `part` cannot be read, by position."""
    return evidence.once(unknown_arguments if part == "arguments" else unknown_outputs)


Arguments: TypeAlias = dict[str, JsonValue]


def arguments_or_unknown(evidence: Evidence) -> Sequence[Arguments | Unknown]:
    """The arguments of each call by name, or why they cannot be read; for `Evidence.once`.

    What stands beside masks and hashes can be read.
    """
    unknown = unreadable_parts(evidence, "arguments")
    given = evidence.once(arguments)
    return [unknown.get(position, args) for position, args in enumerate(given)] if unknown else given


def unreadable_parts(evidence: Evidence, part: CallPart) -> Mapping[int, Unknown]:
    """The calls of which `part` cannot be read as a whole, by position; none where a judgement is made by hand."""
    if evidence.as_given:
        return {}
    return {at: unknown for at, unknown in unknown_parts(evidence, part).items() if unknown.kind not in IN_PART}


def answer_or_unknown(evidence: Evidence) -> "JsonValue | Unknown":
    """The final answer, or why it cannot be read; one that was hashed can be compared."""
    answer = evidence.final_answer
    if answer is None and not evidence.as_given:
        return Unknown("absent", "final_answer")
    return Unknown("masked", "final_answer") if evidence.redacted and is_masked(answer) else answer


def unknown_failure(evidence: Evidence) -> Unknown | None:
    """The first call of which it is unknown whether it failed, since that may have been redacted."""
    if not evidence.redacted:
        return None
    hidden = next((position for position, call in enumerate(evidence.calls) if call.failure_hidden), None)
    return None if hidden is None else of_call("redacted", "failure", hidden, evidence.calls[hidden])


def redacted_names(evidence: Evidence) -> tuple[Unknown | None]:
    """The first call of a tool whose name was redacted, if any; for `Evidence.once`."""
    calls = enumerate(evidence.calls)
    hidden = (of_call("redacted", "name", position, call) for position, call in calls if is_unknown(call.raw_name))
    return (next(hidden, None),)


Judge: TypeAlias = Callable[[Evidence, C, S, bool], tuple[Score, Unknown | None]]
"""A score, and what is unknown of that on which it depends; optimistic, what is unknown is as expected, else it is not.
"""


def in_both_readings(judge: Judge[C, S]) -> Callable[[Evidence, C, S], Score]:
    """The score of an evaluator that pairs calls: a second one, in the optimistic reading, is the other end.

    An unknown call that is as expected may be paired with another one, and so move all others: what it adds to the
    score cannot be told from the pairs of the pessimistic reading. Where nothing is unknown there is one reading.
    """

    def score(evidence: Evidence, criteria: C, settings: S) -> Score:
        found, unknown = judge(evidence, criteria, settings, False)
        if unknown is None or found.score is None:
            return found
        other, of_other = judge(evidence, criteria, settings, True)
        if of_other is not None and not of_other.bounded:
            unknown = of_other
        return with_unknown(found, unknown, *(other.ends[:2] if other.score is not None else ()))

    return score


def with_unknown(score: Score, unknown: Unknown | None, *others: float) -> Score:
    """`score`, where what is `unknown` is not as expected, with a range up to `others`, what it is where it is.

    None: nothing is unknown. What is not ``bounded`` leaves any score open.
    """
    if unknown is None:
        return score
    ends = [*score.ends[:2], *others, *(() if unknown.bounded else (0.0, 1.0))]
    least, most, why = min(ends), max(ends), sentence(unknown)
    text = score.explanation if least == most else f"{score.explanation} The score may be up to {most:.4g}: {why}."
    return Score(least, score.details, text, range=Range(least, most, why), pairing=score.pairing)


def undecided(unknown: Unknown, details: dict[str, JsonValue] | None = None) -> Score:
    """No score, as all depends on what is unknown."""
    why = sentence(unknown)
    return Score(None, details, why, range=Range(0.0, 1.0, why))


def _unknown(evidence: Evidence, part: CallPart) -> Mapping[int, Unknown]:
    found: dict[int, Unknown] = {}
    for position, call in enumerate(evidence.calls):
        kind: UnknownKind | None = call.lack_of(part, in_part=evidence.redacted)
        if kind is None and evidence.redacted:
            kind = _redacted_in(call.arguments if part == "arguments" else call.output)
        if kind is not None:
            found[position] = of_call(kind, part, position, call)
    return found


def _redacted_in(value: JsonValue) -> UnknownKind | None:
    """What of a value was redacted: members may lack, else something was masked, else something was hashed."""
    if holds_open(value):
        return "open"
    if holds_mask(value):
        return "masked"
    return "hashed" if holds_hash(value) else None
