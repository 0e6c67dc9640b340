"""Whether one constraint holds for the calls of a run: its activations, and which of them are satisfied.

What cannot be read is taken both ways: an activation has the verdict for the worst and for the best of all that may be.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from tracegrade.evaluate.call_facts import unread_call
from tracegrade.evaluate.constraints.agreement import ANY, UNKNOWN, Key, Keys
from tracegrade.evaluate.constraints.forms import (
    After,
    AtMost,
    Before,
    BetweenTwo,
    Counted,
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
from tracegrade.evaluate.constraints.order import (
    Roles,
    adjacent,
    each_with_its_own,
    followed,
    preceded,
)
from tracegrade.evaluate.constraints.sides import Selected
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.timeline import Concurrency, Groups, Timeline
from tracegrade.evaluate.work import Work
from tracegrade.model.tri import Unknown


@dataclass(frozen=True, slots=True)
class Activation:
    """One time that a constraint applies.

    Attributes:
        calls: the positions of the calls that it is about: the one that needs another, or those that break it.
        certain: whether it applies for sure; else that cannot be read.
        at_worst: whether it is satisfied, if what cannot be read is against it.
        at_best: whether it is, if that is in its favour.
    """

    calls: Sequence[int]
    certain: bool
    at_worst: bool
    at_best: bool

    @property
    def is_broken(self) -> bool:
        """Whether it is not satisfied at worst, for a reason that is known: not because of calls that are not."""
        return not self.at_worst and (bool(self.calls) or not self.at_best)

    @property
    def is_doubtful(self) -> bool:
        """Whether it may be satisfied, or may not apply, so that it is broken only at worst."""
        return self.at_best or not self.certain


@dataclass(frozen=True, slots=True)
class Checked:
    """A constraint and its activations; none: it was never triggered.

    ``meant`` are the calls that its sides mean, and ``keys`` the values on which they agree, if any have to.
    """

    form: Form
    activations: Sequence[Activation]
    meant: Sequence[Selected] = ()
    keys: Keys | None = None

    @property
    def unknown(self) -> Unknown | None:
        """What cannot be read of the first call of which something cannot."""
        of_keys = {} if self.keys is None else self.keys.unknown
        found = ({**each.unknown, **of_keys} for each in self.meant)
        return next((each[min(each)] for each in found if each), None)


def check(
    form: Form, evidence: Evidence, work: Work, concurrency: Concurrency = "batches", *, unread: bool = False
) -> Checked:
    """Find the activations of a constraint.

    Args:
        form: the constraint.
        evidence: the calls.
        work: counts the steps.
        concurrency: whether calls made together have the order of their starts, too.
        unread: whether more calls may have been made than are known. They may be any, anywhere: an activation has the
            verdicts for that, but those that such a call would itself be are not among them.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    groups = evidence.once(Timeline).groups(concurrency)
    if isinstance(form, Paired):
        return _paired(form, evidence, groups, work, unread)
    if isinstance(form, Counted):
        return _counted(form, evidence, work, unread)
    if isinstance(form, NotBoth):
        return _not_both(form, evidence, work, unread)
    if isinstance(form, Never):
        meant = form.tables[0].select(evidence, work)
        calls = meant.places_certain or meant.places
        return Checked(form, [Activation(calls, True, not (calls or unread), True not in meant.certain)], [meant])
    assert isinstance(form, First | Last), "the words are all known"
    group = (groups[0] if isinstance(form, First) else groups[-1]) if groups else ()
    if unread and isinstance(form, First) and group:
        unread = unread_call(evidence, evidence.calls[group[0]]) is not None
    meant = form.tables[0].select(evidence, work)
    certain, possible = meant.count(group)
    return Checked(form, [Activation([*group[:1]], True, certain > 0 and not unread, possible > 0 or unread)], [meant])


def _paired(form: Paired, evidence: Evidence, groups: Groups, work: Work, unread: bool) -> Checked:
    needing = form.tables[0].select(evidence, work)
    if True not in needing.possible:
        return Checked(form, [])
    others = form.tables[1].select(evidence, work)
    keys = Keys(form.same, evidence, work, needing.possible, others.possible)
    within_ns = inf if form.within is None else round(form.within * 1e9)
    satisfied = _CHECKS[type(form)]
    at_best = at_worst = satisfied(groups, Roles.pessimistic(needing, others, keys, evidence.calls, within_ns), work)
    is_known = not (needing.unknown or others.unknown or keys.unknown)
    if not is_known or (within_ns < inf and not _has_times(evidence, needing, others)):
        at_best = satisfied(groups, Roles.optimistic(needing, others, keys, evidence.calls, within_ns), work)
    looks_back = isinstance(form, Before | RightBefore | BetweenTwo)

    def helped(place: int) -> bool:
        """Whether a call that is not known may be what the one at `place` needs."""
        return unread and (not looks_back or unread_call(evidence, evidence.calls[place]) is not None)

    return Checked(
        form,
        [
            Activation(
                [place], needing.certain[place], at_worst[place] and at_best[place], at_best[place] or helped(place)
            )
            for place, may_need in enumerate(needing.possible)
            if may_need
        ],
        [needing, others],
        keys,
    )


def _has_times(evidence: Evidence, *meant: Selected) -> bool:
    calls = [evidence.calls[place] for each in meant for place in each.places]
    return all(call.start_ns and call.end_ns for call in calls)


def _either(groups: Groups, roles: Roles, work: Work) -> list[bool]:
    before, after = preceded(groups, roles, work), followed(groups, roles, work)
    return [one or other for one, other in zip(before, after, strict=True)]


_CHECKS: dict[type[Paired], Callable[[Groups, Roles, Work], list[bool]]] = {
    Before: preceded,
    After: followed,
    RightAfter: lambda groups, roles, work: adjacent(groups, roles, work, backwards=False),
    RightBefore: lambda groups, roles, work: adjacent(groups, roles, work, backwards=True),
    BetweenTwo: each_with_its_own,
    If: _either,
}


def _counted(form: Counted, evidence: Evidence, work: Work, unread: bool) -> Checked:
    meant = form.tables[0].select(evidence, work)
    least, most = form.bounds
    calls, keys = meant.places, None
    if isinstance(form, AtMost) and form.same is not None:
        keys = Keys(form.same, evidence, work, meant.possible)
        fewest, highest, calls = _most_of_one_value(meant, calls, keys.of_first, form.at_most)
    else:
        fewest, highest = meant.count(calls)
        if most is not None and fewest > most:
            calls = meant.places_certain
    if unread:
        highest = max(highest, least, (most or 0) + 1)
    at_worst = fewest >= least and (most is None or highest <= most)
    at_best = highest >= least and (most is None or fewest <= most)
    return Checked(form, [Activation(calls, True, at_worst, at_best)], [meant], keys)


def _most_of_one_value(
    meant: Selected, calls: Sequence[int], keys: Sequence[Key | None], most: int
) -> tuple[int, int, list[int]]:
    """How many calls have one and the same value, at least and at most, and the calls of values that too many have."""
    certain = Counter(keys[place] for place in calls if meant.certain[place] and keys[place] is not None)
    possible = Counter(keys[place] for place in calls if keys[place] is not None)
    unknown = possible.pop(UNKNOWN, 0)
    certain.pop(UNKNOWN, 0)
    too_many = [place for place in calls if meant.certain[place] and certain.get(keys[place], 0) > most]
    if not too_many:
        too_many = [place for place in calls if possible.get(keys[place], 0) + unknown > most or keys[place] == UNKNOWN]
    return max(certain.values(), default=0), max(possible.values(), default=0) + unknown, too_many


def _not_both(form: NotBoth, evidence: Evidence, work: Work, unread: bool) -> Checked:
    one, other = (table.select(evidence, work) for table in form.tables)
    keys = Keys(form.same, evidence, work, one.possible, other.possible)
    certain = _meet(one.certain, other.certain, *keys.pessimistic())
    possible = _meet(one.possible, other.possible, *keys.optimistic())
    at_worst = not (possible or unread)
    return Checked(form, [Activation(certain or possible, True, at_worst, not certain)], [one, other], keys)


def _meet(
    one: Sequence[bool], other: Sequence[bool], keys_of_one: Sequence[Key | None], keys_of_other: Sequence[Key | None]
) -> list[int]:
    """The calls of both kinds that agree, two different ones."""
    first, second = _by_key(one, keys_of_one), _by_key(other, keys_of_other)
    found: dict[int, None] = {}
    for key, places in first.items():
        if key == ANY:
            partners = [place for some in second.values() for place in some]
        else:
            partners = [*second.get(key, ()), *second.get(ANY, ())]
        if len({*places, *partners}) > 1 and partners:
            found.update(dict.fromkeys([places[0], next((p for p in partners if p != places[0]), places[-1])]))
    return sorted(found)


def _by_key(meant: Sequence[bool], keys: Sequence[Key | None]) -> dict[Key, list[int]]:
    places: dict[Key, list[int]] = {}
    for place, is_meant in enumerate(meant):
        if is_meant and (key := keys[place]) is not None:
            places.setdefault(key, []).append(place)
    return places
