"""Can these calls be judged at all? (promise 6)

Evaluators score what they are given: absent arguments are ``{}``, an absent output is ``""``. For production traces
that would turn "was not recorded" into 0.0, so this comes first: a call that the evaluator would compare and that
lacks what it reads makes the evaluation not_evaluable. Other calls do not matter, nor do expected calls that were never
made: a trace without calls is judged. A final answer that cannot be read is not.

Arguments are lacking when absent, text (no object), truncated or redacted; outputs when absent, truncated or redacted.
A failed call has no output: its error is its result, and that is known. A text is a good output.

Where a value is expected from elsewhere (``$from``) and a source of it cannot be read, `doubt` says so: then, if it
would make a difference whether the value is there, the result is unknown.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from tracegrade.evaluate.call_facts import hashed_parts
from tracegrade.evaluate.constraints.sides import Where
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import CallPart, Evidence
from tracegrade.evaluate.wording import listed
from tracegrade.model.stand_ins import is_hashed, is_masked, is_stand_in

_LACKING_ARGUMENTS = {
    "absent": "were not recorded",
    "text": "are not an object",
    "truncated": "were cut off by the sender",
    "redacted": "were redacted",
}
_HASHED: dict[CallPart, str] = {
    "arguments": "an argument of a call was hashed, and can be compared with other hashes alone",
    "output": "the output of a call was hashed, and can be compared with other hashes alone",
}
_LACKING_OUTPUT = {
    "absent": "was not recorded",
    "truncated": "was cut off by the sender",
    "redacted": "was redacted",
}


def gate(evaluator: Evaluator[Any, Any], criteria: Any, settings: Any, evidence: Evidence) -> str | None:
    """Why the calls of `evidence` cannot be judged by `evaluator`, None when they can.

    Returns:
        One sentence that names the first call which lacks something, and its span; no values.

    Raises:
        EvaluatorError: ``no_criteria``, as `Evaluator.evaluate`.
    """
    if evaluator.reads != {"final_answer"} and (nameless := evidence.once(_nameless)):
        return nameless
    lacks: list[tuple[int, CallPart, str]] = []
    for what in evaluator.reads:
        if what != "final_answer":
            lacks += evidence.once(_LACKS[what])
        elif evidence.final_answer is None:
            return "the final answer cannot be read"
        elif evidence.redacted and is_masked(evidence.final_answer):
            return "the final answer was redacted"
    if not evaluator.knows_hashes and (why := hashed(evaluator, criteria, settings, evidence)) is not None:
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
    for call in evidence.calls if evidence.redacted else ():
        if is_stand_in(call.raw_name):
            return f"the name of a tool was redacted (span {call.span_id})"
    return ""


def what_lacks(evidence: Evidence, position: int, parts: Collection[CallPart] = ("arguments", "output")) -> str | None:
    """Which of these parts of the call at `position` cannot be read, in words; None where all can."""
    lacks = (lack for part in parts for lack in evidence.once(_LACKS[part]))
    if (why := next((why for place, _, why in lacks if place == position), None)) is not None or not evidence.redacted:
        return why
    found = evidence.once(hashed_parts)
    return next((_HASHED[part] for part in parts if (position, part) in found), None)


def what_was_redacted(evidence: Evidence, position: int, parts: Collection[CallPart]) -> str | None:
    """Which of these parts of the call at `position` was redacted, in words with the call; None where none was.

    What is absent counts as redacted where something of the trace was: it may have been dropped.
    """
    call = evidence.calls[position]
    for part in parts if evidence.redacted else ():
        status = call.arguments_status if part == "arguments" else call.output_status
        if status in ("redacted", "absent") and (why := what_lacks(evidence, position, [part])) is not None:
            return f"{why} ({listed([call.name])}, span {call.span_id})"
    return None


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
    doubts = (flow.doubt(evidence, position) for where in conditions for flow in where.flows)
    if (why := next(filter(None, doubts), None)) is not None:
        return why  # which names the call that cannot be read
    hashed = (part for place, part in evidence.once(hashed_parts) if place == position and part in parts)
    return next((hashed_in(evidence, position, part) for part in hashed), None)


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


def hashed_in(evidence: Evidence, position: int, part: CallPart) -> str:
    """That a part of the call at `position` was hashed, in words."""
    call = evidence.calls[position]
    return f"{_HASHED[part]} ({listed([call.name])}, span {call.span_id})"


def hashed(evaluator: Evaluator[Any, Any], criteria: Any, settings: Any, evidence: Evidence) -> str | None:
    """Why a value may be what was expected though it is not: it was hashed. None where none was that is compared.

    Returns:
        One sentence that names the first call with such a value; no values.

    Raises:
        EvaluatorError: ``no_criteria``, as `Evaluator.evaluate`.
    """
    if not evidence.redacted:  # nearly always
        return None
    found = evidence.once(hashed_parts)
    if not found and not is_hashed(evidence.final_answer):
        return None
    in_force = evaluator.criteria_in_force(criteria, settings)
    for part in evaluator.reads:
        if part == "final_answer":
            if is_hashed(evidence.final_answer):
                return "the final answer was hashed, and can be compared with other hashes alone"
            continue
        compared = set(evaluator.compared(evidence, in_force, settings, part))
        for position, of in found:
            if of == part and position in compared:
                return hashed_in(evidence, position, part)
    return None


def _lacking_arguments(evidence: Evidence) -> list[tuple[int, CallPart, str]]:
    """The positions of the calls whose arguments cannot be judged, and why."""
    return [
        (position, "arguments", f"the arguments of a call {why}")
        for position, call in enumerate(evidence.calls)
        if (why := _LACKING_ARGUMENTS.get(call.arguments_status))
    ]


def _lacking_output(evidence: Evidence) -> list[tuple[int, CallPart, str]]:
    """The positions of the calls whose output cannot be judged, and why."""
    return [
        (position, "output", f"the output of a call {why}")
        for position, call in enumerate(evidence.calls)
        if (why := _LACKING_OUTPUT.get(call.output_status)) and not (call.failed and call.output_status == "absent")
    ]


_LACKS: dict[CallPart, Callable[[Evidence], list[tuple[int, CallPart, str]]]] = {
    "arguments": _lacking_arguments,
    "output": _lacking_output,
}
