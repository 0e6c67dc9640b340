"""grounded-answer: does all that the final answer names come from the prompt or from an output?

It looks for numbers, amounts of money, percentages, dates, ids (order numbers, e-mail addresses, versions), addresses
of pages, and the ``names`` that are given. The score is the share of these that the prompt or the output of some call
gives. What a person would take for the same counts as the same: ``EUR 1.200,50`` is 1200.5, ``12 March 2026`` is
``2026-03-12``, 12.35 is 12.3456 rounded, 15 % is 0.15. A number that two given numbers add up to is counted as given
and named as ``derived``, unless ``sums: false``.

Whole numbers below ``smallest`` are left out, since they count and number things, and times of day. An answer that
names nothing is not scored, or passes with ``vacuous: pass``. Where something is found nowhere, and an output or the
prompt could not be read, it is open whether it stood there.
"""

from collections.abc import Sequence
from decimal import Decimal
from itertools import chain
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from tracegrade.display import count
from tracegrade.evaluate.criteria.parameters import DefaultCriteria, ParameterModel
from tracegrade.evaluate.evaluator import Evaluator, same_score
from tracegrade.evaluate.evidence import Evidence, Justification, Score
from tracegrade.evaluate.grounding.claims import KINDS, Claim, Kind, claims, names_in
from tracegrade.evaluate.grounding.numbers import readings
from tracegrade.evaluate.grounding.sources import Source, Sources
from tracegrade.evaluate.json_values import json_text
from tracegrade.evaluate.not_evaluable_reasons import sentence
from tracegrade.evaluate.unknown import answer_or_unknown, undecided, unknown_parts
from tracegrade.evaluate.wording import agreeing
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.range import Range
from tracegrade.model.stand_ins import is_unknown
from tracegrade.model.tri import Unknown

_MAX_SHOWN = 100  # values of each sort in the details
_WHAT = {
    "number": "number",
    "amount": "amount",
    "percent": "percentage",
    "date": "date",
    "id": "id",
    "url": "address",
    "name": "name",
}


class Criteria(ParameterModel):
    """What is looked for in the answer."""

    kinds: Annotated[
        list[Kind],
        Field(default_factory=lambda: [*KINDS], min_length=1, description="Which of these have to be given."),
    ]
    names: Annotated[
        list[str],
        Field(
            default_factory=list,
            description="Names of people, products or places that may only be said where they are given.",
        ),
    ]


class Settings(ParameterModel):
    """How it is judged."""

    smallest: Annotated[
        int, Field(ge=0, description="Whole numbers below this are left out, unless they have a currency or a %.")
    ] = 11
    sums: Annotated[bool, Field(description="What two given numbers add up to counts as given.")] = True
    vacuous: Annotated[
        Literal["not_evaluable", "pass"], Field(description="The outcome for an answer that contains no value.")
    ] = "not_evaluable"
    default_evaluation_criteria: DefaultCriteria[Criteria] = None


class _Judged(NamedTuple):
    """What became of the values that an answer names."""

    given: list[tuple[Claim, Source]]
    derived: list[tuple[Claim, tuple[Decimal, Decimal]]]
    ungiven: list[Claim]

    @property
    def score(self) -> float:
        grounded = len(self.given) + len(self.derived)
        return grounded / (grounded + len(self.ungiven))


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    work = Work()
    final_answer = answer_or_unknown(evidence)
    if isinstance(final_answer, Unknown):
        return undecided(final_answer)
    answer = json_text(final_answer if final_answer is not None else "")
    named = chain(claims(answer, work), names_in(answer, criteria.names, work))
    found = [claim for claim in named if _counts(claim, criteria, settings)]
    if evidence.redacted and is_unknown(answer):
        why = sentence(Unknown("redacted", "final_answer"))
        text = "The answer was redacted, so its values cannot be checked."
        return Score(0.0, {"named": len(found)}, text, range=Range(0.0, 1.0, why))
    if not found:
        text = "The answer contains no value to check."
        return Score(1.0 if settings.vacuous == "pass" else None, {"named": 0}, text)
    judged = _judge(found, evidence.run.once(Sources), settings, work)
    unread = _unread(evidence) if judged.ungiven else None

    def justify() -> Justification:
        return _details(judged), _explanation(judged)

    if unread is None:
        return Score(judged.score, justify=justify)
    return Score(judged.score, justify=justify, range=Range(judged.score, 1.0, unread))


def _counts(claim: Claim, criteria: Criteria, settings: Settings) -> bool:
    if claim.kind not in criteria.kinds:
        return False
    if claim.kind != "number":
        return True
    read = readings(claim.text)
    return not all(number < settings.smallest and number == number.to_integral_value() for number in read)


def _judge(found: Sequence[Claim], sources: Sources, settings: Settings, work: Work) -> _Judged:
    work.spend(sources.steps)
    judged, rounded = _Judged([], [], []), set[int]()
    for claim in found:
        if (source := sources.of(claim, work, rounded)) is not None:
            judged.given.append((claim, source))
        elif settings.sums and (parts := sources.summing_up_to(claim, work)) is not None:
            judged.derived.append((claim, parts))
        else:
            judged.ungiven.append(claim)
    return judged


def _unread(evidence: Evidence) -> str | None:
    """What cannot be read and may have given more; None where all can be read."""
    if evidence.prompt is None:
        return sentence(Unknown("absent", "prompt"))
    if evidence.redacted and is_unknown(evidence.prompt):
        return sentence(Unknown("redacted", "prompt"))
    for unknown in unknown_parts(evidence.run, "output").values():
        return sentence(unknown)
    if evidence.trace_context is not None and (work := evidence.trace_context.unread_before(None)) is not None:
        return work.sentence
    return None


def _details(judged: _Judged) -> dict[str, JsonValue]:
    ungiven: list[JsonValue] = [{"kind": claim.kind, "value": claim.text} for claim in judged.ungiven[:_MAX_SHOWN]]
    derived: list[JsonValue] = [
        {"kind": claim.kind, "value": claim.text, "sum_of": [f"{part:f}" for part in parts]}
        for claim, parts in judged.derived[:_MAX_SHOWN]
    ]
    given: list[JsonValue] = [
        {"kind": claim.kind, "value": claim.text, "source": source.called, "span_id": source.span_id or None}
        for claim, source in judged.given[:_MAX_SHOWN]
    ]
    named = len(judged.ungiven) + len(judged.derived) + len(judged.given)
    return {"named": named, "ungrounded": ungiven, "derived": derived, "grounded": given}


def _explanation(judged: _Judged) -> str:
    named = len(judged.ungiven) + len(judged.derived) + len(judged.given)
    if not judged.ungiven:
        every = "The value" if named == 1 else f"All {named} values"
        sums = f" ({count(len(judged.derived), 'sum')} of two)" if judged.derived else ""
        return f"{every} in the answer {agreeing(named, 'comes', 'come')} from the prompt or an output{sums}."
    kinds = [claim.kind for claim in judged.ungiven]
    ungiven = " and ".join(count(kinds.count(kind), _WHAT[kind]) for kind in dict.fromkeys(kinds))
    come = agreeing(len(kinds), "comes", "come")
    return f"{ungiven} of {count(named, 'value')} in the answer {come} from neither the prompt nor an output."


EVALUATOR = Evaluator(
    name="grounded-answer",
    summary="Do all values in the final answer come from the prompt or an output?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    asks=frozenset({"output", "final_answer"}),
    with_further_calls=same_score,
)
