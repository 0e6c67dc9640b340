"""constraints: do the calls keep to what was said of their order and number?

Each constraint is one sentence: ``{before: create_order, comes: validate_user}``. It is checked each time that it
applies: once for each ``create_order``. The score is the share of these times, of all constraints together, at which it
held; a rule with the usual threshold of 1 passes when all did.

| constraint | holds when | in Declare |
| --- | --- | --- |
| ``{before: A, comes: B}`` | before every A there is a B | precedence |
| ``{after: A, comes: B}`` | after every A there is a B | response |
| ``{right_after: A, comes: B}`` | the call right after every A is a B | chain_response |
| ``{right_before: A, comes: B}`` | the call right before every A is a B | chain_precedence |
| ``{before_each: A, comes_a_new: B}`` | there is a B before the first A and between each two | alternate_precedence |
| ``{if: A, also: B}`` | with every A there is a B, before or after it | responded_existence |
| ``{never: A}`` | there is no A | absence |
| ``{at_most: 1, of: A}`` | at most so many A are called | absence_n |
| ``{at_least: 1, of: A}`` | at least so many A are called | existence |
| ``{exactly: 1, of: A}`` | exactly so many A are called | exactly_n |
| ``{not_both: [A, B]}`` | there is no A, or no B | not_coexistence |
| ``{first: A}`` | the first call is an A | init |
| ``{last: A}`` | the last call is an A | end |

A and B are a tool, a glob, a list of which any counts, or a tool with conditions:
``{tool: refund, where: {args: {amount: {$gte: 100}}, output: {status: ok}, error: false, agent: billing}}``. The two
calls of a sentence can have to agree, ``same: order_id`` (an argument of both) or ``same: {args.id: output.order.id}``
(first the path in A, then that in B), and to come ``within: 30s``, from the end of the earlier one to the start of the
later one; with ``at_most``, ``same`` counts the calls of each value by themselves. The names of Declare's templates may
be written for the first words, and ``{between_two: A, comes: B}`` for ``{before_each: A, comes_a_new: B}``.

``{never: {tool: '*', where: {args: {$secret: true}}}}`` says that no call is given a secret, anywhere in its arguments.

A call that failed and its retry are two calls: ``where: {error: false}`` means those that did not fail.

Calls made together count in the best order for each constraint by itself, unless ``concurrency: sequential``. A
constraint that nothing triggered, as no A was called, is named and left out; where that is so of all, there is no
score, or it is 1 with ``vacuous: pass``. The last seven always apply; without any call, ``first`` and ``last`` do not
hold.

What cannot be read where a condition needs it leaves the evaluation without a score only if that could change whether
it passes; so does a span that is a tool call and names no tool: it may be any call.
"""

from collections.abc import Hashable, Sequence
from functools import cached_property, partial
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from tracegrade.evaluate.call_facts import REMEMBERED, NamesMade, unread_call
from tracegrade.evaluate.constraints.check import Activation, Checked, check
from tracegrade.evaluate.constraints.forms import (
    Constraint,
    Paired,
)
from tracegrade.evaluate.constraints.sides import tools_named
from tracegrade.evaluate.constraints.wording import (
    LOOKING_BACK,
    explanation,
    nearest,
    not_triggered,
    unreadable,
    untouched,
)
from tracegrade.evaluate.criteria.parameters import Concurrency, DefaultCriteria, NotedSettings, ParameterModel
from tracegrade.evaluate.evaluator import Evaluator, same_score
from tracegrade.evaluate.evidence import Evidence, Justification, Score
from tracegrade.evaluate.not_evaluable_reasons import sentence
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.range import Range
from tracegrade.model.tri import Unknown

_MAX_SHOWN = 20  # violations of one constraint in the details


class Criteria(ParameterModel):
    """What has to hold."""

    constraints: Annotated[
        list[Constraint], Field(min_length=1, description="The sentences, each as in the table above.")
    ]

    @cached_property
    def by_name(self) -> bool:
        """Whether the names of calls, and their order, are all that decides."""
        return all(form.by_name for form in self.constraints)

    @cached_property
    def identity(self) -> object:
        """What stands for these criteria, and for no others."""
        return object()


class Settings(NotedSettings):
    """How it is judged."""

    vacuous: Annotated[
        Literal["not_evaluable", "pass"], Field(description="The outcome when no constraint applies.")
    ] = "not_evaluable"
    concurrency: Concurrency = "batches"
    default_evaluation_criteria: DefaultCriteria[Criteria] = None


class _Found(NamedTuple):
    """What was found of all constraints, and the least and the most that the score may be; None: not triggered.

    ``unread`` says why more calls may have been made than are known, None where all are.
    """

    checked: Sequence[Checked]
    at_worst: float | None
    at_best: float | None
    unread: Unknown | None

    @property
    def names_no_call(self) -> bool:
        """Whether nothing was violated and nothing is unknown, so that all that is said of it is said of no call."""
        return self.at_worst == 1.0 or not any(each.activations for each in self.checked)


class _Violated(NamedTuple):
    """What is remembered of a run that did not keep to all: its score, and what its details are made of."""

    score: float
    checked: Sequence[Checked]


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    key: Hashable = None
    unread = unread_call(evidence)
    if unread is None and criteria.by_name and (names := evidence.once(NamesMade).key) is not None:
        concurrency, timeline = settings.concurrency, evidence.once(Timeline)
        if not timeline.is_total(concurrency):
            groups = tuple(map(tuple, timeline.groups(concurrency)))
            key = criteria.identity, settings.vacuous, names, concurrency, groups
        else:
            key = criteria.identity, settings.vacuous, names
        if (known := _known.get(key)) is not None:
            if type(known) is Score:
                return known
            if type(known) is _Violated:
                return Score(known.score, justify=partial(_justified, known.checked, evidence))
    found = _find(evidence, criteria, unread, settings.concurrency)
    score = _judged(found, evidence, settings)
    if key is not None:
        if len(_known) >= REMEMBERED:
            _known.clear()
        if found.names_no_call:
            _known[key] = score = Score(score.score, score.details, score.explanation)  # without the calls
        elif (
            found.at_worst is not None and found.at_worst == found.at_best and "" not in evidence.once(NamesMade).names
        ):
            _known[key] = _Violated(found.at_worst, found.checked)
    return score


# Where names alone decide, agents repeat themselves: looking up what was found takes a tenth of finding it. A score
# whose details name no calls is that of every run with these names.
_known: dict[Hashable, Score | _Violated] = {}


def _judged(found: _Found, evidence: Evidence, settings: Settings) -> Score:
    checked, at_worst, at_best, unread = found
    if at_worst is None or at_best is None:
        return _untriggered(checked, evidence, settings, unread)
    justify = partial(_justified, checked, evidence)
    if at_worst == at_best:
        return Score(at_worst, justify=justify)
    why = unreadable(checked) if unread is None else sentence(unread)
    return Score(at_worst, justify=justify, range=Range(at_worst, at_best, why))


def _justified(checked: Sequence[Checked], evidence: Evidence) -> Justification:
    return _details(checked, evidence), explanation(checked, evidence)


def _find(evidence: Evidence, criteria: Criteria, unread: Unknown | None, concurrency: Concurrency) -> _Found:
    work = Work()
    checked = [check(form, evidence, work, concurrency, unread=unread is not None) for form in criteria.constraints]
    activations = [activation for each in checked for activation in each.activations]
    if any(activation.certain for activation in activations):
        at_worst = _share_at_worst(activations)
        if unread is not None and any(isinstance(form, Paired) for form in criteria.constraints):
            at_worst = 0.0  # calls that are not known may need others, too
        return _Found(checked, at_worst, _share_at_best(activations), unread)
    return _Found(checked, None, None, unread)


def _share_at_worst(activations: Sequence[Activation]) -> float:
    """Of those that apply, and of those that may and would not be satisfied, the share that is."""
    counting = [each for each in activations if each.certain or not each.at_worst]
    return sum(each.at_worst for each in counting) / len(counting) if counting else 1.0


def _share_at_best(activations: Sequence[Activation]) -> float:
    counting = [each for each in activations if each.certain or each.at_best]
    return sum(each.at_best for each in counting) / len(counting) if counting else 1.0


def _untriggered(checked: Sequence[Checked], evidence: Evidence, settings: Settings, unread: Unknown | None) -> Score:
    activations = [activation for each in checked for activation in each.activations]
    details = _details(checked, evidence)
    if unread is not None:
        why = sentence(unread)
        return Score(0.0 if settings.vacuous == "pass" else None, details, why, range=Range(0.0, 1.0, why))
    if not activations:
        return Score(1.0 if settings.vacuous == "pass" else None, details, not_triggered(checked))
    why = unreadable(checked)
    if settings.vacuous == "pass":
        least = _share_at_worst(activations)
        return Score(least, details, why, range=Range(least, 1.0, why))
    return Score(None, details, why)


def _not_called(checked: Sequence[Checked], evidence: Evidence) -> list[JsonValue]:
    """The tools of which a call was missing before another one, and none was made."""
    called = {call.name for call in evidence.calls}
    missing = (
        tool
        for each in checked
        if isinstance(each.form, LOOKING_BACK) and any(activation.is_broken for activation in each.activations)
        for tool in tools_named(each.form.sides[1])
    )
    return [*dict.fromkeys(tool for tool in missing if tool not in called)]


def _details(checked: Sequence[Checked], evidence: Evidence) -> dict[str, JsonValue]:
    constraints: list[JsonValue] = []
    for each in checked:
        violated = [activation for activation in each.activations if activation.is_broken]
        shown: list[JsonValue] = [_violation(each, activation, evidence) for activation in violated[:_MAX_SHOWN]]
        constraints.append(
            {
                "constraint": each.form.sentence,
                "template": each.form.template,
                "triggered": len(each.activations),
                "satisfied": len(each.activations) - len(violated),
                "violations": shown,
            }
        )
    details: dict[str, JsonValue] = {"constraints": constraints, "never_triggered": [*untouched(checked)]}
    if not_called := _not_called(checked, evidence):
        details["not_called"] = not_called
    return details


def _violation(checked: Checked, activation: Activation, evidence: Evidence) -> dict[str, JsonValue]:
    calls: list[JsonValue] = [_call(place, evidence) for place in activation.calls[:_MAX_SHOWN]]
    found: dict[str, JsonValue] = {"calls": calls}
    if isinstance(checked.form, Paired) and (near := nearest(checked, activation.calls[0])) is not None:
        found["nearest"] = _call(near, evidence)
    if activation.is_doubtful:
        found["unknown"] = True
    return found


def _call(place: int, evidence: Evidence) -> dict[str, JsonValue]:
    call = evidence.calls[place]
    return {"name": call.name, "call": place + 1, "span_id": call.span_id}


EVALUATOR = Evaluator(
    name="constraints",
    summary="Do the calls satisfy constraints on their order and number?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    asks=frozenset({"arguments", "output"}),
    with_further_calls=same_score,
    sentences=lambda criteria, settings: [f"{form.rule} ({form.template})" for form in criteria.constraints],
)
