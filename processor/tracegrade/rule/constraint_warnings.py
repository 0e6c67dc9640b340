"""Constraints of one rule that contradict or repeat each other, or can never be triggered.

Only what is sure is said: sides are compared by the tools that they name, and a side with conditions on arguments is
like no other one.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from tracegrade.document.problem import Location, dotted
from tracegrade.evaluate.constraints.forms import (
    After,
    AtLeast,
    AtMost,
    Before,
    BetweenTwo,
    Counted,
    Exactly,
    First,
    Form,
    Last,
    Never,
    NotBoth,
    Paired,
    RightAfter,
    RightBefore,
)
from tracegrade.evaluate.constraints.sides import Side, conditions_of, tools_named, words_of
from tracegrade.evaluate.criteria.tool_names import NameTable
from tracegrade.evaluate.evaluators import constraints
from tracegrade.model.json_value import JsonValue
from tracegrade.rule.patterns import Patterns
from tracegrade.rule.rule import Rule

_LOOKING_BACK = (Before, RightBefore, BetweenTwo)
_LOOKING_ON = (After, RightAfter)


class _Placed(NamedTuple):
    """A constraint, and where it stands."""

    where: Location
    form: Form


class _Item(NamedTuple):
    """The constraints of one evaluation, under ``evaluate`` or ``then``; ``all_kept``: it passes only with all kept."""

    key: str
    all_kept: bool
    placed: Sequence[_Placed]

    def goes_with(self, other: "_Item") -> bool:
        """Whether a subject passes only if all constraints of both are kept, of the same calls."""
        return self.key == other.key and self.all_kept and other.all_kept


def constraint_warnings(rule: Rule) -> Iterator[tuple[Location, str]]:
    """Warnings about the constraints of a rule, each at its place, and once."""
    yield from dict.fromkeys(_all_warnings(rule))


def _all_warnings(rule: Rule) -> Iterator[tuple[Location, str]]:
    items = list(_items(rule))
    for item in items:
        placed = item.placed
        beside = [one for other in items if other is not item and item.goes_with(other) for one in other.placed]
        for later, one in enumerate(placed):
            yield from _by_itself(one, rule)
            for other in placed[:later]:
                if one.form.model_dump() == other.form.model_dump():
                    yield one.where, f"it says again what {dotted(other.where)} says; remove it"
            for other in (*placed, *beside):
                if other is not one:
                    yield from _contradicted(one, other.form)
            for other in placed[: later + 1]:
                yield from _opposite(other, one)


def _items(rule: Rule) -> Iterator[_Item]:
    for location, spec in rule.placed_specs():
        if spec.evaluator.name == constraints.EVALUATOR.name and spec.case is None:  # a subject meets one case at most
            forms = enumerate(spec.criteria.constraints)
            placed = [_Placed((*location, "constraints", place), form) for place, form in forms]
            yield _Item(str(location[0]), spec.threshold == 1, placed)


def _by_itself(one: _Placed, rule: Rule) -> Iterator[tuple[Location, str]]:
    form = one.form
    for side in form.sides:
        for where in conditions_of(side):
            yield from ((one.where, f"no call can be meant: {why}") for why in _impossible(where.model_dump()))
    if rule.scope == "tool-call" and isinstance(form, Paired | First | Last | NotBoth):
        yield one.where, "scope: tool-call judges one call at a time, and this is about several; write scope: agent"
    if isinstance(form, NotBoth) and _written(form.sides[0]) == _written(form.sides[1]):
        yield one.where, f"both sides are {words_of(form.sides[0])}; name two that differ, or write never or at_most"
    never, tools = _forbidden(form), rule.match.tools
    if never is not None and tools is not None and _covers(never, _tools_of(tools)):
        yield one.where, f"nothing that is judged can keep it: match.tools asks for a call of {words_of(never)}"
    if isinstance(form, AtLeast) and form.at_least == 1 and tools is not None and _covers(form.of, _tools_of(tools)):
        yield one.where, f"it always holds: match.tools asks for a call of {words_of(form.of)}"
    if isinstance(form, Paired) and (unless := _left_out(rule)) is not None and _covers(unless, form.sides[0]):
        yield one.where, f"it is never triggered: unless.tools leaves out who calls {words_of(form.sides[0])}"
    if isinstance(form, Paired) and rule.scope == "tool-call" and tools is not None:
        names = _tool_names(form.sides[0])
        if names is not None and not any(tools.match(name) for name in names):
            yield one.where, f"it is never triggered: match.tools leaves out {words_of(form.sides[0])}"


def _tools_of(patterns: Patterns) -> Side:
    return [*map(str, patterns.exact), *patterns.globs]


def _left_out(rule: Rule) -> Side | None:
    """The tools of which no subject calls any; None where ``unless`` asks for more than tools, or there is none."""
    if rule.unless is None or rule.unless.tools is None or rule.unless.cel is not None or len(rule.unless_clauses) > 1:
        return None
    return _tools_of(rule.unless.tools)


def _forbidden(form: Form) -> Side | None:
    """The calls that must not be made at all; None where it says no such thing."""
    if isinstance(form, Counted):
        return form.of if form.bounds[1] == 0 and getattr(form, "same", None) is None else None
    return form.never if isinstance(form, Never) else None


def _contradicted(one: _Placed, other: Form) -> Iterator[tuple[Location, str]]:
    form = one.form
    never = _forbidden(other)
    if never is not None and (isinstance(other, Never) or not isinstance(form, Counted)):
        yield from _never_called(one, never)
    elif isinstance(other, AtMost | Exactly) and getattr(other, "same", None) is None:
        yield from _too_few(one, other)
    ends: tuple[tuple[type[Form], tuple[type[Form], ...]], ...] = ((First, _LOOKING_BACK), (Last, _LOOKING_ON))
    for end, looking in ends:
        if isinstance(form, end) and isinstance(other, looking) and _covers(other.sides[0], form.sides[0]):
            yield one.where, f"it contradicts '{other.sentence}', unless calls of both are made together"


def _too_few(one: _Placed, other: AtMost | Exactly) -> Iterator[tuple[Location, str]]:
    """Of calls of which there are to be few, that more are asked for."""
    form, (_, most) = one.form, other.bounds
    assert most is not None, "these have one"
    if isinstance(form, AtLeast | Exactly) and form.bounds[0] > most and _covers(other.of, form.of):
        yield one.where, f"it contradicts '{other.sentence}'"


def _opposite(earlier: _Placed, later: _Placed) -> Iterator[tuple[Location, str]]:
    """That a needs b before it (or after it), and b needs a so."""
    for forms, end, has_to in ((_LOOKING_BACK, "first", "come after"), (_LOOKING_ON, "last", "come before")):
        if not isinstance(earlier.form, forms) or not isinstance(later.form, forms):
            continue
        (needing, comes), (of_other, comes_there) = earlier.form.sides, later.form.sides
        if not (_covers(of_other, comes) and _covers(needing, comes_there)):
            continue
        if earlier is later:
            who = words_of(needing)
            yield later.where, f"no {who} can be the {end} to be called: each has to {has_to} another one"
        else:
            both = f"neither {words_of(needing)} nor {words_of(of_other)}"
            yield later.where, f"{both} can be the {end} to be called: each has to {has_to} the other"


def _never_called(one: _Placed, never: Side) -> Iterator[tuple[Location, str]]:
    form = one.form
    if isinstance(form, Paired) and _covers(never, form.sides[1]):
        yield (
            one.where,
            f"no {words_of(form.sides[0])} can be right, as {words_of(form.sides[1])} is never to be called",
        )
    elif isinstance(form, Paired) and _covers(never, form.sides[0]):
        yield one.where, f"it is never triggered: {words_of(form.sides[0])} is never to be called"
    elif isinstance(form, First | Last) and _covers(never, form.sides[0]):
        yield one.where, f"it contradicts that {words_of(form.sides[0])} is never called"
    elif isinstance(form, AtLeast | Exactly) and form.bounds[0] > 0 and _covers(never, form.of):
        yield one.where, f"it contradicts that {words_of(form.of)} is never called"


def _covers(side: Side, other: Side) -> bool:
    """Whether a side means every call that `other` means; one with conditions does so only of itself."""
    names = _tool_names(side)
    if names is None:
        return _written(side) == _written(other)
    table = NameTable([names], "glob")
    return "*" in names or all(
        name in names or (not any(sign in name for sign in "*?[") and bool(table.met_by(name)))
        for name in tools_named(other)
    )


def _written(side: Side) -> list[object]:
    """A side as it is written, since conditions that were read equal none but themselves."""
    items = side if isinstance(side, list) else [side]
    return [item if isinstance(item, str) else item.model_dump() for item in items]


def _tool_names(side: Side) -> Sequence[str] | None:
    """The tools of a side; None where it has conditions."""
    items = side if isinstance(side, list) else [side]
    return [item for item in items if isinstance(item, str)] if all(isinstance(i, str) for i in items) else None


def _impossible(written: JsonValue) -> Iterator[str]:
    """Why no value meets a matcher: its bounds exclude each other."""
    if isinstance(written, list):
        yield from (why for item in written for why in _impossible(item))
    elif isinstance(written, dict):
        for low, high in product(("$gte", "$gt"), ("$lte", "$lt")):
            least, most = written.get(low), written.get(high)
            if not isinstance(least, int | float) or not isinstance(most, int | float):
                continue
            if least > most or (least == most and (low, high) != ("$gte", "$lte")):
                yield f"no value meets {{{low}: {least}, {high}: {most}}}"
        yield from (why for member in written.values() for why in _impossible(member))
