"""ragas-tool-call-f1: how much have the reference calls and the calls made in common, each distinct call once?

As Ragas's ToolCallF1 counts it: both sides are *sets* of calls, a name with its arguments, so that repeats count once,
order never matters, and arguments are equal or not. The score is the harmonic mean of precision and recall, rounded to
four decimals; 0 when nothing is in common, also when both sides are empty.

Source: explodinggradients/ragas 0.4, metrics/_tool_call_f1.py.
"""

from collections import Counter
from functools import cached_property
from typing import Annotated

from pydantic import Field

from tracegrade.display import count
from tracegrade.evaluate.call_facts import names
from tracegrade.evaluate.compare.differences import MAX_DIFFERENCES, looked_up, origins_of
from tracegrade.evaluate.compare.expected_calls import ExpectedCalls, reference_calls
from tracegrade.evaluate.criteria.expected import Lookup
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.reference_call import ReferenceCall
from tracegrade.evaluate.evaluator import BELOW_ONE, Evaluator, ScoreRange
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.json_values import Identities
from tracegrade.evaluate.pairing.by_name import most_pairs
from tracegrade.evaluate.unknown import Arguments, arguments_or_unknown, in_both_readings
from tracegrade.evaluate.wording import agreeing, listed
from tracegrade.evaluate.work import Work
from tracegrade.model.evaluation import Pairing
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import holds_unknown
from tracegrade.model.tri import Unknown

_DECIMALS = 4


class Criteria(ParameterModel):
    """What is expected."""

    reference_tool_calls: Annotated[list[ReferenceCall], Field(description="The calls, in any order.")]

    @cached_property
    def by_name(self) -> dict[str, list[int]]:
        """The indexes of the distinct calls of each name."""
        identities, work = Identities(), Work()
        found: dict[str, dict[int, int]] = {}
        for index, call in enumerate(self.reference_tool_calls):
            found.setdefault(call.name, {}).setdefault(identities.of(call.args.source, work), index)
        return {name: [*known.values()] for name, known in found.items()}


class Settings(ParameterModel):
    """How it is compared: there is one way."""


def _judge(
    evidence: Evidence, criteria: Criteria, settings: Settings, optimistic: bool
) -> tuple[Score, Unknown | None]:
    work = Work(evidence=evidence, optimistic=optimistic)
    actual = evidence.once(arguments_or_unknown)
    made, maybe_same = _distinct(evidence, work)
    expected = sum(map(len, criteria.by_name.values()))
    pairs: dict[int, int] = {}
    unmatched: list[str] = []
    lookups: list[Lookup] = []
    for name, indexes in criteria.by_name.items():
        free = list(made.get(name, ()))
        if optimistic:  # an unknown call is what lacks: those that are known are paired first, however many may be
            free.sort(key=maybe_same.__contains__)
            calls = [criteria.reference_tool_calls[index] for index in indexes]
            fits = [{p: 1.0 for p in free if _matches(call, p, actual[p], work)} for call in calls]
            pairs |= {indexes[place]: position for position, place in most_pairs(free, fits, work)}
            continue
        for index in indexes:
            call = criteria.reference_tool_calls[index]
            found = next((p for p in free if _matches(call, p, actual[p], work)), None)
            if found is None:
                unmatched.append(name)
                if free:  # none of these is as expected; what the first was compared with
                    work.position = free[0]
                    lookups += call.args.lookups(work)
            else:
                free.remove(found)
                pairs[index] = found
    true_positives = len(pairs)
    maybe_same.difference_update(pairs.values())
    predicted = sum(max(1, len(places) - len(maybe_same.intersection(places))) for places in made.values())
    precision = true_positives / predicted if predicted else 0.0
    recall = true_positives / expected if expected else 0.0
    score = round(2 * precision * recall / (precision + recall), _DECIMALS) if true_positives else 0.0
    details: dict[str, JsonValue] = {
        "true_positives": true_positives,
        "false_positives": predicted - true_positives,
        "false_negatives": expected - true_positives,
        "precision": precision,
        "recall": recall,
    }
    details |= looked_up(lookups[:MAX_DIFFERENCES])
    match = agreeing(true_positives, "matches", "match")
    text = f"{true_positives} of {count(predicted, 'call')} {match} the {count(expected, 'reference call')}"
    reasons = [f"missing: {listed(unmatched)}"] if unmatched else []
    size = len(criteria.reference_tool_calls)
    repeated = set(range(size)).difference(*criteria.by_name.values())
    pairing = Pairing.of(size, pairs.items(), repeated)
    text = "; ".join([text, *reasons, *origins_of([details])])
    return Score(score, details, f"{text}.", pairing=pairing), work.unknown


def _distinct(evidence: Evidence, work: Work) -> tuple[dict[str, list[int]], set[int]]:
    """The first call of each name and arguments, by name; and those that may be the same as another of their name.

    Those are calls of which a value was redacted, where what is unknown counts in favour of the score.
    """
    identities = Identities()
    seen: set[tuple[str, int]] = set()
    made: dict[str, list[int]] = {}
    maybe_same: set[int] = set()
    called = evidence.once(names)
    times = Counter(called)
    for position, (name, args) in enumerate(zip(called, evidence.once(arguments_or_unknown), strict=True)):
        work.position = position
        unknown = args if isinstance(args, Unknown) else None
        if not isinstance(args, Unknown):
            key = (name, identities.of(args, work))
            if key in seen:
                continue
            seen.add(key)
            if work.redacted and holds_unknown(args):
                unknown = work.unknown_value(args)
        made.setdefault(name, []).append(position)
        if unknown is not None and times[name] > 1 and work.takes(unknown):
            maybe_same.add(position)
    return made, maybe_same


def _matches(call: ReferenceCall, position: int, actual: Arguments | Unknown, work: Work) -> bool:
    work.position = position
    return call.args.accepts(actual, work)


def _expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    return reference_calls(criteria.reference_tool_calls)


def _with_further_calls(evidence: Evidence, criteria: Criteria, settings: Settings, score: float) -> ScoreRange:
    """Both sides are the same only if every call that is known is expected."""
    names = criteria.by_name
    return 0.0, 1.0 if all(call.name in names for call in evidence.calls) else BELOW_ONE


EVALUATOR = Evaluator(
    name="ragas-tool-call-f1",
    summary="How much have the reference calls and the calls made in common, each distinct call once?",
    Criteria=Criteria,
    Settings=Settings,
    score=in_both_readings(_judge),
    expected_calls=_expected_calls,
    asks=frozenset({"arguments"}),
    with_further_calls=_with_further_calls,
)
