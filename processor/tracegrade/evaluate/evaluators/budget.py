"""budget: did the run stay within its limits of calls, retries, errors, duration, tokens and cost?

The share of the given limits that were kept. A retry is a call with the name and arguments of an earlier one; an error
is a call that failed. Cost is what the model calls cost by the prices of the setting ``traces.prices``. Where a limit
cannot be judged, since the trace has no times or no tokens, or a model has no price, nothing is scored, unless another
limit was broken already.
"""

from typing import Annotated

from pydantic import Field

from tracegrade.document.duration import duration_text
from tracegrade.document.file_model import Duration
from tracegrade.evaluate.call_facts import positions_by_name
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import hashed_apart

_NS_PER_S = 1_000_000_000
_SINGULAR = {"calls": "call", "retries": "retry", "errors": "error", "tokens": "token"}


class Criteria(ParameterModel):
    """The limits; each counts as kept when it is just reached."""

    max_calls: Annotated[int | None, Field(ge=0, description="Calls.")] = None
    max_retries: Annotated[int | None, Field(ge=0, description="Calls with name and arguments of an earlier one.")] = (
        None
    )
    max_errors: Annotated[int | None, Field(ge=0, description="Calls that failed.")] = None
    max_duration: Annotated[Duration | None, Field(description="From start to end, such as 30s.")] = None
    max_tokens: Annotated[int | None, Field(ge=0, description="Tokens of all model calls, in and out.")] = None
    max_cost: Annotated[
        float | None,
        Field(ge=0, description="What all model calls cost, by the prices in `traces.prices`."),
    ] = None


_COUNTED = frozenset({"calls", "retries", "errors"})


class Settings(ParameterModel):
    """There is one way to judge it."""


def _used(evidence: Evidence, criteria: Criteria) -> dict[str, tuple[float, float | None]]:
    """For each limit given, the limit and what was used; None where that is not known."""
    trace_context = evidence.trace_context
    used: dict[str, tuple[float, float | None]] = {}
    if criteria.max_calls is not None:
        used["calls"] = (criteria.max_calls, len(evidence.calls))
    if criteria.max_retries is not None:
        retries = sum(call.attempt > 1 for call in evidence.calls)
        may_be_more = retries <= criteria.max_retries < retries + _possible_retries(evidence)
        used["retries"] = (criteria.max_retries, None if may_be_more else retries)
    if criteria.max_errors is not None:
        failed = sum(call.failed and not call.failure_hidden for call in evidence.calls)
        hidden = sum(call.failure_hidden for call in evidence.calls)
        is_open = failed <= criteria.max_errors < failed + hidden
        used["errors"] = (criteria.max_errors, None if is_open else failed)
    if criteria.max_duration is not None:
        taken = None if trace_context is None else trace_context.duration_ns()
        used["duration"] = (criteria.max_duration, None if taken is None else taken / _NS_PER_S)
    if criteria.max_tokens is not None:
        used["tokens"] = (criteria.max_tokens, None if trace_context is None else trace_context.tokens())
    if criteria.max_cost is not None:
        used["cost"] = (criteria.max_cost, None if trace_context is None else trace_context.cost().amount)
    return used


def _possible_retries(evidence: Evidence) -> int:
    """How many calls may be retries that are not counted, since something of their arguments is gone."""
    if not evidence.redacted:
        return 0
    possible = 0
    for places in evidence.once(positions_by_name).values():
        calls = [evidence.calls[place] for place in places]
        gone = {
            number for number, call in enumerate(calls) if call.arguments_status in ("redacted", "absent", "elsewhere")
        }
        if len(calls) > 1:
            possible += len(gone | hashed_apart([call.arguments for call in calls]))
    return possible


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    limits = _used(evidence, criteria)
    if not limits:
        return Score(None, {}, "There are no limits, so there is nothing to score.")
    details: dict[str, JsonValue] = {name: {"limit": limit, "used": used} for name, (limit, used) in limits.items()}
    known = {name: (limit, used) for name, (limit, used) in limits.items() if used is not None}
    broken = [_of_limit(name, limit, used) for name, (limit, used) in known.items() if used > limit]
    if not broken and len(known) < len(limits):
        return Score(None, details, _unknown(evidence, [name for name in limits if name not in known]))
    within = "; ".join(_of_limit(name, limit, used) for name, (limit, used) in known.items())
    text = f"Over budget: {'; '.join(broken)}." if broken else f"Within budget: {within}."
    return Score((len(known) - len(broken)) / len(known), details, text)


def _of_limit(name: str, limit: float, used: float) -> str:
    if name == "cost":
        return f"cost {used:g} (limit {limit:g})"
    if name == "duration":
        return f"{used:g} s (limit {limit:g} s)"
    return f"{used:g} {name if used != 1 else _SINGULAR.get(name, name)} (limit {limit:g})"


def _unknown(evidence: Evidence, names: list[str]) -> str:
    missing = [name for name in names if name != "cost"]
    what = "Not recorded, or redacted" if evidence.redacted else "Not recorded"
    said = [f"{what}: {', '.join(missing)}."] if missing else []
    if "cost" in names:
        why = "there is no trace" if evidence.trace_context is None else evidence.trace_context.cost().unknown
        said.append(f"The cost is not known: {why}.")
    return " ".join(said)


def _sentences(criteria: Criteria, settings: Settings) -> list[str]:
    duration = None if criteria.max_duration is None else duration_text(criteria.max_duration)
    limits = (
        (criteria.max_calls, "it makes at most {} calls"),
        (criteria.max_retries, "at most {} of its calls repeat an earlier one, with the same arguments"),
        (criteria.max_errors, "at most {} of its calls fail"),
        (duration, "it takes at most {}"),
        (criteria.max_tokens, "its model calls take at most {} tokens"),
        (criteria.max_cost, "its model calls cost at most {}"),
    )
    return [says.format(limit) for limit, says in limits if limit is not None]


def _with_further_calls(
    evidence: Evidence, criteria: Criteria, settings: Settings, score: float
) -> tuple[float, float]:
    """Further calls only add to what the limits on calls, retries and errors count."""
    limits = _used(evidence, criteria)
    counted = [name for name in limits if name in _COUNTED]
    held = sum(used is not None and used <= limit for name, (limit, used) in limits.items() if name not in counted)
    known = sum(used is not None for _, used in limits.values())
    return (held / known if counted else score), score


EVALUATOR = Evaluator(
    name="budget",
    summary="Did the run stay within its limits of calls, retries, errors, duration, tokens and cost?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    with_further_calls=_with_further_calls,
    sentences=_sentences,
    never_scores=lambda criteria, settings: (
        None if any(value is not None for _, value in criteria) else "there are no limits; give max_calls or another"
    ),
)
