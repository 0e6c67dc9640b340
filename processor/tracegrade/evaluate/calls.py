"""What evaluators read of calls, and how they name them."""

from collections.abc import Iterable, Sequence

from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall

MAX_LISTED = 1000  # calls in the details of one evaluation
_MAX_NAME = 80  # characters, in a sentence
_MAX_NAMES = 3  # in a sentence
_MAX_NAME_IN_DETAILS = 256


def arguments_of(call: ToolCall) -> dict[str, JsonValue]:
    """The arguments by name; none when they are absent or no object, as the seeds read them."""
    return call.arguments if isinstance(call.arguments, dict) else {}


def positions_by_name(calls: Sequence[ToolCall]) -> dict[str, list[int]]:
    """Where the calls of each name stand, in order."""
    positions: dict[str, list[int]] = {}
    for position, call in enumerate(calls):
        positions.setdefault(call.name, []).append(position)
    return positions


def listed(names: Iterable[str]) -> str:
    """The distinct names as words of a sentence: the first three, and how many more there are."""
    distinct = list(dict.fromkeys(names))
    shown = ", ".join(_cut(name, _MAX_NAME) for name in distinct[:_MAX_NAMES])
    rest = len(distinct) - _MAX_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown


def detailed(names: Sequence[str]) -> list[JsonValue]:
    """The names for the details: the first `MAX_LISTED`, and of each no more than anybody reads."""
    return [_cut(name, _MAX_NAME_IN_DETAILS) for name in names[:MAX_LISTED]]


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"


def counted(count: int, noun: str) -> str:
    """``1 call``, ``2 calls``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def all_of(count: int, noun: str) -> str:
    """``The expected call was``, ``All 2 expected calls were``."""
    return f"The {noun} was" if count == 1 else f"All {count} {noun}s were"
