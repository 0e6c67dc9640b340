"""Which values tools are called with that were never seen before: of arguments that take few different values.

An argument such as a currency has values that come again and again; one that never came is worth a look. An id or a
free text is new in every call, and says nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tracegrade.display import json_text
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall

_MOST_VALUES = 1000  # of an argument; one with more is taken for an id
_MOST_ARGUMENTS = 10_000  # of a side; senders may put ids into names
_LEAST_REPEATED = 10  # so often on average each value must have come on A for a new one to tell something
_LONGEST_VALUE = 200  # characters of its JSON; what is longer is taken for free text
_DEEPEST = 6
_SHOWN_VALUES = 10
_READABLE = ("ok", "repaired", "python_repr")


@dataclass(slots=True)
class _Argument:
    """One argument of one tool: in how many calls it came, and its values with their number and an example."""

    calls: int = 0
    values: dict[str, tuple[int, str]] = field(default_factory=dict)
    has_many: bool = False

    def add(self, value: str | None, trace_id: str) -> None:
        if value is None or (value not in self.values and len(self.values) >= _MOST_VALUES):
            self.has_many = True
            return
        count, example = self.values.get(value, (0, trace_id))
        self.values[value] = (count + 1, example)


@dataclass(slots=True)
class SideArguments:
    """The arguments of the calls on one side."""

    calls_by_tool: dict[str, int] = field(default_factory=dict)
    arguments: dict[tuple[str, str], _Argument] = field(default_factory=dict)

    def add(self, trace_id: str, calls: Sequence[ToolCall]) -> None:
        """Add the calls of one trace; arguments that cannot be read are left out."""
        for call in calls:
            if call.arguments_status not in _READABLE or not isinstance(call.arguments, dict):
                continue
            self.calls_by_tool[call.name] = self.calls_by_tool.get(call.name, 0) + 1
            seen = set()
            for path, value in _leaves(call.arguments, "", 0):
                argument = self._argument(call.name, path)
                if argument is not None:
                    argument.add(value, trace_id)
                    argument.calls += path not in seen
                    seen.add(path)

    def _argument(self, tool: str, path: str) -> _Argument | None:
        found = self.arguments.get((tool, path))
        if found is None and len(self.arguments) < _MOST_ARGUMENTS:
            found = self.arguments[tool, path] = _Argument()
        return found


@dataclass(frozen=True, slots=True)
class NewValue:
    """A value, as JSON, that A never had, in how many calls on B, and a trace that has it."""

    value: str
    calls: int
    trace: str


@dataclass(frozen=True, slots=True)
class NewArgument:
    """What is new of one argument: all of it, where A never had it, or ``values``, the most frequent first.

    ``new`` says that A never had it; ``calls_a`` and ``calls_b`` are the calls that have it, ``new_values`` is how
    many values are new.
    """

    tool: str
    argument: str
    new: bool
    calls_a: int
    calls_b: int
    new_values: int
    values: Sequence[NewValue]


def new_arguments(a: SideArguments, b: SideArguments) -> list[NewArgument]:
    """The arguments that are new on B, or have values which A never had, by tool; of tools that both sides call."""
    found = []
    for (tool, path), on_b in sorted(b.arguments.items()):
        on_a = a.arguments.get((tool, path), _NONE)
        if tool not in a.calls_by_tool or not _tells(on_a):
            continue
        new = sorted(
            ((count, value, example) for value, (count, example) in on_b.values.items() if value not in on_a.values),
            key=lambda item: (-item[0], item[1]),
        )
        if new or not on_a.calls:
            shown = [NewValue(value, count, example) for count, value, example in new[:_SHOWN_VALUES]]
            found.append(NewArgument(tool, path, not on_a.calls, on_a.calls, on_b.calls, len(new), shown))
    return found


def _tells(on_a: _Argument) -> bool:
    """Whether a new value means something: A never had the argument, or its values came again and again."""
    if not on_a.calls:
        return True
    came = sum(count for count, _ in on_a.values.values())
    return not on_a.has_many and came >= _LEAST_REPEATED * len(on_a.values)


_NONE = _Argument()


def _leaves(value: JsonValue, path: str, depth: int) -> Iterator[tuple[str, str | None]]:
    """The values within `value` that hold no others, as JSON, each with its path; None for what is long or deep."""
    if isinstance(value, dict) and value and depth < _DEEPEST:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list) and value and depth < _DEEPEST:
        for item in value:
            yield from _leaves(item, f"{path}[]", depth + 1)
    else:
        text = json_text(value)
        yield path, text if len(text) <= _LONGEST_VALUE else None
