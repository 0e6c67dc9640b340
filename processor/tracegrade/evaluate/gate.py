"""Can these calls be judged at all? (promise 6)

Evaluators score what they are given: absent arguments are ``{}``, an absent output is ``""``. For production traces
that would turn "was not recorded" into 0.0, so this comes first: a call that the evaluator would compare and that
lacks what it reads makes the evaluation not_evaluable. Other calls do not matter, nor do expected calls that were never
made: a trace without calls is judged. A final answer that cannot be read is not.

Arguments are lacking when absent, text (no object), truncated or redacted; outputs when absent, truncated or redacted.
A failed call has no output: its error is its result, and that is known. A text is a good output. Where something in
them was masked or hashed, the rest can be read, and `unknown` says so: then, if what went makes a difference, the
result is unknown. Where members were dropped, they are lacking.

Where a value is expected from elsewhere (``$from``) and a source of it cannot be read, `doubt` says so: then, if it
would make a difference whether the value is there, the result is unknown.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tracegrade.evaluate.call_facts import Unknown, unknown_parts, unread_call
from tracegrade.evaluate.constraints.sides import Where
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import CallPart, Evidence, Score
from tracegrade.evaluate.wording import listed
from tracegrade.model.stand_ins import is_hashed, is_masked, is_unknown
from tracegrade.model.tool_call import ToolCall

_ONLY_THE_ANSWER = frozenset({"final_answer"})
_LACKING_ARGUMENTS = {
    "absent": "were not recorded",
    "text": "are not an object",
    "truncated": "were cut off by the sender",
    "redacted": "were redacted",
    "elsewhere": "are stored elsewhere",
}
_HASHED: dict[CallPart, str] = {
    "arguments": "an argument of a call was hashed, and can be compared with other hashes alone",
    "output": "the output of a call was hashed, and can be compared with other hashes alone",
}
_MASKED: dict[CallPart, str] = {
    "arguments": "the arguments of a call were redacted",
    "output": "the output of a call was redacted",
}
_LACKING_OUTPUT = {
    "absent": "was not recorded",
    "truncated": "was cut off by the sender",
    "redacted": "was redacted",
    "elsewhere": "is stored elsewhere",
}


def gate(evaluator: Evaluator[Any, Any], criteria: Any, settings: Any, evidence: Evidence) -> str | None:
    """Why the calls of `evidence` cannot be judged by `evaluator`, None when they can.

    Returns:
        One sentence that names the first call which lacks something, and its span; no values.

    Raises:
        EvaluatorError: ``no_criteria``, as `Evaluator.evaluate`.
    """
    if evidence.redacted and evaluator.reads != _ONLY_THE_ANSWER and (nameless := evidence.once(_nameless)):
        return nameless
    hidden = evidence.once(_failure_hidden) if evidence.redacted else ""
    if hidden and evaluator.reads_failures(evaluator.criteria_in_force(criteria, settings), settings):
        return hidden
    lacks: list[tuple[int, CallPart, str]] = []
    for what in evaluator.reads:
        if what != "final_answer":
            lacks += evidence.once(_LACKS[what])
        elif evidence.final_answer is None:
            return "the final answer cannot be read"
        elif evidence.redacted and is_masked(evidence.final_answer):
            return "the final answer was redacted"
    if (
        evidence.redacted
        and not evaluator.knows_unknown
        and (why := unknown(evaluator, criteria, settings, evidence)) is not None
    ):
        return why
    if not lacks:  # nearly always, so what is compared is asked for only now
        return None
    in_force = evaluator.criteria_in_force(criteria, settings)
    compared = {
        part: set(evaluator.compared(evidence, in_force, settings, part)) for part in {part for _, part, _ in lacks}
    }
    for position, part, why in sorted(lacks):
        if position in compared[part]:
            call = evidence.calls[position]
            return f"{why} ({listed([call.name])}, span {call.span_id})"
    return None


def _nameless(evidence: Evidence) -> str:
    """Which call is of a tool whose name was redacted, so that it may be of any; "" where none is."""
    for call in evidence.calls:
        if is_unknown(call.raw_name):
            return f"the name of a tool was redacted (span {call.span_id})"
    return ""


def _failure_hidden(evidence: Evidence) -> str:
    """Of which call nobody knows whether it failed, since what would say so was redacted; "" where none is."""
    return next((_hides_failure(call) for call in evidence.calls if call.failure_hidden), "")


def _hides_failure(call: ToolCall) -> str:
    return f"whether a call failed was redacted ({listed([call.name])}, span {call.span_id})"


def what_lacks(evidence: Evidence, position: int, parts: Collection[CallPart] = ("arguments", "output")) -> str | None:
    """Which of these parts of the call at `position` cannot be read, in words; None where all can."""
    lacks = (lack for part in parts for lack in evidence.once(_LACKS[part]))
    if (why := next((why for place, _, why in lacks if place == position), None)) is not None:
        return why
    found = evidence.once(unknown_parts)
    return next((_said(found[position, part], part) for part in parts if (position, part) in found), None)


def _said(what: Unknown, part: CallPart) -> str:
    return (_HASHED if what == "hashed" else _MASKED)[part]


def why_unknown(evidence: Evidence, position: int, conditions: Sequence[Where]) -> str | None:
    """Why it is unknown whether the call at `position` meets `conditions`; None where nothing that they look at is.

    What they look at cannot be read, or was hashed, or a call before that cannot be read may have given the value.

    Returns:
        One sentence that names the call; no values.
    """
    parts: list[CallPart] = ["arguments"] if any(where.args is not None for where in conditions) else []
    parts += ["output"] if any(where.output is not None for where in conditions) else []
    if (lack := what_lacks(evidence, position, parts)) is not None:
        call = evidence.calls[position]
        return f"{lack} ({listed([call.name])}, span {call.span_id})"
    call = evidence.calls[position]
    if call.failure_hidden and any(where.error is not None for where in conditions):
        return _hides_failure(call)
    if any(where.lacks_error(call, redacted=evidence.redacted) for where in conditions):
        return f"the error of a call cannot be read ({listed([call.name])}, span {call.span_id})"
    doubts = (flow.doubt(evidence, position) for where in conditions for flow in where.flows)
    return next(filter(None, doubts), None)  # which names the call that cannot be read


def doubt(evaluator: Evaluator[Any, Any], criteria: Any, settings: Any, evidence: Evidence) -> str | None:
    """Why a value that is expected from elsewhere may stand in what cannot be read, None when all can be read.

    Returns:
        One sentence that names what cannot be read; no values.

    Raises:
        EvaluatorError: ``no_criteria``, as `Evaluator.evaluate`.
    """
    in_force = criteria if criteria is not None else evaluator.criteria_in_force(criteria, settings)
    if not in_force.flows:  # nearly always
        return None
    positions: dict[int | None, None] = {}
    for part in evaluator.reads:
        if part == "final_answer":
            positions[None] = None
        else:
            positions.update(dict.fromkeys(evaluator.compared(evidence, in_force, settings, part)))
    found = (flow.doubt(evidence, position) for flow in in_force.flows for position in positions)
    return next((why for why in found if why is not None), None)


def unknown(evaluator: Evaluator[Any, Any], criteria: Any, settings: Any, evidence: Evidence) -> str | None:
    """Why a value may be what was expected though it is not: it was redacted. None where none was that is compared.

    Asked only where something was redacted.

    Returns:
        One sentence that names the first call with such a value; no values.

    Raises:
        EvaluatorError: ``no_criteria``, as `Evaluator.evaluate`.
    """
    found = evidence.once(unknown_parts)
    if not found and not is_hashed(evidence.final_answer):
        return None
    in_force = evaluator.criteria_in_force(criteria, settings)
    for part in evaluator.reads:
        if part == "final_answer":
            if is_hashed(evidence.final_answer):
                return "the final answer was hashed, and can be compared with other hashes alone"
            continue
        compared = set(evaluator.compared(evidence, in_force, settings, part))
        for (position, of), what in found.items():
            if of == part and position in compared:
                call = evidence.calls[position]
                return f"{_said(what, part)} ({listed([call.name])}, span {call.span_id})"
    return None


def open_by_unread(
    evaluator: Evaluator[Any, Any], criteria: Any, settings: Any, evidence: Evidence, score: Score, threshold: float
) -> str | None:
    """Why further calls, in work that could not be read, may change the outcome; None where they cannot.

    Returns:
        One sentence that names the span of that work.

    Raises:
        EvaluatorError: ``no_criteria``, as `Evaluator.evaluate`.
    """
    if score.score is None or (unread := unread_call(evidence)) is None:  # nearly always
        return None
    in_force = evaluator.criteria_in_force(criteria, settings)
    least, most = evaluator.with_further_calls(evidence, in_force, settings, score.score)
    if any(flow.looks_at_one for flow in in_force.flows):
        least, most = 0.0, 1.0
    return unread if Score(least, at_best=most).outcome(threshold) == "not_evaluable" else None


def _lacking_arguments(evidence: Evidence) -> list[tuple[int, CallPart, str]]:
    """The positions of the calls whose arguments cannot be judged, and why."""
    return _lacking(evidence, "arguments", "the arguments of a call", _LACKING_ARGUMENTS)


def _lacking_output(evidence: Evidence) -> list[tuple[int, CallPart, str]]:
    """The positions of the calls whose output cannot be judged, and why."""
    return _lacking(evidence, "output", "the output of a call", _LACKING_OUTPUT)


def _lacking(evidence: Evidence, part: CallPart, what: str, why: Mapping[str, str]) -> list[tuple[int, CallPart, str]]:
    unknown = evidence.once(unknown_parts)
    found: list[tuple[int, CallPart, str]] = []
    for position, call in enumerate(evidence.calls):
        lack = call.lack_of(part, in_part=evidence.redacted)
        if lack is None and unknown and unknown.get((position, part)) == "open":
            lack = "redacted"  # how many members there were is not known, and most evaluators ask for that
        if lack is not None:
            found.append((position, part, f"{what} {why[lack]}"))
    return found


_LACKS: dict[CallPart, Callable[[Evidence], list[tuple[int, CallPart, str]]]] = {
    "arguments": _lacking_arguments,
    "output": _lacking_output,
}
