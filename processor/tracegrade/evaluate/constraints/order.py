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
from typing import NamedTuple

from tracegrade.evaluate.constraints.agreement import UNKNOWN, Key
from tracegrade.evaluate.pairing.in_order import Fits, Matching
from tracegrade.evaluate.timeline import Groups
from tracegrade.evaluate.work import Work
from tracegrade.model.tool_call import ToolCall

_EVER = 1 << 63  # further than any two times are apart
_NEVER = _EVER * 2


@dataclass(frozen=True, slots=True)
class Roles:
    """What is asked of the calls: which need another one, which are such another one, and how the two belong together.

    ``hopeful`` takes all that is not known as it suits; otherwise what is not known does not count. ``within_ns`` is
    from the end of the earlier call to the start of the later one, None for any time.
    """

    needing: Sequence[bool]
    others: Sequence[bool]
    keys_of_needing: Sequence[Key | None]
    keys_of_others: Sequence[Key | None]
    within_ns: int | None
    calls: Sequence[ToolCall]
    hopeful: bool

    def agree(self, needing: int, other: int, *, other_first: bool) -> bool:
        """Whether the calls at two positions belong together."""
        one, two = self.keys_of_needing[needing], self.keys_of_others[other]
        if one is None or two is None:
            return False
        if UNKNOWN in (one, two):
            if not self.hopeful:
                return False
        elif one != two:
            return False
        if self.within_ns is None:
            return True
        earlier, later = (other, needing) if other_first else (needing, other)
        end, start = self.calls[earlier].end_ns, self.calls[later].start_ns
        return start - end <= self.within_ns if end and start else self.hopeful


class _Nearest:
    """The others that were passed, by key: the time of the nearest, later being nearer, as `sign` counts time."""

    def __init__(self, roles: Roles, *, backwards: bool) -> None:
        self._roles = roles
        self._backwards = backwards
        self._by_key: dict[Key, int] = {}
        self._any = -_NEVER  # of any key
        self._unknown = -_NEVER  # of those whose key is unknown

    def add(self, position: int) -> None:
        """Pass another one."""
        roles = self._roles
        key = roles.keys_of_others[position]
        if key is None or (key == UNKNOWN and not roles.hopeful):
            return
        call = roles.calls[position]
        time = 0
        if roles.within_ns is not None:
            known = call.start_ns if self._backwards else call.end_ns
            if not known and not roles.hopeful:
                return
            time = (-known if self._backwards else known) if known else _EVER
        self._any = max(self._any, time)
        if key == UNKNOWN:
            self._unknown = max(self._unknown, time)
        elif time > self._by_key.get(key, -_NEVER):
            self._by_key[key] = time

    def meets(self, position: int) -> bool:
        """Whether one that was passed belongs to the call at `position`."""
        roles = self._roles
        key = roles.keys_of_needing[position]
        if key is None or (key == UNKNOWN and not roles.hopeful):
            return False
        nearest = self._any if key == UNKNOWN else max(self._by_key.get(key, -_NEVER), self._unknown)
        if nearest < -_EVER:
            return False
        if roles.within_ns is None or nearest == _EVER:
            return True
        call = roles.calls[position]
        known = call.end_ns if self._backwards else call.start_ns
        if not known:
            return roles.hopeful
        return (-nearest - known if self._backwards else known - nearest) <= roles.within_ns


def preceded(groups: Groups, roles: Roles, sure: Sequence[bool], work: Work) -> list[bool]:
    """Whether one of the others comes before; `sure` as of `adjacent`."""
    return _passed(groups, roles, sure, work, backwards=False)


def followed(groups: Groups, roles: Roles, sure: Sequence[bool], work: Work) -> list[bool]:
    """Whether one of the others comes after; `sure` as of `adjacent`."""
    return _passed([group[::-1] for group in reversed(groups)], roles, sure, work, backwards=True)


def _passed(groups: Groups, roles: Roles, sure: Sequence[bool], work: Work, *, backwards: bool) -> list[bool]:
    nearest = _Nearest(roles, backwards=backwards)
    satisfied = [False] * len(roles.calls)
    for group in groups:
        work.spend(2 * len(group))
        both = [position for position in group if roles.others[position] and roles.needing[position] and sure[position]]
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


def adjacent(groups: Groups, roles: Roles, sure: Sequence[bool], work: Work, *, backwards: bool) -> list[bool]:
    """Whether one of the others comes right after; with `backwards`, right before.

    Inside a group as many as can take another one of it; one call may stand last, next to the first of the group after.
    Which do is decided for all groups together: the most that are satisfied up to a group, by what waits at its end.

    Args:
        groups: of positions.
        roles: of the calls.
        sure: which of those that need one come first, where not all can have one.
        work: counts the steps.
        backwards: whether the others come right before.
    """
    if backwards:
        groups = [group[::-1] for group in reversed(groups)]
    ways: dict[int | None, _Way] = {None: _Way((0, 0), (), None)}
    for number, group in enumerate(groups):
        following = groups[number + 1] if number + 1 < len(groups) else ()
        ways = _through(ways, _Group(group, following, roles, sure, work, other_first=backwards))
    satisfied = [False] * len(roles.calls)
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
        sure: Sequence[bool],
        work: Work,
        *,
        other_first: bool,
    ) -> None:
        self._roles, self._work, self._other_first = roles, work, other_first
        self.calls, self.sure = calls, sure
        self.needing = [position for position in calls if roles.needing[position]]
        self.needing.sort(key=lambda position: not sure[position])
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
        if roles.within_ns is not None:
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


def each_with_its_own(groups: Groups, roles: Roles, taking: Sequence[bool], work: Work) -> list[bool]:
    """Whether one of the others comes before it and after the last call of its key before it that needed one.

    Args:
        groups: of positions.
        roles: of the calls; one that is meant by both sides needs another one, and is none.
        taking: which of those that need one take it from the calls after them, too.
        work: counts the steps.
    """
    owners = _Owners(roles)
    for group in groups:
        work.spend(2 * len(group))
        owners.pass_group(group, taking)
    return owners.satisfied


class _Owners:
    """The others that no call has taken yet, by key, while groups are passed: the time of the last of each."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._kept: dict[Key, int] = {}
        self._any_unknown = False  # another one of unknown key was passed, which may be anybody's
        self.satisfied = [False] * len(roles.calls)

    def pass_group(self, group: Sequence[int], taking: Sequence[bool]) -> None:
        roles = self._roles
        come: dict[Key, list[int]] = {}
        for position in group:
            if roles.others[position] and not taking[position]:
                self._come(position, come)
        by_key: dict[Key, list[int]] = {}
        for position in group:
            key = roles.keys_of_needing[position]
            if not roles.needing[position] or key is None:
                continue
            if key == UNKNOWN:
                self._unknown_needs(position, come, taking)
            elif taking[position]:
                by_key.setdefault(key, []).append(position)
            else:
                tokens = [*come.get(key, ()), *([self._kept[key]] if key in self._kept else ())]
                self.satisfied[position] = self._any_unknown or max(tokens, default=-_NEVER) >= self._need(position)
        for key in {*come, *by_key}:
            self._take(key, by_key.get(key, []), come.get(key, []))

    def _come(self, position: int, come: dict[Key, list[int]]) -> None:
        roles = self._roles
        key = roles.keys_of_others[position]
        if key == UNKNOWN:
            self._any_unknown |= roles.hopeful
        elif key is not None and (time := self._time(position)) is not None:
            come.setdefault(key, []).append(time)

    def _time(self, position: int) -> int | None:
        """As what another one counts; None where that is not known and does not count."""
        if self._roles.within_ns is None:
            return 0
        end = self._roles.calls[position].end_ns
        return end or (_EVER if self._roles.hopeful else None)

    def _need(self, position: int) -> int:
        """What another one has to count at least."""
        within_ns = self._roles.within_ns
        if within_ns is None:
            return 0
        start = self._roles.calls[position].start_ns
        return start - within_ns if start else -_EVER if self._roles.hopeful else _NEVER

    def _unknown_needs(self, position: int, come: dict[Key, list[int]], taking: Sequence[bool]) -> None:
        if self._roles.hopeful:
            self.satisfied[position] = self._any_unknown or bool(come or self._kept)
        elif taking[position]:
            self._kept.clear()  # it may have been anybody's
            come.clear()

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
                self.satisfied[position] = self._any_unknown
        if tokens:
            self._kept[key] = tokens[-1]
