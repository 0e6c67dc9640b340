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

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property, partial
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from tracegrade.evaluate.call_facts import REMEMBERED, NamesMade, unread_call
from tracegrade.evaluate.constraints.agreement import pairs_of, words_of_same
from tracegrade.evaluate.constraints.check import Activation, Checked, check
from tracegrade.evaluate.constraints.forms import (
    AtMost,
    Before,
    BetweenTwo,
    Constraint,
    Counted,
    First,
    If,
    Last,
    Never,
    NotBoth,
    Paired,
    RightBefore,
)
from tracegrade.evaluate.constraints.sides import tools_named, words_of
from tracegrade.evaluate.criteria.parameters import Concurrency, DefaultCriteria, NotedSettings, ParameterModel
from tracegrade.evaluate.evaluator import Evaluator, same_score
from tracegrade.evaluate.evidence import Evidence, Justification, Score
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.unknown import sentence
from tracegrade.evaluate.wording import counted, listed
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.range import Range
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.tri import Unknown

_MAX_SHOWN = 20  # violations of one constraint in the details
_MAX_READABLE = 200  # characters of the sentences of constraints that were kept
_MAX_SAID = 3  # violations in the explanation
_LOOKING_BACK = (Before, RightBefore, BetweenTwo, If)  # what they need may have been called elsewhere, before


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
        Literal["not_evaluable", "pass"], Field(description="What comes of it when no constraint was triggered.")
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
    why = _unknown(checked) if unread is None else sentence(unread)
    return Score(at_worst, justify=justify, range=Range(at_worst, at_best, why))


def _justified(checked: Sequence[Checked], evidence: Evidence) -> Justification:
    return _details(checked, evidence), _explanation(checked, evidence)


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
        text = f"No constraint was triggered: {_never_triggered(checked)}."
        return Score(1.0 if settings.vacuous == "pass" else None, details, text)
    why = _unknown(checked)
    if settings.vacuous == "pass":
        least = _share_at_worst(activations)
        return Score(least, details, why, range=Range(least, 1.0, why))
    return Score(None, details, why)


def _never_triggered(checked: Sequence[Checked]) -> str:
    needing = [
        words_of(each.form.sides[0]) for each in checked if isinstance(each.form, Paired) and not each.activations
    ]
    return f"{listed(needing)} was not called"


def _unknown(checked: Sequence[Checked]) -> str:
    """What cannot be read."""
    for each in checked:
        if all(activation.certain and activation.at_worst is activation.at_best for activation in each.activations):
            continue
        if (unknown := each.unknown) is not None:
            return sentence(unknown)
    return "a constraint has a bound in time, and the times of calls were not recorded"


def _explanation(checked: Sequence[Checked], evidence: Evidence) -> str:
    broken = list(_violations(checked))
    total = sum(len(each.activations) for each in checked)
    unheld = _untouched(checked)
    if not broken:
        sentences = "; ".join(each.form.sentence for each in checked if each.activations)
        text = f"Kept {total} of {counted(total, 'time')}"
        if len(sentences) <= _MAX_READABLE:
            text = f"{text}: {sentences}"
        else:  # of patterns of names: those of the calls say more
            places = sorted({place for each in checked for found in each.activations for place in found.calls})
            names = listed(evidence.calls[place].name for place in places)
            text = f"{text}, for {names}" if names else f"{text}, over {counted(len(evidence.calls), 'call')}"
        return f"{text}; {counted(len(unheld), 'constraint')} never triggered." if unheld else f"{text}."
    surely = [(each, activation) for each, activation in broken if not activation.is_doubtful]
    said = [_why(each, activation, evidence) for each, activation in surely[:_MAX_SAID]]
    if len(surely) > _MAX_SAID:
        said.append(f"and {len(surely) - _MAX_SAID} more")
    if doubtful := len(broken) - len(surely):
        said.append(f"{doubtful} cannot be told: {_unknown(checked)}")
    return f"Kept {total - len(broken)} of {total} times: {'; '.join(said)}."


def _untouched(checked: Sequence[Checked]) -> list[str]:
    return [each.form.sentence for each in checked if not each.activations]


def _violations(checked: Sequence[Checked]) -> Iterator[tuple[Checked, Activation]]:
    for each in checked:
        for activation in each.activations:
            if activation.is_broken:
                yield each, activation


def _why(checked: Checked, activation: Activation, evidence: Evidence) -> str:
    """What is wrong, in words that name tools."""
    form = checked.form
    names = [evidence.calls[place].name for place in activation.calls]
    if isinstance(form, Paired):
        found = _nearest_miss(checked, activation.calls[0], evidence)
        return f"{form.sentence}, and {listed(names)} had none{found}"
    if isinstance(form, Never):
        return f"{form.sentence}, and {listed(names)} was"
    if isinstance(form, NotBoth):
        return f"{form.sentence}, and {' and '.join(names)} were"
    if isinstance(form, AtMost) and form.same is not None:
        return f"{form.sentence}, and {listed(names)} was called more often"
    if isinstance(form, Counted):
        return f"{form.sentence}, and it was {counted(len(names), 'time')}"
    assert isinstance(form, First | Last), "the words are all known"
    return f"{form.sentence}, and it was {listed(names)}" if names else f"{form.sentence}, and none was made"


def _nearest_miss(checked: Checked, position: int, evidence: Evidence) -> str:
    """What came nearest to what was needed; "" where nothing came near."""
    form, keys = checked.form, checked.keys
    assert isinstance(form, Paired)
    assert keys is not None
    if form.same is not None and keys.of_first[position] is None:
        return f": it has no {listed(first for first, _ in pairs_of(form.same))} itself"
    place = _counterpart(checked, position)
    if place is None:
        return _elsewhere(form, evidence.calls[position], evidence)
    name = listed([evidence.calls[place].name])
    if form.same is not None and keys.of_other[place] is None:
        return f": the nearest {name} has no {listed(other for _, other in pairs_of(form.same))}"
    if keys.of_first[position] != keys.of_other[place]:
        assert form.same is not None, "without it all agree"
        return f": the nearest {name} does not have {words_of_same(form.same)}"
    if isinstance(form, BetweenTwo) and place < position:
        return f": the {name} before it was that of another call"
    if form.within is not None and (place < position) is (form.word not in ("after", "right_after")):
        return f": the nearest {name} was not so near in time"
    return f": {name} came {'before' if place < position else 'after'} it"


def _elsewhere(form: Paired, call: ToolCall, evidence: Evidence) -> str:
    """That another agent made what is missing before `call`; "" where none did."""
    context = evidence.trace_context
    if context is None or not isinstance(form, _LOOKING_BACK):
        return ""
    for tool in tools_named(form.sides[1]):
        if (agent := context.agent_that_called(tool, call)) is not None:
            return f": {listed([tool])} was called by {agent or 'another agent'}, which scope: trace sees"
    return ""


def _not_called(checked: Sequence[Checked], evidence: Evidence) -> list[JsonValue]:
    """The tools of which a call was missing before another one, and none was made."""
    called = {call.name for call in evidence.calls}
    missing = (
        tool
        for each in checked
        if isinstance(each.form, _LOOKING_BACK) and any(activation.is_broken for activation in each.activations)
        for tool in tools_named(each.form.sides[1])
    )
    return [*dict.fromkeys(tool for tool in missing if tool not in called)]


def _counterpart(checked: Checked, position: int) -> int | None:
    """The other call that came nearest to what was needed: one that agrees before one that does not, the nearest."""
    keys = checked.keys
    assert keys is not None
    places = [place for place, is_meant in enumerate(checked.meant[1].certain) if is_meant and place != position]
    return min(
        places,
        key=lambda place: (keys.of_first[position] != keys.of_other[place], abs(place - position), place),
        default=None,
    )


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
    details: dict[str, JsonValue] = {"constraints": constraints, "never_triggered": [*_untouched(checked)]}
    if not_called := _not_called(checked, evidence):
        details["not_called"] = not_called
    return details


def _violation(checked: Checked, activation: Activation, evidence: Evidence) -> dict[str, JsonValue]:
    calls: list[JsonValue] = [_call(place, evidence) for place in activation.calls[:_MAX_SHOWN]]
    found: dict[str, JsonValue] = {"calls": calls}
    if isinstance(checked.form, Paired) and (near := _counterpart(checked, activation.calls[0])) is not None:
        found["nearest"] = _call(near, evidence)
    if activation.is_doubtful:
        found["unknown"] = True
    return found


def _call(place: int, evidence: Evidence) -> dict[str, JsonValue]:
    call = evidence.calls[place]
    return {"name": call.name, "call": place + 1, "span_id": call.span_id}


EVALUATOR = Evaluator(
    name="constraints",
    summary="Do the calls keep to what was said of their order and number?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    asks=frozenset({"arguments", "output"}),
    with_further_calls=same_score,
    sentences=lambda criteria, settings: [f"{form.rule} ({form.template})" for form in criteria.constraints],
)
