"""What Declare's templates mean, written down as their definitions are: every order is tried, every call looked at."""

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product

from tracegrade.model.tool_call import ToolCall

Agrees = Callable[[ToolCall, ToolCall], bool]


def orders(groups: Sequence[Sequence[ToolCall]]) -> Iterator[list[ToolCall]]:
    """Every order of the calls, where those of a group may come in any."""
    for each in product(*(permutations(group) for group in groups)):
        yield [call for group in each for call in group]


def kept(template: str, calls: Sequence[ToolCall], needing: str, other: str, agrees: Agrees) -> int:
    """How many calls of `needing`, tools of one letter, have what they need of `other`, in this order."""
    return sum(
        _has(template, calls, place, needing, other, agrees) for place, call in enumerate(calls) if call.name in needing
    )


def _has(template: str, calls: Sequence[ToolCall], place: int, needing: str, other: str, agrees: Agrees) -> bool:
    def fits(at: int) -> bool:
        return at != place and 0 <= at < len(calls) and calls[at].name in other and agrees(calls[place], calls[at])

    if template == "precedence":
        return any(fits(at) for at in range(place))
    if template == "response":
        return any(fits(at) for at in range(place + 1, len(calls)))
    if template == "chain_response":
        return fits(place + 1)
    if template == "chain_precedence":
        return fits(place - 1)
    if template == "responded_existence":
        return any(fits(at) for at in range(len(calls)))
    assert template == "alternate_precedence"
    since = max(
        (at for at in range(place) if calls[at].name in needing and _alike(calls[at], calls[place])), default=-1
    )
    return any(fits(at) for at in range(since + 1, place))


def _alike(one: ToolCall, other: ToolCall) -> bool:
    """Whether two calls of one name have the same value: only then one follows the other."""
    assert isinstance(one.arguments, dict)
    assert isinstance(other.arguments, dict)
    return one.arguments.get("id") == other.arguments.get("id")
