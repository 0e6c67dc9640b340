"""The order in which calls were made, as far as it is known.

Calls stand in one total order, but not all of it is known. Two calls are *tied* when their starts are equal and no
message tells them apart: clocks of milliseconds see many calls start at once, and either may have come first, whatever
their ends. Calls asked for by one message, or that overlap where no message is known, are a *batch*: they were made
together, and their order means nothing, though they have one.

Code that reads the order takes the best possible one: inside ties always, inside batches by default.
"""

from collections import Counter
from collections.abc import Hashable, Sequence

from tracegrade.evaluate.evidence import Evidence
from tracegrade.model.tool_call import ToolCall


def tied(one: ToolCall, other: ToolCall) -> bool:
    """Whether it is unknown which of two calls came first.

    Calls without times and messages, as they are given by hand, come in the order in which they are given.
    """
    if one.start_ns != other.start_ns:
        return False
    if one.turn is None or other.turn is None:
        return one.start_ns != 0
    return one.turn == other.turn and one.batch != other.batch


def any_tied(evidence: Evidence) -> bool:
    """Whether any calls are tied: then two that follow each other are."""
    last: ToolCall | None = None
    for call in evidence.calls:
        if last is not None and call.start_ns == last.start_ns and tied(last, call):
            return True
        last = call
    return False


def any_together(evidence: Evidence) -> bool:
    """Whether any calls were made together, as `batches` has it."""
    last: ToolCall | None = None
    for call in evidence.calls:
        if last is not None and (
            (call.batch is not None and call.batch == last.batch and call.agent_span_id == last.agent_span_id)
            or (call.start_ns == last.start_ns and tied(last, call))
        ):
            return True
        last = call
    return False


def batches(evidence: Evidence) -> list[list[int]]:
    """The positions of the calls, grouped where the best order counts: adjacent, in one batch of a run, or tied."""
    return _grouped(evidence.calls, with_batches=True)


def ties(evidence: Evidence) -> list[list[int]]:
    """The positions of the calls, grouped where they are tied."""
    return _grouped(evidence.calls, with_batches=False)


def of_equal_rank(evidence: Evidence, positions: Sequence[int]) -> list[list[int]]:
    """`positions`, ascending, grouped where the calls are tied."""
    if not evidence.once(any_tied):
        return [[position] for position in positions]
    groups: list[list[int]] = []
    number_of = evidence.once(_TieNumbers)
    for position in positions:
        if groups and number_of[position] == number_of[groups[-1][-1]]:
            groups[-1].append(position)
        else:
            groups.append([position])
    return groups


class _TieNumbers(list[int]):
    """The number of the group in `ties` of each call, by its position."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(number for number, group in enumerate(evidence.once(ties)) for _ in group)


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


def _grouped(calls: Sequence[ToolCall], *, with_batches: bool) -> list[list[int]]:
    groups: list[list[int]] = []
    last: ToolCall | None = None
    for position, call in enumerate(calls):
        if last is not None and call.start_ns == last.start_ns and tied(last, call):
            if call.turn is None:
                _merge_all_at(call.start_ns, groups, calls)
            groups[-1].append(position)
        elif with_batches and last is not None and _is_batch(last, call):
            groups[-1].append(position)
        else:
            groups.append([position])
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
        groups[first:] = [[position for group in groups[first:] for position in group]]


def _is_batch(one: ToolCall, other: ToolCall) -> bool:
    return one.batch is not None and (one.batch, one.agent_span_id) == (other.batch, other.agent_span_id)
