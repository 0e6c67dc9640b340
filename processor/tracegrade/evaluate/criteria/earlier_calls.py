"""Which calls of a run came before which, by their places in its order."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tracegrade.evaluate.call_order import any_tied

if TYPE_CHECKING:
    from tracegrade.evaluate.evidence import Evidence
    from tracegrade.model.tool_call import ToolCall

Span: TypeAlias = tuple[int, int]  # of places: from, up to


class Before(NamedTuple):
    """The places of the calls before a call: certainly before it, or possibly, as their order is not known (tied)."""

    certain: Sequence[Span]
    possible: Sequence[Span]


class Places:
    """The order of a run's calls, as one of them sees it.

    Calls that the model made together with it came neither before nor after: the model had not seen their outputs.
    Calls tied with it may have come before.
    """

    __slots__ = ("_calls", "_of", "_same_start", "_together")

    def __init__(self, run: "Evidence") -> None:
        self._calls = run.calls
        self._of = {id(call): place for place, call in enumerate(run.calls)}
        together: dict[tuple[int, str], list[int]] = {}
        for place, call in enumerate(run.calls):
            if call.batch is not None:
                together.setdefault((call.batch, call.agent_span_id), []).append(place)
        self._together = {key: _spans(places) for key, places in together.items()}
        self._same_start = _SameStarts(run.calls) if run.once(any_tied) else None

    def before(self, current: "ToolCall | None") -> Before:
        """The places of the calls that came, or may have come, before `current`; all places when it is None."""
        if current is None:
            return Before([(0, len(self._calls))], ())
        last = self._of.get(id(current), len(self._calls))
        possible: list[Span] = []
        if self._same_start is not None and last < len(self._calls):
            possible = self._same_start.tied_with(current, last, self._made_together(current))
        return Before(_without(_without([(0, last)], self._made_together(current)), possible), possible)

    def of(self, call: "ToolCall") -> int:
        """The place of a call of the run."""
        return self._of[id(call)]

    def tied_with(self, place: int) -> list[Span]:
        """`place`, and the places of the calls that are tied with the call there."""
        call = self._calls[place]
        if self._same_start is None:
            return [(place, place + 1)]
        return sorted([*self._same_start.tied_with(call, place, self._made_together(call)), (place, place + 1)])

    def _made_together(self, call: "ToolCall") -> Sequence[Span]:
        return () if call.batch is None else self._together.get((call.batch, call.agent_span_id), ())


class _SameStarts:
    """The calls that start at one time: all of them, those that no message asks for, and those of one turn."""

    def __init__(self, calls: Sequence["ToolCall"]) -> None:
        places: dict[tuple[int, object], list[int]] = {}
        for place, call in enumerate(calls):
            kind = _UNASKED if call.turn is None else call.turn
            for key in (_ALL, kind):
                places.setdefault((call.start_ns, key), []).append(place)
        self._spans = {key: _spans(some) for key, some in places.items() if len(some) > 1 or key[1] is _UNASKED}

    def tied_with(self, call: "ToolCall", place: int, together: Sequence[Span]) -> list[Span]:
        """The places of the calls that are tied with the one at `place`, ascending."""
        if call.turn is None:
            return _without(self._spans.get((call.start_ns, _ALL), ()), [(place, place + 1)]) if call.start_ns else []
        of_turn = _without(self._spans.get((call.start_ns, call.turn), ()), together)
        unasked = self._spans.get((call.start_ns, _UNASKED), ()) if call.start_ns else ()
        return sorted([*of_turn, *unasked])


_ALL, _UNASKED = "all", "unasked"


def _spans(places: Sequence[int]) -> list[Span]:
    """Ascending places as spans."""
    spans: list[Span] = []
    for place in places:
        if spans and spans[-1][1] == place:
            spans[-1] = (spans[-1][0], place + 1)
        else:
            spans.append((place, place + 1))
    return spans


def _without(spans: Sequence[Span], cut: Sequence[Span]) -> list[Span]:
    """`spans` without what is in `cut`; both ascending."""
    left: list[Span] = []
    at = 0
    for start, end in spans:
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
