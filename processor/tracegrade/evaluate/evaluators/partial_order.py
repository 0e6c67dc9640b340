"""partial-order: were the steps made, in an order that is allowed?

Steps follow each other as they are listed: a tool's name, or ``{tool: create_order, args: {...}}``. Further words:

| written | means |
| --- | --- |
| ``{parallel: [a, [b, c]]}`` | branches that go on beside each other: a, and b then c |
| ``{choice: [pay, [invoice, remind]]}`` | one of these branches |
| ``optional: true`` | it may be left out |
| ``repeat: [1, 3]`` | it is called once to three times, one after the other |
| ``after: [a, b]`` | it comes after these steps (``after: a``: this one), not the one above; ``after: []``: none |
| ``anywhere: true`` | it has no place in the order |

The calls are laid beside the steps in the best way: a step that is missing costs 1, a call with other arguments than
its step's 1/2, and, with ``extra: count``, a call that is no step 1. The score is the share of what is required that
was made, 1/2 for other arguments; extra calls that count make the whole larger. A step that is missing while a call of
its tool is left over was made out of order, and the details say so. Calls made together may come in any order, unless
``concurrency: sequential``. Thousands of calls of long branches beside each other, in no order, take too much work:
that is an error, which says so. A span that is a tool call and names no tool may be any step: where that decides,
nothing is scored.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from tracegrade.evaluate.call_facts import unread_call
from tracegrade.evaluate.compare.differences import listed_differences
from tracegrade.evaluate.compare.expected_calls import ExpectedCall, ExpectedCalls, expected_arguments
from tracegrade.evaluate.criteria.expected import differences
from tracegrade.evaluate.criteria.parameters import Concurrency, DefaultCriteria, NotedSettings, ParameterModel
from tracegrade.evaluate.evaluator import Evaluator, same_score
from tracegrade.evaluate.evidence import Evidence, Justification, Score
from tracegrade.evaluate.not_evaluable_reasons import sentence
from tracegrade.evaluate.pairing.by_name import with_next_unused
from tracegrade.evaluate.pairing.step_alignment import Alignment, Made, align
from tracegrade.evaluate.pairing.steps import Item, PlainStep, Steps, StepsError, steps_in_words
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.unknown import arguments_or_unknown, in_both_readings
from tracegrade.evaluate.wording import MAX_LISTED, listed, were
from tracegrade.evaluate.work import Work
from tracegrade.model.evaluation import Pairing
from tracegrade.model.json_value import JsonValue
from tracegrade.model.range import Range
from tracegrade.model.tri import Unknown


class Criteria(ParameterModel):
    """The steps."""

    steps: Annotated[list[Item], Field(min_length=1, description="The steps, each as in the table above.")]

    @cached_property
    def read(self) -> Steps:
        """The steps, ready to be laid beside calls."""
        return Steps(self.steps)

    @model_validator(mode="after")
    def _check_steps(self) -> "Criteria":
        try:
            required = self.read.required
        except StepsError as error:
            detail = InitErrorDetails(
                type="value_error", loc=("steps",), input=None, ctx={"error": ValueError(str(error))}
            )
            raise ValidationError.from_exception_data("criteria", [detail]) from None
        if not required and all(step.optional for step in self.read.plain):
            raise ValueError("expected a step that may not be left out; all of these are optional")
        return self


class Settings(NotedSettings):
    """How it is judged."""

    extra: Annotated[
        Literal["ignore", "count"], Field(description="Whether calls that are no step lower the score.")
    ] = "ignore"
    concurrency: Concurrency = "batches"
    default_evaluation_criteria: DefaultCriteria[Criteria] = None


class _Found(NamedTuple):
    """The best way, what of it is missing, and which calls are no step."""

    alignment: Alignment
    missing: Sequence[int]
    extra: Sequence[int]


def _find(evidence: Evidence, criteria: Criteria, settings: Settings, work: Work) -> _Found:
    """The best way; raises EvaluatorError, ``work_bound``."""
    steps = criteria.read
    given = evidence.once(arguments_or_unknown)

    def fits(call: int, step: int) -> bool:
        args = steps.plain[step].args
        if args is None:
            return True
        work.position = call
        return args.accepts_within(given[call], work)

    names = [call.name for call in evidence.calls]
    groups = evidence.once(Timeline).groups(settings.concurrency)
    found = align(steps, names, groups, fits, work, count_extra=settings.extra == "count")
    made = {one.call for one in found.made}
    extra = [place for place in range(len(names)) if place not in made]
    return _Found(found, _missing(steps.plain, found.made), extra)


def _judge(
    evidence: Evidence, criteria: Criteria, settings: Settings, optimistic: bool
) -> tuple[Score, Unknown | None]:
    plain = criteria.read.plain
    work = Work(evidence=evidence, optimistic=optimistic)
    found = _find(evidence, criteria, settings, work)
    required = [one for one in found.alignment.made if not plain[one.step].optional]
    gained = sum(1.0 if one.fits else 0.5 for one in required)
    count_extra = settings.extra == "count"
    whole = found.alignment.required + (len(found.extra) if count_extra else 0)
    score = gained / whole if whole else 1.0

    def justify() -> Justification:
        return _details(found, plain, evidence), _explanation(found, plain, evidence, settings)

    ends = None
    if (unread := unread_call(evidence)) is not None:
        # A call that is not known may be any step, and where those that are none count, such a one.
        score = 0.0 if count_extra else score
        ends = Range(score, 1.0, sentence(unread))
    elif work.unknown is not None and (count_extra or any(step.chosen for step in plain)):
        names = [call.name for call in evidence.calls]
        ends = Range(*_bounds(whole - gained, criteria.read, names, count_extra), sentence(work.unknown))
    return Score(score, justify=justify, range=ends, pairing=_pairing(found, len(plain))), work.unknown


def _bounds(cost: float, steps: Steps, names: Sequence[str], count_extra: bool) -> tuple[float, float]:
    """The least and the most score of a way with this cost, in steps, whichever branches and extra calls it has.

    The best way is that which costs least. A score is 1 less its cost by what is required and counts as extra: where
    that differs from way to way, one that costs more may have the higher score.
    """
    least, most = steps.required, sum(not step.optional for step in steps.plain)
    if count_extra:
        least += max(sum(not steps.table.met_by(name) for name in names), len(names) - len(steps.plain))
        most += len(names)
    return max(0.0, (least - cost) / least) if least else float(not cost), (most - cost) / most


def _pairing(found: _Found, steps: int) -> Pairing:
    made = [(one.step, one.call) for one in found.alignment.made]
    not_asked = set(range(steps)).difference(found.missing, [step for step, _ in made])
    return Pairing.of(steps, made, not_asked)


def _missing(plain: Sequence[PlainStep], made: Sequence[Made]) -> list[int]:
    """The steps that were required and not made: not those of branches that were not gone."""
    taken = {one.step for one in made}
    not_gone = 0
    for one in made:
        for choice in plain[one.step].chosen:
            not_gone |= choice.others
    missing = []
    for number, step in enumerate(plain):
        if step.optional or number in taken or not_gone >> number & 1:
            continue
        # Of a choice in which no branch was gone, the steps of one that requires fewest are missing.
        if any(choice.more for choice in step.chosen if not _is_gone(number, choice.others, plain, taken)):
            continue
        missing.append(number)
        for choice in step.chosen:
            not_gone |= choice.others
    return missing


def _is_gone(number: int, others: int, plain: Sequence[PlainStep], taken: set[int]) -> bool:
    """Whether the branch of step `number`, in the choice whose other branches these are, was gone."""
    return any(choice.others == others for one in taken for choice in plain[one].chosen)


def _out_of_order(found: _Found, plain: Sequence[PlainStep], evidence: Evidence) -> dict[int, int]:
    """For each missing step of which a call is left over, that call."""
    candidates = [
        [place for place in found.extra if evidence.calls[place].name in plain[number].names]
        for number in found.missing
    ]
    places = with_next_unused(candidates, [None] * len(candidates))
    return {number: place for number, place in zip(found.missing, places, strict=True) if place is not None}


def _details(found: _Found, plain: Sequence[PlainStep], evidence: Evidence) -> dict[str, JsonValue]:
    work = Work(evidence=evidence)
    given = evidence.once(arguments_or_unknown)
    astray = _out_of_order(found, plain, evidence)

    def differing(one: Made) -> list[JsonValue]:
        args = plain[one.step].args
        actual = given[one.call]
        if one.fits or args is None or isinstance(actual, Unknown):
            return []
        work.position = one.call
        key = f"{evidence.calls[one.call].name}_{one.call + 1}"
        return listed_differences("args", [(key, differences(args, actual, work, partly=True))])

    steps: list[JsonValue] = []
    by_step = {one.step: one for one in found.alignment.made}
    for number, step in enumerate(plain):
        if (one := by_step.get(number)) is not None:
            shown: dict[str, JsonValue] = {"step": step.called, "found": "made" if one.fits else "wrong arguments"}
            shown |= _call(one.call, evidence)
            if not one.fits:
                shown["differences"] = differing(one)
        elif number in astray:
            shown = {"step": step.called, "found": "out of order", **_call(astray[number], evidence)}
        elif number in found.missing:
            shown = {"step": step.called, "found": "missing"}
        else:
            continue
        steps.append(shown)
    extra: list[JsonValue] = [
        {"name": evidence.calls[place].name, **_call(place, evidence)}
        for place in found.extra
        if place not in astray.values()
    ]
    return {"steps": steps[:MAX_LISTED], "extra": extra[:MAX_LISTED]}


def _call(place: int, evidence: Evidence) -> dict[str, JsonValue]:
    return {"call": place + 1, "span_id": evidence.calls[place].span_id}


def _explanation(found: _Found, plain: Sequence[PlainStep], evidence: Evidence, settings: Settings) -> str:
    astray = _out_of_order(found, plain, evidence)
    parts = []
    missing = [plain[number].called for number in found.missing if number not in astray]
    if missing:
        parts.append(f"missing: {listed(missing)}")
    if astray:
        parts.append(f"out of order: {listed(plain[number].called for number in astray)}")
    wrong = [plain[one.step].called for one in found.alignment.made if not one.fits]
    if wrong:
        parts.append(f"wrong arguments: {listed(wrong)}")
    extra = [evidence.calls[place].name for place in found.extra if place not in astray.values()]
    if extra and settings.extra == "count":
        parts.append(f"extra calls: {listed(extra)}")
    required = found.alignment.required
    made = sum(not plain[one.step].optional and one.fits for one in found.alignment.made)
    said = "All steps were made in an allowed order"
    if made < required:
        said = f"{made} of {were(required, 'step')} made"
    return f"{said}{'; ' if parts else ''}{'; '.join(parts)}."


def _sentences(criteria: Criteria, settings: Settings) -> list[str]:
    return [*steps_in_words(criteria.steps), *(["no other call is made"] if settings.extra == "count" else [])]


def _expected(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    calls = [
        ExpectedCall(step.names) if step.args is None else expected_arguments(step.names, step.args, partly=True)
        for step in criteria.read.plain
    ]
    return ExpectedCalls(calls)


EVALUATOR = Evaluator(
    name="partial-order",
    summary="Were the steps made, in an order that is allowed?",
    Criteria=Criteria,
    Settings=Settings,
    score=in_both_readings(_judge),
    with_further_calls=same_score,
    asks=frozenset({"arguments"}),
    expected_calls=_expected,
    sentences=_sentences,
)
