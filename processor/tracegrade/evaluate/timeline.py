"""The order in which calls were made, as far as it is known.

Calls stand in one total order, but not all of it is known. Two calls are *tied* when their starts are equal and no
message tells them apart: clocks of milliseconds see many calls start at once, and either may have come first, whatever
their ends. Calls asked for by one message, or that overlap where no message is known, are a *batch*: they were made
together, and their order means nothing, though they have one.

Code that reads the order takes the best possible one: inside ties always, inside batches by default.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from tracegrade.evaluate.evidence import Evidence
from tracegrade.model.tool_call import ToolCall

Concurrency: TypeAlias = Literal["batches", "sequential"]
"""Whether calls of one batch take their best order, or that of their starts."""
Stretch: TypeAlias = tuple[int, int]
"""Places that follow each other: from, up to."""
Groups: TypeAlias = Sequence[Sequence[int]]
"""The places of calls, those together whose best order counts."""


class Before(NamedTuple):
    """The places of the calls before a call: certainly before it, or possibly, as their order is not known (tied)."""

    certain: Sequence[Stretch]
    possible: Sequence[Stretch]


class Timeline:
    """The calls of an evidence in their order. It is worked out once for each: ``evidence.once(Timeline)``."""

    def __init__(self, evidence: Evidence) -> None:
        self._calls = evidence.calls
        self.has_ties = False
        """Whether any calls are tied: then two that follow each other are."""
        self._has_batches_or_ties = False
        last: ToolCall | None = None
        for call in self._calls:
            if last is not None:
                if call.start_ns == last.start_ns and _tied(last, call):
                    self.has_ties = self._has_batches_or_ties = True
                    break
                if call.batch is not None and call.batch == last.batch and call.agent_span_id == last.agent_span_id:
                    self._has_batches_or_ties = True
            last = call

    def is_total(self, concurrency: Concurrency) -> bool:
        """Whether each call has a place of its own, so that `groups` have one call each."""
        return not (self._has_batches_or_ties if concurrency == "batches" else self.has_ties)

    def groups(self, concurrency: Concurrency) -> Groups:
        """The places of all calls, grouped where the best order counts.

        Those of a group stand next to each other and are tied, or, unless calls are sequential, in one batch of a run.
        """
        return self._batches if concurrency == "batches" else self._ties

    @cached_property
    def _batches(self) -> Groups:
        return _grouped(self._calls, with_batches=True)

    @cached_property
    def _ties(self) -> Groups:
        return _grouped(self._calls, with_batches=False)

    def ranks(self, places: Sequence[int]) -> list[list[int]]:
        """`places`, ascending, grouped where the calls are tied."""
        if not self.has_ties:
            return [[place] for place in places]
        groups: list[list[int]] = []
        number_of = self._tie_numbers
        for place in places:
            if groups and number_of[place] == number_of[groups[-1][-1]]:
                groups[-1].append(place)
            else:
                groups.append([place])
        return groups

    @cached_property
    def _tie_numbers(self) -> Sequence[int]:
        """The number of each call's group in `_ties`, by its place."""
        return [number for number, group in enumerate(self._ties) for _ in group]

    def place_of(self, call: ToolCall) -> int:
        """Where one of the calls stands."""
        return self._places[id(call)]

    def before(self, call: ToolCall | None) -> Before:
        """The places of the calls that came, or may have come, before `call`; all places when it is None.

        Calls that the model made together with it came neither before nor after: the model had not seen their outputs.
        Calls tied with it may have come before.
        """
        if call is None:
            return Before([(0, len(self._calls))], ())
        place = self._places.get(id(call), len(self._calls))
        possible: list[Stretch] = []
        if self.has_ties and place < len(self._calls):
            possible = self._others_tied_with(call, place)
        return Before(_without(_without([(0, place)], self._batch_of(call)), possible), possible)

    def tied_with(self, place: int) -> list[Stretch]:
        """`place`, and the places of the calls that are tied with the call there."""
        if not self.has_ties:
            return [(place, place + 1)]
        return sorted([*self._others_tied_with(self._calls[place], place), (place, place + 1)])

    def _others_tied_with(self, call: ToolCall, place: int) -> list[Stretch]:
        same_start = self._same_start
        if call.turn is None:
            return _without(same_start.get((call.start_ns, _ALL), ()), [(place, place + 1)]) if call.start_ns else []
        of_turn = _without(same_start.get((call.start_ns, call.turn), ()), self._batch_of(call))
        unasked = same_start.get((call.start_ns, _UNASKED), ()) if call.start_ns else ()
        return sorted([*of_turn, *unasked])

    def _batch_of(self, call: ToolCall) -> Sequence[Stretch]:
        return () if call.batch is None else self._by_batch.get((call.batch, call.agent_span_id), ())

    @cached_property
    def _places(self) -> dict[int, int]:
        return {id(call): place for place, call in enumerate(self._calls)}

    @cached_property
    def _by_batch(self) -> dict[tuple[int, str], list[Stretch]]:
        together: dict[tuple[int, str], list[int]] = {}
        for place, call in enumerate(self._calls):
            if call.batch is not None:
                together.setdefault((call.batch, call.agent_span_id), []).append(place)
        return {key: _stretches(places) for key, places in together.items()}

    @cached_property
    def _same_start(self) -> dict[tuple[int, object], list[Stretch]]:
        """The calls that start at one time: all of them, those that no message asks for, and those of one turn."""
        places: dict[tuple[int, object], list[int]] = {}
        for place, call in enumerate(self._calls):
            for key in (_ALL, _UNASKED if call.turn is None else call.turn):
                places.setdefault((call.start_ns, key), []).append(place)
        return {key: _stretches(some) for key, some in places.items() if len(some) > 1 or key[1] is _UNASKED}


_ALL, _UNASKED = "all", "unasked"


def _tied(one: ToolCall, other: ToolCall) -> bool:
    """Whether it is unknown which of two calls came first.

    Calls without times and messages, as they are given by hand, come in the order in which they are given.
    """
    if one.start_ns != other.start_ns:
        return False
    if one.turn is None or other.turn is None:
        return one.start_ns != 0
    return one.turn == other.turn and one.batch != other.batch


def _grouped(calls: Sequence[ToolCall], *, with_batches: bool) -> list[list[int]]:
    groups: list[list[int]] = []
    last: ToolCall | None = None
    for place, call in enumerate(calls):
        if last is not None and call.start_ns == last.start_ns and _tied(last, call):
            if call.turn is None:
                _merge_all_at(call.start_ns, groups, calls)
            groups[-1].append(place)
        elif with_batches and last is not None and _is_batch(last, call):
            groups[-1].append(place)
        else:
            groups.append([place])
        last = call
    return groups


def _merge_all_at(start_ns: int, groups: list[list[int]], calls: Sequence[ToolCall]) -> None:
    """Make one of the last groups: a call that no message asks for is tied with all that start with it.

    The order between some of those may be known; the order inside a group is not.
    """
    first = len(groups) - 1
    while first > 0 and calls[groups[first - 1][-1]].start_ns == start_ns:
        first -= 1
    if first < len(groups) - 1:
        groups[first:] = [[place for group in groups[first:] for place in group]]


def _is_batch(one: ToolCall, other: ToolCall) -> bool:
    return one.batch is not None and (one.batch, one.agent_span_id) == (other.batch, other.agent_span_id)


def _stretches(places: Sequence[int]) -> list[Stretch]:
    """Ascending places as stretches."""
    found: list[Stretch] = []
    for place in places:
        if found and found[-1][1] == place:
            found[-1] = (found[-1][0], place + 1)
        else:
            found.append((place, place + 1))
    return found


def _without(stretches: Sequence[Stretch], cut: Sequence[Stretch]) -> list[Stretch]:
    """`stretches` without what is in `cut`; both ascending."""
    left: list[Stretch] = []
    at = 0
    for start, end in stretches:
        while at < len(cut) and cut[at][1] <= start:
            at += 1
        place = at
        while place < len(cut) and cut[place][0] < end:
            if start < cut[place][0]:
                left.append((start, cut[place][0]))
            start = cut[place][1]
            place += 1
        if start < end:
            left.append((start, end))
    return left


def fewest_repeats(groups: Sequence[Sequence[Hashable]]) -> int:
    """How many calls come directly after an equal one, in the best order inside each group.

    Args:
        groups: what calls are compared by, grouped where their order is unknown or means nothing.
    """
    ends: dict[Hashable, int] = {_START: 0}  # what the groups so far may end with, at the fewest repeats
    for group in groups:
        counts = Counter(group)
        most = counts.most_common(1)[0][0]
        found = {
            end: min(repeats + _repeats(counts, len(group), before, end, most) for before, repeats in ends.items())
            for end in counts
        }
        fewest = min(found.values())
        # One more repeat now spares at most one later; of three ends two begin whatever follows as well as any.
        ends = dict([(end, repeats) for end, repeats in found.items() if repeats == fewest][:3])
    return min(ends.values())


_START = object()


def _repeats(counts: Counter[Hashable], size: int, before: Hashable, end: Hashable, most: Hashable) -> int:
    """The fewest repeats of a group of these, after `before`, when `end` comes last: what is left without a gap.

    Only what there is most of, what came before and what comes last can be too many.
    """
    needed = 0
    total = size + (before is not _START)
    for what in (most, end) if before is _START else (most, before, end):
        times = counts[what] + (what == before)
        gaps = total - times + 1 - (before is not _START and before != what) - (end != what)
        needed = max(needed, times - gaps)
    return needed
