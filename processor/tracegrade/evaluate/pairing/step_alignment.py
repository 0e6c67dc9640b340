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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tracegrade.evaluate.pairing.best import best_pairing
from tracegrade.evaluate.pairing.steps import PlainStep, Run, Steps
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
    # Of each group, the runs of each call, and whether it has their arguments.
    to_take: list[list[_MayBe]] = []
    for group in groups:
        may_be: list[_MayBe] = []
        for call in group:
            if runs := steps.table.met_by(names[call]):
                work.spend(2 + 2 * len(runs))
                may_be.append(_MayBe(call, [(run, fits(call, steps.runs[run].numbers[0])) for run in runs]))
        if may_be:
            to_take.append(may_be)
    for may_be, to_come in zip(to_take, _to_come(to_take, steps.runs), strict=True):
        if len(may_be) == 1:
            states.take_one(may_be[0], to_come)
        else:
            states.take_group(may_be, to_come)
    made: list[Made] = []
    link = states.best
    while link is not None:
        made.append(link.made)
        link = link.before
    made.sort()
    return Alignment(made, steps.required + _more(steps.plain, made))


class _MayBe(NamedTuple):
    """A call, and the runs of steps that it may be of, each with whether it has the arguments that they ask for."""

    call: int
    runs: Sequence[tuple[int, bool]]


class _ToCome(NamedTuple):
    """What comes after some calls: how many calls, and the steps that they may be, as bits."""

    calls: int
    steps: int


def _to_come(to_take: Sequence[Sequence[_MayBe]], runs: Sequence[Run]) -> list[_ToCome]:
    """What comes after each group."""
    found: list[_ToCome] = []
    calls = steps = 0
    for may_be in reversed(to_take):
        found.append(_ToCome(calls, steps))
        calls += len(may_be)
        for one in may_be:
            for run, _ in one.runs:
                steps |= runs[run].bits
    found.reverse()
    return found


class _Alike(NamedTuple):
    """Calls of a group that may be of the same runs: whether they have the arguments of each, and the calls."""

    fits: Mapping[int, bool]
    calls: list[int]


def _alike(may_be: Sequence[_MayBe], runs: Sequence[Run]) -> list[_Alike]:
    """The calls of a group, those together that may be of the same runs, and of them no more than there are steps.

    Those come first that may be of the fewest runs: they leave to the others what only those can be.
    """
    found: dict[tuple[tuple[int, bool], ...], list[int]] = {}
    for one in may_be:
        calls = found.setdefault(tuple(one.runs), [])
        if len(calls) < sum(len(runs[run].numbers) for run, _ in one.runs):
            calls.append(one.call)
    return sorted((_Alike(dict(some), calls) for some, calls in found.items()), key=lambda each: len(each.fits))


class _Way(NamedTuple):
    """What some calls of a group can be at best: what it costs, the state that it leaves, and the calls so far."""

    cost: int
    state: int
    link: "_Link | None"


# By the steps taken, as bits, and the number of calls left of each `_Alike`.
_Ways: TypeAlias = dict[tuple[int, tuple[int, ...]], _Way]
# What it takes to write down one way, and each call in it.
_STEPS_OF_A_WAY, _STEPS_OF_A_CALL = 22, 14


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
        "_runs",
        "_states",
        "_work",
    )

    def __init__(self, steps: Steps, count_extra: bool, work: Work) -> None:
        self._plain = steps.plain
        self._runs = steps.runs
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
        for run, fits in may_be.runs:
            bits = self._runs[run].bits
            enough = self._runs[run].numbers.stop
            for place, state in enumerate(self._states):
                self._work.spend(2)
                if not (open_bits := bits & ~state):
                    continue
                number = (open_bits & -open_bits).bit_length() - 1
                if number >= enough:
                    continue
                step = self._plain[number]
                if step.optional and not fits:
                    continue
                made = Made(may_be.call, number, fits)
                closed = state | step.closes
                found.append(
                    (self._costs[place] - self._gain(step, fits, state), closed, _Link(made, self._links[place]))
                )
                if closed == step.closes and not self._marks:
                    enough = number  # no state that gains less leaves more after this step, or has paid for a branch
        self._keep(found, to_come)

    def take_group(self, may_be: Sequence[_MayBe], to_come: _ToCome) -> None:
        """The same of calls that come in whichever order is best."""
        alike = _alike(may_be, self._runs)
        runs = sorted({run for each in alike for run in each.fits})
        is_last = not to_come.calls
        found: list[tuple[int, int, _Link]] = []
        if is_last and not any(self._plain[self._runs[run].numbers[0]].chosen for run in runs):
            # What they close does not matter any more: what is gained is the sum of what each call gains.
            found = [way for place in range(len(self._states)) if (way := self._pair_last(alike, runs, place))]
            self._keep(found, to_come)
            return
        for cost, state, link in zip(self._costs, self._states, self._links, strict=True):
            ways = {(0, tuple(len(each.calls) for each in alike)): _Way(cost, state, link)}
            for run in runs:
                ways = self._take_run(run, alike, ways, state, is_last=is_last)
            found += [(*way[:2], way.link) for (taken, _), way in ways.items() if taken and way.link is not None]
        self._keep(found, to_come)

    def _pair_last(self, alike: Sequence[_Alike], runs: Sequence[int], place: int) -> tuple[int, int, _Link] | None:
        """The best way from the state at `place` with the last group of calls, of no choice; None if none is a step."""
        cost, state, link = self._costs[place], self._states[place], self._links[place]
        steps = [(run, number) for run in runs for number in self._runs[run].numbers if not state >> number & 1]
        fits = {call: each.fits for each in alike for call in each.calls}

        def worth(row: int, call: int) -> int:
            run, number = steps[row]
            self._work.spend(2)
            step, fitting = self._plain[number], fits[call].get(run)
            return 0 if fitting is None or (step.optional and not fitting) else self._gain(step, fitting, state)

        calls = sorted(fits)
        paired = best_pairing([calls] * len(steps), worth, self._work)
        for (run, number), call in zip(steps, paired, strict=True):
            if call is not None:
                step, fitting = self._plain[number], fits[call][run]
                cost -= self._gain(step, fitting, state)
                state |= step.closes
                link = _Link(Made(call, number, fitting), link)
        return None if link is None else (cost, state, link)

    def _take_run(self, run: int, alike: Sequence[_Alike], ways: _Ways, before: int, *, is_last: bool) -> _Ways:
        """Let any of the calls that are left of a group be the steps of a run, or none of them.

        Args:
            run: the run.
            alike: the calls of the group.
            ways: by the steps taken so far, as bits, and how many calls are left of each of `alike`, the best way.
            before: the state before the group.
            is_last: whether no call comes after the group.
        """
        numbers, bits = self._runs[run]
        chosen = self._plain[numbers[0]].chosen
        some = [place for place, each in enumerate(alike) if run in each.fits]
        open_steps = [number for number in numbers if not before >> number & 1]
        found: _Ways = {}
        for (taken, left), way in ways.items():
            counts: Iterable[tuple[int, ...]] = [(0,) * len(some)]
            if open_steps and not any(taken & choice.others for choice in chosen):  # no call went another branch
                harmless = is_last or not self._plain[open_steps[0]].closes & ~way.state & ~bits
                counts = self._counts(run, open_steps, alike, some, left, harmless=harmless, is_last=is_last)
            for of_each in counts:
                taking = sum(of_each)
                self._work.spend(_STEPS_OF_A_WAY + _STEPS_OF_A_CALL * taking + 4 * len(some) + len(alike) // 2)
                after_left = list(left)
                for place, number in zip(some, of_each, strict=True):
                    after_left[place] -= number
                after = self._with(way, run, open_steps[:taking], alike, some, of_each, left) if taking else way
                key = (taken | sum(1 << number for number in open_steps[:taking]), tuple(after_left))
                if (known := found.get(key)) is None or after.cost < known.cost:
                    found[key] = after
        return found

    def _counts(
        self,
        run: int,
        open_steps: Sequence[int],
        alike: Sequence[_Alike],
        some: Sequence[int],
        left: Sequence[int],
        *,
        harmless: bool,
        is_last: bool,
    ) -> Iterator[tuple[int, ...]]:
        """How many calls of each of `some` of the calls `alike` may be steps of a run in the best way.

        Args:
            run: the run.
            open_steps: its steps that can still be made.
            alike: the calls of the group.
            some: the places of those that may be such a step.
            left: how many are left of each of `alike`.
            harmless: whether making these steps closes no other.
            is_last: whether no call comes after the group.
        """
        required = sum(not self._plain[number].optional for number in open_steps)
        chosen = self._plain[open_steps[0]].chosen

        def choose(at: int, steps: int, wrong: int) -> Iterator[tuple[int, ...]]:
            if at == len(some):
                yield ()
                return
            each = alike[some[at]]
            fits = each.fits[run]
            most = min(left[some[at]], steps) if fits else min(left[some[at]], steps, required - wrong)
            numbers: Iterable[int] = range(most, -1, -1)
            if len(each.fits) == 1 and (fits or (is_last and len(some) == 1)):
                # They can be nothing else: if one is such a step, all are; and each is, where that does no harm.
                numbers = (most,) if not most or (harmless and not chosen) else (most, 0)
            for number in numbers:
                for rest in choose(at + 1, steps - number, wrong if fits else wrong + number):
                    yield (number, *rest)

        return choose(0, len(open_steps), 0)

    def _with(
        self,
        way: _Way,
        run: int,
        steps: Sequence[int],
        alike: Sequence[_Alike],
        some: Sequence[int],
        of_each: Sequence[int],
        left: Sequence[int],
    ) -> _Way:
        """`way` with so many of `some` of the calls as `steps`; those with other arguments as the first of them."""
        calls: list[tuple[bool, int]] = []
        for place, number in zip(some, of_each, strict=True):
            each = alike[place]
            start = len(each.calls) - left[place]
            calls += [(each.fits[run], call) for call in each.calls[start : start + number]]
        cost, state, link = way
        for (fits, call), number in zip(sorted(calls), steps, strict=True):
            step = self._plain[number]
            cost -= self._gain(step, fits, state)
            state |= step.closes
            link = _Link(Made(call, number, fits), link)
        return _Way(cost, state, link)

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
            self._work.spend(2 + len(states) // 2)
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
