"""loop-repetition: was the same call made again and again?

What counts is how often the same call, by name and arguments, was made. Score 1 below ``repetition_threshold``, 0.5
from it, 0 from twice it. The repeats need not be adjacent. With ``count_retries: false`` a call that failed does not
count where an equal one succeeded later: it was right to try again. With ``failed_only`` the calls that failed are
counted, and no others: polling is not a loop; repeating a failed call unchanged is.

Source: the tool repeats of confident-ai/deepeval's loop detection.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Annotated

from pydantic import Field

from tracegrade.evaluate.call_facts import arguments, names
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.json_values import Identities
from tracegrade.evaluate.unknown import unknown_failure, unreadable_parts, with_unknown
from tracegrade.evaluate.wording import detailed, listed
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import hashed_apart, holds_mask


class Criteria(ParameterModel):
    """Nothing is expected of a run but that it ends."""


class Settings(ParameterModel):
    """What is a loop."""

    repetition_threshold: Annotated[int, Field(ge=2, description="This many equal calls are a loop.")] = 3
    count_retries: Annotated[bool, Field(description="Count a call that failed before an equal one succeeded.")] = True
    failed_only: Annotated[bool, Field(description="Count only calls that failed.")] = False

    def counted(self, evidence: Evidence) -> list[int]:
        """The positions of the calls that count."""
        return [p for p, call in enumerate(evidence.calls) if call.failed or not self.failed_only]


def _without_retries(counted: Sequence[int], keys: Sequence[Hashable], evidence: Evidence) -> list[int]:
    """Those of the positions that did not fail, or of which no equal call succeeds later."""
    succeeded: set[Hashable] = set()
    kept = []
    for position, key in zip(reversed(counted), reversed(keys), strict=True):
        if not evidence.calls[position].failed:
            succeeded.add(key)
        elif key in succeeded:
            continue
        kept.append(position)
    return kept


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    identities, work = Identities(), Work(evidence=evidence)
    called, args = evidence.once(names), evidence.once(arguments)
    asks_failures = settings.failed_only or not settings.count_retries
    if asks_failures and (hidden := unknown_failure(evidence)) is not None:
        work.note(hidden._replace(bounded=False))
    unreadable = unreadable_parts(evidence, "arguments")
    if unreadable or evidence.redacted:
        compared = _compared(evidence, settings)
        for position in compared:
            if (unknown := unreadable.get(position)) is not None:
                work.note(unknown._replace(bounded=False))
        apart = hashed_apart([{called[position]: args[position]} for position in compared])
        for place, position in enumerate(compared):
            if place in apart or holds_mask(args[position]):  # masks that look alike say nothing
                work.position = position
                work.note(work.unknown_value(args[position], bounded=False))
    counted = settings.counted(evidence)
    # Arguments are compared where a tool was called more than once.
    times = Counter([called[position] for position in counted])
    keys = [
        (name, identities.of(args[position], work) if times[name] > 1 else 0)
        for position in counted
        for name in (called[position],)
    ]
    if not settings.count_retries:
        kept = set(_without_retries(counted, keys, evidence))
        keys = [key for position, key in zip(counted, keys, strict=True) if position in kept]
    made = Counter(keys)
    most = max(made.values(), default=0)
    repeated = [name for (name, _), count in made.items() if count >= settings.repetition_threshold]
    details: dict[str, JsonValue] = {
        "most_repetitions": most,
        "repeated_tools": detailed(list(dict.fromkeys(repeated))),
    }
    happened = "failed" if settings.failed_only else "was made"
    if not repeated:
        text = f"No call {happened} {settings.repetition_threshold} or more times with the same arguments."
        return with_unknown(Score(1.0, details, text), work.unknown)
    score = 0.5 if most < 2 * settings.repetition_threshold else 0.0
    text = f"The same call {happened} {most} times: {listed(repeated)}."
    return with_unknown(Score(score, details, text), work.unknown)


def _compared(evidence: Evidence, settings: Settings) -> list[int]:
    """The calls of tools that were called often enough to be a loop."""
    called, counted = evidence.once(names), settings.counted(evidence)
    made = Counter(called[position] for position in counted)
    return [position for position in counted if made[called[position]] >= settings.repetition_threshold]


def _sentences(criteria: Criteria, settings: Settings) -> list[str]:
    happens = "fails" if settings.failed_only else "is made"
    said = f"no call {happens} {settings.repetition_threshold} times or more with the same arguments"
    return [said if settings.count_retries else f"{said}; one that failed before an equal one succeeded does not count"]


def _with_further_calls(
    evidence: Evidence, criteria: Criteria, settings: Settings, score: float
) -> tuple[float, float]:
    """A repetition stays one, but for failed calls that a later success makes retries."""
    return 0.0, score if settings.count_retries else 1.0


EVALUATOR = Evaluator(
    name="loop-repetition",
    summary="Was the same call made again and again?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    asks=frozenset({"arguments"}),
    with_further_calls=_with_further_calls,
    sentences=_sentences,
    settings_said=frozenset({"repetition_threshold", "count_retries", "failed_only"}),
)
