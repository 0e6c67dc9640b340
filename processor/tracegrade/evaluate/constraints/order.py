"""Which calls have another one before, after or beside them, in the best order of what was made together.

Positions come in groups, as `call_order` makes them: inside a group the order means nothing, or is not known, and it is
taken as suits the constraint best.

All functions give, for each position, whether a call there would be satisfied; they take no more than n log n steps,
but for groups in which many calls were made together: `adjacent` sorts these out pair by pair, and where calls that are
meant by both sides wait for each other, `preceded` and `followed` look at those again.
"""

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Self

from tracegrade.evaluate.constraints.agreement import ANY, UNKNOWN, Key, Keys
from tracegrade.evaluate.constraints.sides import Selected
from tracegrade.evaluate.pairing.in_order import Fits, Matching
from tracegrade.evaluate.timeline import Groups
from tracegrade.evaluate.work import Work
from tracegrade.model.tool_call import ToolCall

_EVER = 1 << 70  # further than any two times are apart


@dataclass(frozen=True, slots=True)
class Roles:
    """What is asked of the calls: which need another one, which are such another one, and how the two belong together.

    It is one reading of them, of which all is known: in the optimistic one, what is unknown is as suits the
    constraint, in the pessimistic one it is against it.

    Attributes:
        needing: which need another one.
        sure: which of these come first where not all can have one, and take one from those after them.
        others: which are such another one.
        keys_of_needing: on what those that need one have to agree; None agrees with nothing, `ANY` with every key.
        keys_of_others: the same of the others.
        starts: when each call started, ns.
        ends: when each ended.
        within_ns: the most from the end of the earlier call to the start of the later one; infinite without a bound.
    """

    needing: Sequence[bool]
    sure: Sequence[bool]
    others: Sequence[bool]
    keys_of_needing: Sequence[Key | None]
    keys_of_others: Sequence[Key | None]
    starts: Sequence[int]
    ends: Sequence[int]
    within_ns: float

    @classmethod
    def pessimistic(
        cls, needing: Selected, others: Selected, keys: Keys, calls: Sequence[ToolCall], within_ns: float
    ) -> Self:
        """All may need another one, only what is certainly such a one is, and a time that is unknown is too far off."""
        times = _times(calls, within_ns, start=_EVER, end=-_EVER)
        return cls(needing.possible, needing.possible, others.certain, *keys.pessimistic(), *times, within_ns)

    @classmethod
    def optimistic(
        cls, needing: Selected, others: Selected, keys: Keys, calls: Sequence[ToolCall], within_ns: float
    ) -> Self:
        """All that may be such another one is, and a time that is unknown is near."""
        times = _times(calls, within_ns, start=-_EVER, end=_EVER)
        return cls(needing.possible, needing.certain, others.possible, *keys.optimistic(), *times, within_ns)

    def agree(self, needing: int, other: int, *, other_first: bool) -> bool:
        """Whether the calls at two positions belong together."""
        one, two = self.keys_of_needing[needing], self.keys_of_others[other]
        if one is None or two is None or (one != two and ANY not in (one, two)):
            return False
        earlier, later = (other, needing) if other_first else (needing, other)
        return self.starts[later] - self.ends[earlier] <= self.within_ns


def _times(calls: Sequence[ToolCall], within_ns: float, *, start: int, end: int) -> tuple[Sequence[int], Sequence[int]]:
    """When calls started and ended, with these where that is unknown; all at once where no time matters."""
    if within_ns == inf:
        at_once = [0] * len(calls)
        return at_once, at_once
    return [call.start_ns or start for call in calls], [call.end_ns or end for call in calls]


class _Nearest:
    """The others that were passed, by key: the time of the nearest. Backwards, times are negative: later is nearer."""

    def __init__(self, roles: Roles, *, backwards: bool) -> None:
        self._roles = roles
        self._backwards = backwards
        self._by_key: dict[Key, float] = {}
        self._latest = -inf  # of any key

    def add(self, position: int) -> None:
        """Pass another one."""
        key = self._roles.keys_of_others[position]
        if key is None:
            return
        time = -self._roles.starts[position] if self._backwards else self._roles.ends[position]
        self._latest = max(self._latest, time)
        self._by_key[key] = max(self._by_key.get(key, -inf), time)

    def meets(self, position: int) -> bool:
        """Whether one that was passed belongs to the call at `position`."""
        roles, by_key = self._roles, self._by_key
        key = roles.keys_of_needing[position]
        if key is None:
            return False
        nearest = self._latest if key == ANY else max(by_key.get(key, -inf), by_key.get(ANY, -inf))
        time = -roles.ends[position] if self._backwards else roles.starts[position]
        return nearest > -inf and time - nearest <= roles.within_ns


def preceded(groups: Groups, roles: Roles, work: Work) -> list[bool]:
    """Whether one of the others comes before."""
    return _passed(groups, roles, work, backwards=False)


def followed(groups: Groups, roles: Roles, work: Work) -> list[bool]:
    """Whether one of the others comes after."""
    return _passed([group[::-1] for group in reversed(groups)], roles, work, backwards=True)


def _passed(groups: Groups, roles: Roles, work: Work, *, backwards: bool) -> list[bool]:
    nearest = _Nearest(roles, backwards=backwards)
    satisfied = [False] * len(roles.needing)
    for group in groups:
        work.spend(2 * len(group))
        both = [position for position in group if roles.others[position] and roles.sure[position]]
        kept = {*both}
        for position in group:
            if roles.others[position] and position not in kept:
                nearest.add(position)
        found = True
        while both and found:  # what has what it needs comes first, and may be what another one needs
            work.spend(len(both))
            left: list[int] = []
            for position in both:
                satisfied[position] = nearest.meets(position)
                (nearest.add if satisfied[position] else left.append)(position)
            found, both = len(left) < len(both), left
        for position in both:
            satisfied[position] = nearest.meets(position)
            nearest.add(position)
        for position in group:
            if roles.needing[position] and position not in kept:
                satisfied[position] = nearest.meets(position)
    return satisfied


def adjacent(groups: Groups, roles: Roles, work: Work, *, backwards: bool) -> list[bool]:
    """Whether one of the others comes right after; with `backwards`, right before.

    Inside a group as many as can take another one of it; one call may stand last, next to the first of the group after.
    Which do is decided for all groups together: the most that are satisfied up to a group, by what waits at its end.

    Args:
        groups: of positions.
        roles: of the calls.
        work: counts the steps.
        backwards: whether the others come right before.
    """
    if backwards:
        groups = [group[::-1] for group in reversed(groups)]
    ways: dict[int | None, _Way] = {None: _Way((0, 0), (), None)}
    for number, group in enumerate(groups):
        following = groups[number + 1] if number + 1 < len(groups) else ()
        ways = _through(ways, _Group(group, following, roles, work, other_first=backwards))
    satisfied = [False] * len(roles.needing)
    way: _Way | None = max(ways.values(), key=lambda way: way.number)
    while way is not None:
        for position in way.satisfied:
            satisfied[position] = True
        way = way.before
    return satisfied


class _Way(NamedTuple):
    """How groups can be ordered: how many calls are satisfied (sure ones; all), which of the last, what was before."""

    number: tuple[int, int]
    satisfied: Sequence[int]
    before: "_Way | None"

    def then(self, satisfied: Sequence[int], sure: Sequence[bool]) -> "_Way":
        """The way on, with these calls of the next group."""
        of_sure, of_all = self.number
        return _Way((of_sure + sum(sure[p] for p in satisfied), of_all + len(satisfied)), satisfied, self)


class _Group:
    """Calls that were made together, and which of them may stand at the ends."""

    def __init__(
        self,
        calls: Sequence[int],
        following: Sequence[int],
        roles: Roles,
        work: Work,
        *,
        other_first: bool,
    ) -> None:
        self._roles, self._work, self._other_first = roles, work, other_first
        self.calls, self.sure = calls, roles.sure
        self.needing = [position for position in calls if roles.needing[position]]
        self.needing.sort(key=lambda position: not roles.sure[position])
        self.others = [position for position in calls if roles.others[position]]
        next_others = [position for position in following if roles.others[position]]
        # Of calls that are alike the last may stand last, and the first first, so that two can stand at the two ends.
        waiting = self._unlike(self.needing)
        self.may_wait = [place for place in waiting if any(self.agree(place, other) for other in next_others)]
        self._may_be_first = self._unlike(self.others[::-1])
        self._known: dict[tuple[int | None, int | None], Sequence[int]] = {}

    def agree(self, needing: int, other: int) -> bool:
        """Whether the call at `other` is what the one at `needing` needs."""
        self._work.spend()
        return self._roles.agree(needing, other, other_first=self._other_first)

    def may_be_first(self, waiting: int) -> Sequence[int]:
        """The calls that are what one before this group waits for; of those that are alike, one."""
        return [place for place in self._may_be_first if self.agree(waiting, place)]

    def satisfied(self, first: int | None, last: int | None) -> Sequence[int]:
        """The calls that have what they need inside, when these stand first and last, for the sake of others."""
        found = self._known.get((first, last))
        if found is None:
            found = self._known[first, last] = self._paired(first, last)
        return found

    def _paired(self, first: int | None, last: int | None) -> Sequence[int]:
        needing = [position for position in self.needing if position != last]
        others = [position for position in self.others if position != first]
        if len(self.calls) == 1 or not needing or not others:
            return ()
        fits: list[Fits] = [
            {index: 1.0 for index, one in enumerate(needing) if one != other and self.agree(one, other)}
            for other in others
        ]
        matching = Matching(fits, self._work)
        for index in range(len(needing)):
            matching.add(index)
        after = {needing[index]: others[place] for index, place in matching.member_of.items()}
        return _Lines(after, needing, others, first, last, self).satisfied

    def _unlike(self, positions: Sequence[int]) -> Sequence[int]:
        """The last of each kind of calls: without a bound in time, those of the same keys are alike."""
        roles = self._roles
        if roles.within_ns < inf:
            return positions
        kinds: dict[Hashable, int] = {}
        for position in positions:
            one, other = roles.needing[position], roles.others[position]
            kind = one and (self.sure[position], roles.keys_of_needing[position])
            kinds[kind, other and (True, roles.keys_of_others[position])] = position
        return list(kinds.values())


class _Lines:
    """Calls of a group in lines, each call next to the one that it needs: the pairs of a matching, without circles."""

    def __init__(
        self,
        after: dict[int, int],
        needing: Sequence[int],
        others: Sequence[int],
        first: int | None,
        last: int | None,
        group: _Group,
    ) -> None:
        self._after, self._needing, self._others, self._group = after, needing, others, group
        self._last = None if first is None else last
        if first is not None and last is not None:
            after[last] = first  # what lies between the ends makes a circle with them only if it is all of the group
        while (circle := self._circle()) is not None:
            self._open(circle)

    @property
    def satisfied(self) -> list[int]:
        """The calls that have what they need."""
        return [position for position in self._after if position != self._last]

    def _circle(self) -> Sequence[int] | None:
        done: set[int] = set()
        for start in self._after:
            path: dict[int, None] = {}
            at: int | None = start
            while at is not None and at not in done and at not in path:
                path[at] = None
                at = self._after.get(at)
            if at is not None and at in path:
                circle = list(path)[list(path).index(at) :]
                if self._last not in circle or len(circle) < len(self._group.calls):
                    return circle
            done |= path.keys()
        return None

    def _open(self, circle: Sequence[int]) -> None:
        """Join the circle with what is beside it, without a call fewer that has what it needs; else leave one out."""
        inside, after, agree = {*circle}, self._after, self._group.agree
        taken = {*after.values()}
        free = [other for other in self._others if other not in taken]
        left = [one for one in self._needing if one not in after]
        beside = [one for one in after if one not in inside and one != self._last]
        loose = [one for one in circle if one != self._last]
        for one in loose:
            for other in free:
                if agree(one, other):
                    after[one] = other
                    return
            for another in beside:
                if agree(one, after[another]) and agree(another, after[one]):
                    after[one], after[another] = after[another], after[one]
                    return
        sure = self._group.sure
        for one in sorted(loose, key=lambda one: sure[one]):
            for another in left:
                if sure[another] >= sure[one] and agree(another, after[one]):
                    after[another] = after.pop(one)
                    return
        del after[min(loose, key=lambda one: sure[one])]


def _through(ways: Mapping[int | None, _Way], group: _Group) -> dict[int | None, _Way]:
    """The best ways to order the groups up to this one, by what waits at its end."""
    found: dict[int | None, _Way] = {}
    for waiting, way in ways.items():
        for first in (None, *(() if waiting is None else group.may_be_first(waiting))):
            for last in (None, *group.may_wait):
                if first is not None and first == last and len(group.calls) > 1:
                    continue
                satisfied = [*group.satisfied(first, last)]
                if first is not None and waiting is not None:
                    satisfied.append(waiting)
                found_way = way.then(satisfied, group.sure)
                if last not in found or found_way.number > found[last].number:
                    found[last] = found_way
    return found


def each_with_its_own(groups: Groups, roles: Roles, work: Work) -> list[bool]:
    """Whether one of the others comes before it and after the last call of its key before it that needed one.

    Args:
        groups: of positions.
        roles: of the calls; one that is meant by both sides needs another one, and is none.
        work: counts the steps.
    """
    owners = _Owners(roles)
    for group in groups:
        work.spend(2 * len(group))
        owners.pass_group(group)
    return owners.satisfied


class _Owners:
    """The others that no call has taken yet, by key, while groups are passed: the time of the last of each."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._kept: dict[Key, int] = {}
        self._passed_any = False  # another one was passed that may be anybody's
        self.satisfied = [False] * len(roles.needing)

    def pass_group(self, group: Sequence[int]) -> None:
        roles, taking = self._roles, self._roles.sure
        come: dict[Key, list[int]] = {}
        for position in group:
            if roles.others[position] and not taking[position]:
                key = roles.keys_of_others[position]
                if key == ANY:
                    self._passed_any = True
                elif key is not None:
                    come.setdefault(key, []).append(roles.ends[position])
        by_key: dict[Key, list[int]] = {}
        for position in group:
            key = roles.keys_of_needing[position]
            if not roles.needing[position] or key is None:
                continue
            if key == ANY:
                self.satisfied[position] = self._passed_any or bool(come or self._kept)
            elif key == UNKNOWN:  # it may have been anybody's
                self._kept.clear()
                come.clear()
            elif taking[position]:
                by_key.setdefault(key, []).append(position)
            else:
                tokens = [*come.get(key, ()), *([self._kept[key]] if key in self._kept else ())]
                may_take = any(end >= self._need(position) for end in tokens)
                self.satisfied[position] = self._passed_any or may_take
        for key in {*come, *by_key}:
            self._take(key, by_key.get(key, []), come.get(key, []))

    def _need(self, position: int) -> float:
        """The least end of another one that will do."""
        return self._roles.starts[position] - self._roles.within_ns

    def _take(self, key: Key, needing: list[int], come: list[int]) -> None:
        """Have each that needs one take one, and keep the last of what is left over."""
        tokens = sorted(come)
        kept = self._kept.pop(key, None)
        if not needing:
            self._kept[key] = max([*tokens, *([] if kept is None else [kept])])
            return
        for position in sorted(needing, key=self._need):  # each takes the least that will do
            need = self._need(position)
            if kept is not None and kept >= need:  # of no use to anybody after this group
                kept, self.satisfied[position] = None, True
            elif (at := bisect_left(tokens, need)) < len(tokens):
                tokens.pop(at)
                self.satisfied[position] = True
            else:
                self.satisfied[position] = self._passed_any
        if tokens:
            self._kept[key] = tokens[-1]
