"""Constraints in sentences: what was violated and by which call, and what came nearest to satisfying it.

A sentence names tools, numbers of calls and paths, never values.
"""

from collections.abc import Iterator, Sequence

from tracegrade.display import count
from tracegrade.evaluate.constraints.agreement import Same, lacking, pairs_of, words_of_same
from tracegrade.evaluate.constraints.check import Activation, Checked
from tracegrade.evaluate.constraints.forms import (
    After,
    AtMost,
    Before,
    BetweenTwo,
    Counted,
    Exactly,
    First,
    If,
    Last,
    Never,
    NotBoth,
    Paired,
    RightAfter,
    RightBefore,
)
from tracegrade.evaluate.constraints.sides import Selected, tools_named, words_of
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.not_evaluable_reasons import sentence
from tracegrade.evaluate.wording import agreeing, listed, numbered, times
from tracegrade.model.tool_call import ToolCall

LOOKING_BACK = (Before, RightBefore, BetweenTwo, If)  # what they need may have been called elsewhere, before
_MAX_SENTENCES = 200  # characters of the constraints in the sentence of a pass
_MAX_VIOLATIONS = 3  # in one explanation
_MAX_CALLS = 3  # in one violation


def explanation(checked: Sequence[Checked], evidence: Evidence) -> str:
    """Why the constraints were satisfied, or which were violated."""
    broken = list(violations(checked))
    total = sum(len(each.activations) for each in checked)
    if not broken:
        return _no_violation(checked, total, evidence)
    certain = [(each, activation) for each, activation in broken if not activation.is_doubtful]
    parts = [_violation(each, activation, evidence) for each, activation in certain[:_MAX_VIOLATIONS]]
    if len(certain) > _MAX_VIOLATIONS:
        parts.append(f"and {len(certain) - _MAX_VIOLATIONS} more")
    failed = "" if total == 1 or not certain else f"{len(certain)} of {total} checks failed: "
    if doubtful := len(broken) - len(certain):
        of = f"{doubtful} more" if certain else f"{doubtful} of {count(total, 'check')}"
        parts.append(f"{of} cannot be decided: {unreadable(checked)}")
    return f"{failed}{'; '.join(parts)}."


def not_triggered(checked: Sequence[Checked]) -> str:
    """Why none of the constraints applies."""
    needing = [
        words_of(each.form.sides[0]) for each in checked if isinstance(each.form, Paired) and not each.activations
    ]
    return f"No constraint applies: {listed(needing)} {agreeing(len(set(needing)), 'was', 'were')} not called."


def untouched(checked: Sequence[Checked]) -> list[str]:
    """The sentences of the constraints that do not apply."""
    return [each.form.sentence for each in checked if not each.activations]


def unreadable(checked: Sequence[Checked]) -> str:
    """The first thing that could not be read and on which an outcome depends."""
    for each in checked:
        if all(activation.certain and activation.at_worst is activation.at_best for activation in each.activations):
            continue
        if (unknown := each.unknown) is not None:
            return sentence(unknown)
    return "a constraint has a time limit, and the times of calls were not recorded"


def violations(checked: Sequence[Checked]) -> Iterator[tuple[Checked, Activation]]:
    """Each violation, with its constraint."""
    for each in checked:
        for activation in each.activations:
            if activation.is_broken:
                yield each, activation


def nearest(checked: Checked, position: int) -> int | None:
    """The other call that came nearest to what was needed: one that agrees before one that does not, the nearest."""
    keys = checked.keys
    assert keys is not None
    places = [place for place, is_meant in enumerate(checked.meant[1].certain) if is_meant and place != position]
    return min(
        places,
        key=lambda place: (keys.of_first[position] != keys.of_other[place], abs(place - position), place),
        default=None,
    )


def _no_violation(checked: Sequence[Checked], total: int, evidence: Evidence) -> str:
    sentences = "; ".join(each.form.sentence for each in checked if each.activations)
    text = f"No violation in {count(total, 'check')}"
    if len(sentences) <= _MAX_SENTENCES:
        text = f"{text}: {sentences}"
    else:  # of patterns of names: those of the calls say more
        places = sorted({place for each in checked for found in each.activations for place in found.calls})
        names = listed(evidence.calls[place].name for place in places)
        text = f"{text} of {names or count(len(evidence.calls), 'call')}"
    unused = untouched(checked)
    return f"{text}; {count(len(unused), 'constraint')} did not apply." if unused else f"{text}."


def _violation(checked: Checked, activation: Activation, evidence: Evidence) -> str:
    """What happened, and what was required."""
    form = checked.form
    calls = [numbered(evidence, place) for place in activation.calls]
    if isinstance(form, Paired):
        return f"{_unpaired(form, calls[0])}{_nearest_miss(checked, activation.calls[0], evidence)}"
    if isinstance(form, Never):
        return f"{_few(calls)} {agreeing(len(calls), 'was', 'were')} made, and {words_of(form.never)} is forbidden"
    if isinstance(form, NotBoth):
        more = f", and {count(len(calls) - 2, 'more call')}" if len(calls) > 2 else ""
        return f"{' and '.join(calls[:2])} were both made{_with(form.same)}{more}, where only one is allowed"
    if isinstance(form, AtMost) and form.same is not None:
        places = listed(str(place + 1) for place in activation.calls)
        return f"{words_of(form.of)} was called more than {times(form.at_most)}{_with(form.same)} (calls {places})"
    if isinstance(form, Counted):
        return f"{words_of(form.of)} was {_called(form, checked.meant[0])}, where {_required(form)}"
    assert isinstance(form, First | Last), "the words are all known"
    made = [evidence.calls[place].name or "a tool of unknown name" for place in activation.calls]
    found = f"the {form.word} call was {listed(made)}" if made else "no call was made"
    return f"{found}, where {words_of(form.sides[0])} was required"


def _unpaired(form: Paired, call: str) -> str:
    other = words_of(form.sides[1])
    agreeing = f"{_with(form.same)}{'' if form.within is None else f' within {form.within_text}'}"
    if isinstance(form, After):
        return f"{call} was not followed by {other}{agreeing}"
    if isinstance(form, RightAfter):
        return f"{call} was not directly followed by {other}{agreeing}"
    if isinstance(form, RightBefore):
        return f"{call} was not directly preceded by {other}{agreeing}"
    if isinstance(form, BetweenTwo):
        return f"{call} was made without an earlier {other}{agreeing} of its own"
    if isinstance(form, Before):
        return f"{call} was made without an earlier {other}{agreeing}"
    return f"{call} was made without {other}{agreeing}"


def _few(calls: Sequence[str]) -> str:
    more = f" and {count(len(calls) - _MAX_CALLS, 'more call')}" if len(calls) > _MAX_CALLS else ""
    return f"{', '.join(calls[:_MAX_CALLS])}{more}"


def _with(same: Same | None) -> str:
    return "" if same is None else f" with {words_of_same(same)}"


def _called(form: Counted, meant: Selected) -> str:
    """How often, as far as it is known: calls that may be meant count where there are too few all the same."""
    certain, possible = meant.count(range(len(meant.certain)))
    is_too_many = form.bounds[1] is not None and certain > form.bounds[1]
    number = certain if is_too_many else possible
    limit = "" if certain == possible else "at least " if is_too_many else "at most "
    return f"called {limit}{times(number)}" if number else "not called"


def _required(form: Counted) -> str:
    least, most = form.bounds
    if isinstance(form, Exactly):
        return f"exactly {count(least, 'call')} {agreeing(least, 'is', 'are')} required"
    if most is None:
        return f"at least {count(least, 'call')} {agreeing(least, 'is', 'are')} required"
    return f"at most {count(most, 'call')} {agreeing(most, 'is', 'are')} allowed" if most else "no call is allowed"


def _nearest_miss(checked: Checked, position: int, evidence: Evidence) -> str:
    """Why the call that came nearest does not satisfy the constraint; "" where none came near."""
    form, keys = checked.form, checked.keys
    assert isinstance(form, Paired)
    assert keys is not None
    if form.same is not None and keys.of_first[position] is None:
        return f"; it {_has_no([first for first, _ in pairs_of(form.same)], evidence, position)}"
    place = nearest(checked, position)
    if place is None:
        return _elsewhere(form, evidence.calls[position], evidence)
    other = numbered(evidence, place)
    if form.same is not None and keys.of_other[place] is None:
        return f"; {other} {_has_no([name for _, name in pairs_of(form.same)], evidence, place)}"
    if keys.of_first[position] != keys.of_other[place]:
        assert form.same is not None, "without it all agree"
        return f"; {other} does not have {words_of_same(form.same)}"
    if isinstance(form, BetweenTwo) and place < position:
        return f"; {other} belongs to an earlier call"
    if form.within is not None and (place < position) is not isinstance(form, After | RightAfter):
        return f"; {other} was too far away in time"
    return f"; {other} came {'before' if place < position else 'after'} it"


def _has_no(paths: Sequence[str], evidence: Evidence, place: int) -> str:
    return f"has no {' and no '.join(lacking(paths, evidence, place))}"


def _elsewhere(form: Paired, call: ToolCall, evidence: Evidence) -> str:
    """That another agent made what is missing before `call`; "" where none did."""
    context = evidence.trace_context
    if context is None or not isinstance(form, LOOKING_BACK):
        return ""
    for tool in tools_named(form.sides[1]):
        if (agent := context.agent_that_called(tool, call)) is not None:
            by = f"agent {agent}" if agent else "another agent"
            return f"; {listed([tool])} was called by {by}, which counts only with scope: trace"
    return ""
