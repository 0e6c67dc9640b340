"""Which call is which step: the best of all ways to lay the calls of a run beside the steps.

A step that is missing costs 1, a call with other arguments than the step's 1/2, and a call that is no step 1 where such
calls are counted, else nothing. The way that costs least is the best; of several, the one in which most calls are
steps, then the one found first when calls are taken in their order and steps in theirs.

What is known of the calls so far is a *state*: the steps that can no longer be made, which are those before a step that
was made, that step, and those of branches not chosen. For each state the least cost is kept. A state is dropped for
another one that costs less by as much as the steps could gain that only the first one leaves: whatever it gains later,
the other has already. Steps that no later call may be count for nothing there. So where the calls come in order, there
is one state; else a chain of steps has about as many as steps, and branches beside each other up to their product.

Worked example: the steps are a, then b and c beside each other; the calls are c, a, b. If the first call is the step c,
a can no longer be made: a and b are missing. If the calls a and b are the steps, only c is. That is the best: the first
call is a c out of order.

Calls that were made together, or whose order is not known, are steps in whichever order is best.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from tracegrade.evaluate.alignment.steps import PlainStep, Steps
from tracegrade.evaluate.work import Work

MISSING, OTHER_ARGUMENTS = 2, 1  # in halves
_UNIT = 1000  # of a half
_MATCHED = 1  # what decides between ways that cost the same

Fits: TypeAlias = Callable[[int, int], bool]
"""Whether the arguments of a call are those of a step: positions of both."""


class Made(NamedTuple):
    """A call that is a step; ``fits`` says that it has the step's arguments."""

    call: int
    step: int
    fits: bool


class _Link(NamedTuple):
    """The calls that are steps, the last one first."""

    made: Made
    before: "_Link | None"


class Alignment(NamedTuple):
    """The best way: the calls that are steps, in the order of the calls, and how many steps it requires."""

    made: Sequence[Made]
    required: int


def align(
    steps: Steps, names: Sequence[str], groups: Sequence[Sequence[int]], fits: Fits, work: Work, *, count_extra: bool
) -> Alignment:
    """Lay calls beside `steps`.

    Args:
        steps: what is expected.
        names: the tools of the calls, in their order.
        groups: the positions of the calls; those of one group come in whichever order is best.
        fits: asked for the arguments.
        work: bounds it.
        count_extra: whether calls that are no step cost.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    states = _States(steps, count_extra, work)
    # Of each group, each call's steps, and whether it has their arguments.
    to_take: list[list[_MayBe]] = []
    for group in groups:
        may_be = [
            _MayBe(call, [(number, fits(call, number)) for number in numbers])
            for call in group
            if (numbers := steps.table.met_by(names[call]))
        ]
        if may_be:
            to_take.append(may_be)
    for may_be, to_come in zip(to_take, _to_come(to_take), strict=True):
        if len(may_be) == 1:
            states.take_one(may_be[0], to_come)
        else:
            states.take_group(_needed(may_be), to_come)
    made: list[Made] = []
    link = states.best
    while link is not None:
        made.append(link.made)
        link = link.before
    made.reverse()
    return Alignment(made, steps.required + _more(steps.plain, made))


class _MayBe(NamedTuple):
    """A call, and the steps that it may be: each with whether it has the step's arguments."""

    call: int
    steps: Sequence[tuple[int, bool]]


class _ToCome(NamedTuple):
    """What comes after some calls: how many calls, and the steps that they may be, as bits."""

    calls: int
    steps: int


def _to_come(to_take: Sequence[Sequence[_MayBe]]) -> list[_ToCome]:
    """What comes after each group."""
    found: list[_ToCome] = []
    calls = steps = 0
    for may_be in reversed(to_take):
        found.append(_ToCome(calls, steps))
        calls += len(may_be)
        for one in may_be:
            for number, _ in one.steps:
                steps |= 1 << number
    found.reverse()
    return found


def _needed(may_be: Sequence[_MayBe]) -> list[_MayBe]:
    """The calls of a group without those that can be spared: of calls that may be the same steps, one for each step."""
    alike: dict[tuple[tuple[int, bool], ...], int] = {}
    needed = []
    for one in may_be:
        key = tuple(one.steps)
        alike[key] = alike.get(key, 0) + 1
        if alike[key] <= len(key):
            needed.append(one)
    return needed


class _States:
    """The states that may still lead to the best way, the one that gains most first."""

    __slots__ = (
        "_costs",
        "_extra",
        "_links",
        "_marks",
        "_most",
        "_most_of_optional",
        "_optional",
        "_plain",
        "_states",
        "_work",
    )

    def __init__(self, steps: Steps, count_extra: bool, work: Work) -> None:
        self._plain = steps.plain
        self._marks = steps.marks
        self._extra = MISSING if count_extra else 0
        self._optional = sum(1 << number for number, step in enumerate(steps.plain) if step.optional)
        self._most, self._most_of_optional = ((gain + self._extra) * _UNIT + _MATCHED for gain in (MISSING, 0))
        self._work = work
        self._costs = [0]  # what each state gains over making no step, negative; ascending
        self._states = [0]
        self._links: list[_Link | None] = [None]

    @property
    def best(self) -> _Link | None:
        """The calls of the best way."""
        return self._links[0]

    def take_one(self, may_be: _MayBe, to_come: _ToCome) -> None:
        """Let a call be one of its steps, or none; `to_come` is what comes after it."""
        found: list[tuple[int, int, _Link]] = []
        for number, fits in may_be.steps:
            step = self._plain[number]
            if step.optional and not fits:
                continue
            made = Made(may_be.call, number, fits)
            for place, state in enumerate(self._states):
                if state >> number & 1:
                    continue
                self._work.spend()
                closed = state | step.closes
                found.append(
                    (self._costs[place] - self._gain(step, fits, state), closed, _Link(made, self._links[place]))
                )
                if closed == step.closes and not self._marks:
                    break  # no state that gains less leaves more steps after this one, or has paid for a branch
        self._keep(found, to_come)

    def take_group(self, may_be: Sequence[_MayBe], to_come: _ToCome) -> None:
        """The same of calls that come in whichever order is best."""
        found: list[tuple[int, int, _Link]] = []
        for cost, state, link in zip(self._costs, self._states, self._links, strict=True):
            self._take_each(may_be, 0, state, state, 0, cost, link, found, is_last=not to_come.calls)
        self._keep(found, to_come)

    def _take_each(
        self,
        may_be: Sequence[_MayBe],
        place: int,
        before: int,
        after: int,
        taken: int,
        cost: int,
        link: _Link | None,
        found: list[tuple[int, int, _Link]],
        *,
        is_last: bool,
    ) -> None:
        """Let each call from `place` on be no step, or one that was left `before` the group and is not `taken`.

        `after` is the state with what is taken, `cost` and `link` its way; what is reached is added to `found`. Where
        no call comes after the group, one that no other call can be is made.
        """
        if place == len(may_be):
            return
        steps = may_be[place].steps
        if not (is_last and self._is_best_made(steps, may_be, before | taken)):
            self._take_each(may_be, place + 1, before, after, taken, cost, link, found, is_last=is_last)
        for number, fits in steps:
            self._work.spend()
            step = self._plain[number]
            if (before | taken) >> number & 1 or (step.optional and not fits):
                continue
            if any(taken & choice.others for choice in step.chosen):
                continue  # a call of this group went another branch
            closed = after | step.closes
            spent = cost - self._gain(step, fits, after)
            made = _Link(Made(may_be[place].call, number, fits), link)
            found.append((spent, closed, made))
            self._take_each(may_be, place + 1, before, closed, taken | 1 << number, spent, made, found, is_last=is_last)

    def _is_best_made(self, steps: Sequence[tuple[int, bool]], may_be: Sequence[_MayBe], closed: int) -> bool:
        """Whether a call that may be one step alone, of no choice, is best made so: no other call can be it."""
        if len(steps) != 1:
            return False
        number, fits = steps[0]
        step = self._plain[number]
        if closed >> number & 1 or step.chosen or (step.optional and not fits):
            return False
        return sum(number == other for one in may_be for other, _ in one.steps) == 1

    def _gain(self, step: PlainStep, fits: bool, state: int) -> int:
        """What is gained when a call is `step` in `state`."""
        gain = 0 if step.optional else MISSING if fits else OTHER_ARGUMENTS
        if step.chosen:
            gain -= MISSING * sum(choice.more for choice in step.chosen if choice.mark & ~state)
        return (gain + self._extra) * _UNIT + _MATCHED

    def _could_gain(self, steps: int) -> int:
        """What these steps, as bits, gain at most."""
        optional = (steps & self._optional).bit_count()
        return self._most * (steps.bit_count() - optional) + self._most_of_optional * optional

    def _keep(self, found: list[tuple[int, int, _Link]], to_come: _ToCome) -> None:
        """Add the states `found`, as far as they may still be best with the calls to come; drop those that are not.

        What a branch requires more is paid in both of two states that are compared, or in neither.
        """
        found.sort(key=lambda one: one[0])
        costs, states, links, marks = self._costs, self._states, self._links, self._marks
        alive, could_gain = to_come.steps, self._could_gain
        for cost, state, link in found:
            place = bisect_right(costs, cost)
            self._work.spend(1 + len(states) // 3)
            if any(
                could_gain(other & ~state & alive) <= cost - costs[at] and (other ^ state) & marks == 0
                for at, other in enumerate(states[:place])
            ):
                continue
            worse = [
                at
                for at in range(place, len(states))
                if could_gain(state & ~states[at] & alive) <= costs[at] - cost and (state ^ states[at]) & marks == 0
            ]
            for at in reversed(worse):
                del costs[at], states[at], links[at]
            costs.insert(place, cost)
            states.insert(place, state)
            links.insert(place, link)
        best = costs[0]
        while costs[-1] - min(self._most * to_come.calls, could_gain(alive & ~states[-1])) > best:
            del costs[-1], states[-1], links[-1]


def _more(plain: Sequence[PlainStep], made: Sequence[Made]) -> int:
    """How many more steps the branches that were gone require than others would have."""
    closed = more = 0
    for one in made:
        step = plain[one.step]
        more += sum(choice.more for choice in step.chosen if choice.mark & ~closed)
        closed |= step.closes
    return more
