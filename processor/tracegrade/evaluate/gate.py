"""Can these calls be judged at all? (promise 6)

Evaluators score what they are given: absent arguments are ``{}``, an absent output is ``""``. For production traces
that would turn "was not recorded" into 0.0, so this comes first: a call that the evaluator would compare and that
lacks what it reads makes the evaluation not_evaluable. Other calls do not matter, nor do expected calls that were never
made: a trace without calls is judged. A final answer that cannot be read is not.

Arguments are lacking when absent, text (no object), truncated or redacted; outputs when absent, truncated or redacted.
A failed call has no output: its error is its result, and that is known. A text is a good output. Where something in
them was masked or hashed, the rest can be read, and matchers say whether what went makes a difference. Where members
were dropped, they are lacking.
"""

from typing import Any

from tracegrade.evaluate.call_facts import unread_call
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.unknown import IN_PART, of_call, sentence, unknown_parts
from tracegrade.model.stand_ins import is_hashed, is_masked, is_unknown
from tracegrade.model.tri import Unknown

_ONLY_THE_ANSWER = frozenset({"final_answer"})


def gate(evaluator: Evaluator[Any, Any], criteria: Any, settings: Any, evidence: Evidence) -> str | None:
    """Why the calls of `evidence` cannot be judged by `evaluator`, None when they can.

    Returns:
        One sentence that names the first call which lacks something, and its span; no values.

    Raises:
        EvaluatorError: ``no_criteria``, as `Evaluator.evaluate`.
    """
    unknown = _hidden(evaluator, criteria, settings, evidence) if evidence.redacted else None
    if unknown is None and evaluator.reads:
        unknown = _unreadable(evaluator, criteria, settings, evidence)
    return None if unknown is None else sentence(unknown)


def _hidden(evaluator: Evaluator[Any, Any], criteria: Any, settings: Any, evidence: Evidence) -> Unknown | None:
    """What was redacted of the calls themselves: which tools they are of, and whether they failed."""
    nameless, failure = evidence.once(_hidden_calls)
    if nameless is not None and evaluator.reads != _ONLY_THE_ANSWER:
        return nameless
    if failure is None or not evaluator.reads_failures(evaluator.criteria_in_force(criteria, settings), settings):
        return None
    return failure


def _hidden_calls(evidence: Evidence) -> tuple[Unknown | None, Unknown | None]:
    """The first call of a tool whose name was redacted, and the first of which nobody knows whether it failed."""
    calls = [*enumerate(evidence.calls)]
    return (
        next((of_call("redacted", "name", place, call) for place, call in calls if is_unknown(call.raw_name)), None),
        next((of_call("redacted", "failure", place, call) for place, call in calls if call.failure_hidden), None),
    )


def _unreadable(evaluator: Evaluator[Any, Any], criteria: Any, settings: Any, evidence: Evidence) -> Unknown | None:
    """What the evaluator reads and cannot be read, the first call first; None where all can."""
    lacking: list[Unknown] = []
    for part in evaluator.reads:
        if part == "final_answer":
            if (answer := _unreadable_answer(evidence, in_part=evaluator.knows_unknown)) is not None:
                return answer
        elif (unknown := unknown_parts(evidence, part)) and (  # what is compared is asked for only now
            lacks := {
                place: why for place, why in unknown.items() if not evaluator.knows_unknown or why.kind not in IN_PART
            }
        ):
            in_force = evaluator.criteria_in_force(criteria, settings)
            compared = set(evaluator.compared(evidence, in_force, settings, part))
            lacking += [why for place, why in lacks.items() if place in compared]
    return min(lacking, key=lambda why: why.position or 0) if lacking else None


def _unreadable_answer(evidence: Evidence, *, in_part: bool) -> Unknown | None:
    if evidence.final_answer is None:
        return Unknown("absent", "final_answer")
    if evidence.redacted and is_masked(evidence.final_answer):
        return Unknown("masked", "final_answer")
    if evidence.redacted and not in_part and is_hashed(evidence.final_answer):
        return Unknown("hashed", "final_answer")
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
