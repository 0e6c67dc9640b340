"""How justifications name calls and values: short enough to read, and to keep."""

from collections.abc import Iterable, Sequence

from tracegrade.display import count
from tracegrade.evaluate.call_facts import arguments
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.json_values import excerpt
from tracegrade.model.json_value import JsonValue

MAX_LISTED = 1000  # calls in the details of one evaluation
_MAX_NAME = 80  # characters, in a sentence
_MAX_NAMES = 3  # in a sentence
_MAX_ERROR = 400
_MAX_NAME_IN_DETAILS = 256


class ArgumentExcerpts(dict[int, str]):
    """The arguments of a call as details show them, by its position; written when they are read."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__()
        self._arguments = evidence.once(arguments)

    def __missing__(self, position: int) -> str:
        text = self[position] = excerpt(self._arguments[position])
        return text


class OutputExcerpts(dict[int, str]):
    """The output of a call as details show it, by its position; of one that failed without any, its error."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__()
        self._calls = evidence.calls

    def __missing__(self, position: int) -> str:
        call = self._calls[position]
        if call.output is None and call.error is not None:
            text = _cut(call.error.text, _MAX_ERROR)
        else:
            text = excerpt("" if call.output is None else call.output)
        self[position] = text
        return text


def numbered(evidence: Evidence, place: int) -> str:
    """A call by its tool, if that is known, and its number within the subject, from 1: ``charge_card (call 3)``."""
    name = evidence.calls[place].name
    return f"{_cut(name, _MAX_NAME)} (call {place + 1})" if name else f"call {place + 1}"


def listed(names: Iterable[str]) -> str:
    """The distinct names as words of a sentence: the first three, and how many more there are."""
    distinct = list(dict.fromkeys(names))
    shown = ", ".join(_cut(name, _MAX_NAME) for name in distinct[:_MAX_NAMES])
    rest = len(distinct) - _MAX_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown


def detailed(names: Sequence[str]) -> list[JsonValue]:
    """The names for the details: the first `MAX_LISTED`, each cut to a readable length."""
    shown = names[:MAX_LISTED]
    if max(map(len, shown), default=0) <= _MAX_NAME_IN_DETAILS:
        return list(shown)
    return [_cut(name, _MAX_NAME_IN_DETAILS) for name in shown]


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"


def times(number: int) -> str:
    """``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def agreeing(number: int, one: str, many: str) -> str:
    """The form of a verb that goes with `number`: ``1 call has``, ``2 calls have``."""
    return one if number == 1 else many


def were(number: int, noun: str) -> str:
    """``1 call was``, ``0 calls were``."""
    return f"{count(number, noun)} {agreeing(number, 'was', 'were')}"


def all_of(number: int, noun: str) -> str:
    """``The expected call was``, ``All 2 expected calls were``."""
    return f"The {noun} was" if number == 1 else f"All {number} {noun}s were"
