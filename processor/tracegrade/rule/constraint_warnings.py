"""Constraints of one rule that contradict each other, follow from each other, or can never be triggered.

Only what is sure is said: sides are compared by the tools that they name, and a side with conditions on arguments is
like no other one.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations, product
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
    If,
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

# What a constraint with the same sides, and no wider conditions, says as well.
_SAYS_TOO: dict[type[Form], tuple[type[Form], ...]] = {
    RightBefore: (Before, If),
    BetweenTwo: (Before, If),
    Before: (If,),
    RightAfter: (After, If),
    After: (If,),
}
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
    """What looks wrong in the constraints of a rule, each where it stands, and once."""
    yield from dict.fromkeys(_all_warnings(rule))


def _all_warnings(rule: Rule) -> Iterator[tuple[Location, str]]:
    items = list(_items(rule))
    for item in items:
        placed = item.placed
        beside = [one for other in items if other is not item and item.goes_with(other) for one in other.placed]
        for one in placed:
            yield from _by_itself(one, rule)
        for later, one in enumerate(placed):
            for other in placed[:later]:
                yield from _repeated(other, one)
            for other in (*placed, *beside):
                if other is not one:
                    yield from _contradicted(one, other.form)
            yield from _both_needed(one, [*placed, *beside])
            yield from _follows_from_two(one, placed)
        yield from _circle(placed, _LOOKING_BACK, "first", "come after")
        yield from _circle(placed, _LOOKING_ON, "last", "come before")


def _items(rule: Rule) -> Iterator[_Item]:
    for key, number, spec in rule.items():
        if spec.evaluator.name == constraints.EVALUATOR.name:
            forms = enumerate(spec.criteria.constraints)
            placed = [_Placed((key, number, "constraints", place), form) for place, form in forms]
            yield _Item(key, spec.threshold == 1, placed)


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
        names = _names(form.sides[0])
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


def _repeated(earlier: _Placed, later: _Placed) -> Iterator[tuple[Location, str]]:
    one, other = earlier.form, later.form
    if one.model_dump() == other.model_dump():
        yield later.where, f"it says again what {dotted(earlier.where)} says; remove it"
    elif _follows(other, one):
        yield later.where, f"it follows from {dotted(earlier.where)}; remove it"
    elif _follows(one, other):
        yield earlier.where, f"it follows from {dotted(later.where)}; remove it"


def _follows_from_two(one: _Placed, placed: Sequence[_Placed]) -> Iterator[tuple[Location, str]]:
    """Of a pair that two others make in two steps: a needs b, and b needs c."""
    form = one.form
    if not isinstance(form, Paired) or not _are_apart(*form.sides):  # a may itself be the c that b needs
        return
    others = [(other.where, other.form) for other in placed if other is not one and isinstance(other.form, Paired)]
    if any(_follows(form, other) for _, other in others):
        return
    for (first_where, first), (second_where, second) in permutations(others, 2):
        together = _in_two_steps(first, second)
        if together is not None and _follows(form, together):
            yield one.where, f"it follows from {dotted(first_where)} and {dotted(second_where)}; remove it"
            return


def _in_two_steps(first: Paired, second: Paired) -> Form | None:
    """What holds where `first` and `second` do: that whoever needs the one needs what the other needs."""
    if not _covers(second.sides[0], first.sides[1]):
        return None
    same = first.same if first.same == second.same and not isinstance(first.same, dict) else None
    needing, comes = first.sides[0], second.sides[1]
    if isinstance(first, _LOOKING_BACK) and isinstance(second, _LOOKING_BACK):
        return Before.model_construct(before=needing, comes=comes, same=same)
    if isinstance(first, _LOOKING_ON) and isinstance(second, _LOOKING_ON):
        return After.model_construct(after=needing, comes=comes, same=same)
    return If.model_construct(if_=needing, also=comes, same=same)


def _follows(form: Form, other: Form) -> bool:
    """Whether `form` holds wherever `other` does."""
    if isinstance(form, Paired) and isinstance(other, Paired):
        is_weaker = type(form) in (type(other), *_SAYS_TOO.get(type(other), ()))
        covers = _covers(other.sides[0], form.sides[0]) and _covers(form.sides[1], other.sides[1])
        in_time = form.within is None or (other.within is not None and other.within <= form.within)
        return is_weaker and covers and in_time and form.same in (None, other.same)
    if isinstance(form, Paired):
        return _is_always_there(form, other)
    if isinstance(form, NotBoth):
        if isinstance(other, NotBoth) and [*map(_written, form.sides)] == [*map(_written, other.sides)][::-1]:
            return form.same == other.same and not isinstance(form.same, dict)
        never = _forbidden(other)
        return never is not None and any(_covers(never, side) for side in form.sides)
    if isinstance(form, Counted | Never):
        return _counted_already(form, other)
    return False


def _is_always_there(form: Paired, other: Form) -> bool:
    """Whether `other` asks for what `form` asks for, whatever is called."""
    if form.same is not None or form.within is not None or not _are_apart(*form.sides):
        return False
    is_first, is_last = isinstance(other, First), isinstance(other, Last)
    if not (isinstance(form, If) or (is_first and type(form) is Before) or (is_last and type(form) is After)):
        return False
    needed = _needed(other)
    return needed is not None and _covers(form.sides[1], needed)


def _needed(form: Form) -> Side | None:
    """The calls of which one has to be made; None where it says no such thing."""
    if isinstance(form, First | Last) or (isinstance(form, Counted) and form.bounds[0] > 0):
        return form.sides[0]
    return None


def _counted_already(form: Counted | Never, other: Form) -> bool:
    """Whether `other` leaves no more and no fewer calls than `form` does."""
    least, most = form.bounds if isinstance(form, Counted) else (0, 0)
    if (needed := _needed(other)) is not None and most is None and not isinstance(other, Counted):
        return least == 1 and _covers(form.sides[0], needed)
    if not isinstance(other, Counted | Never):
        return False
    other_least, other_most = other.bounds if isinstance(other, Counted) else (0, 0)
    if getattr(other, "same", None) not in (None, getattr(form, "same", None)):
        return False
    enough = least == 0 or (least <= other_least and _covers(form.sides[0], other.sides[0]))
    few = most is None or (other_most is not None and other_most <= most and _covers(other.sides[0], form.sides[0]))
    return enough and few


def _contradicted(one: _Placed, other: Form) -> Iterator[tuple[Location, str]]:
    form = one.form
    never = _forbidden(other)
    if never is not None and (isinstance(other, Never) or not isinstance(form, Counted)):
        yield from _never_called(one, never)
    elif isinstance(other, AtMost | Exactly) and getattr(other, "same", None) is None:
        yield from _too_few(one, other)
    if isinstance(form, Paired) and isinstance(other, NotBoth) and other.same is None:
        sides = list(other.sides)
        if any(all(map(_covers, each, form.sides)) for each in (sides, sides[::-1])):
            yield one.where, f"it contradicts '{other.sentence}'"
    if type(form) is type(other) and _ask_for_others(form, other):
        yield one.where, f"it contradicts '{other.sentence}', unless calls of both are made together"
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
    if isinstance(form, Paired) and most == 1 and all(_covers(other.of, side) for side in form.sides):
        yield one.where, f"no {words_of(form.sides[0])} can be right, as {other.sentence}"


def _ask_for_others(form: Form, other: Form) -> bool:
    """Whether two constraints of one word ask for other calls at the same place."""
    if isinstance(form, First | Last):
        return _are_apart(form.sides[0], other.sides[0])
    if not isinstance(form, RightAfter | RightBefore) or not _alike(form.sides[0], other.sides[0]):
        return False
    return _are_apart(form.sides[1], other.sides[1])


def _both_needed(one: _Placed, placed: Sequence[_Placed]) -> Iterator[tuple[Location, str]]:
    """Of two that must not both be called, that other constraints ask for both."""
    if not isinstance(one.form, NotBoth) or one.form.same is not None:
        return
    needed = [side for each in placed if (side := _needed(each.form)) is not None]
    first, second = one.form.sides
    if any(
        _covers(first, a) and _covers(second, b) and _are_apart(a, b)  # else one call may be what both ask for
        for a, b in permutations(needed, 2)
    ):
        yield one.where, f"it contradicts that {' and '.join(map(words_of, one.form.sides))} have to be called"


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


def _circle(
    placed: Sequence[_Placed], forms: tuple[type[Form], ...], end: str, has_to: str
) -> Iterator[tuple[Location, str]]:
    """Tools each of which has to come after (or before) another of them: none can be called first (or last)."""
    after: dict[str, tuple[str, Location]] = {}
    for one in placed:
        if isinstance(one.form, forms):
            needing, others = map(_names, one.form.sides)
            if needing is not None and others is not None and len(others) == 1:
                after.update(dict.fromkeys(needing, (others[0], one.where)))
    for start, (_, where) in after.items():
        at, way = start, [start]
        while at in after and (at := after[at][0]) not in way:
            way.append(at)
        if at == start and min(way) == start:
            if len(way) == 1:
                yield where, f"no {start} can be the {end} to be called: each has to {has_to} another one"
            else:
                yield where, f"none of {', '.join(way)} can be the {end} to be called: each has to {has_to} another"


def _alike(side: Side, other: Side) -> bool:
    """Whether two sides mean the same calls: a list of one tool is that tool."""
    names, others = _names(side), _names(other)
    return _written(side) == _written(other) if names is None or others is None else set(names) == set(others)


def _are_apart(side: Side, other: Side) -> bool:
    """Whether no call can be of both: they name other tools, and no globs."""
    names, others = set(tools_named(side)), set(tools_named(other))
    return not any(sign in name for name in (*names, *others) for sign in "*?[") and names.isdisjoint(others)


def _covers(side: Side, other: Side) -> bool:
    """Whether a side means every call that `other` means; one with conditions does so only of itself."""
    names = _names(side)
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


def _names(side: Side) -> Sequence[str] | None:
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
