"""Whole tool calls that a model wrote in the place of a tool's name or in a text, in each form that servers leave.

A call is an object with ``name`` and ``arguments``, ``parameters``, ``input`` or ``args`` (an object or JSON text), or
OpenAI's ``{"function": {...}}`` around one. Several are a list, ``{"tool_calls": [...]}``, or one after the other. A
code fence and ``<tool_call>`` tags may enclose them.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from json import JSONDecoder
from typing import Never

from tracegrade.evaluate.json_values import decoded
from tracegrade.model.json_value import JsonValue

_ARGUMENTS = ("arguments", "parameters", "input", "args")
_OPENINGS = ("{", "[", "`", "<")
_BETWEEN_CALLS = re.compile(r"(?:[\s,;]|```[\w-]*|</?\|?tool_calls?\|?>)*", re.IGNORECASE)
_LONGEST_SEARCHED = 100_000
_MOST_BRACES = 50  # that open no call, one after the other


@dataclass(frozen=True, slots=True)
class WholeCall:
    """One call; ``arguments`` are as they were written, None where there are none."""

    name: str
    arguments: JsonValue = None


def calls_in_name(name: JsonValue) -> list[WholeCall]:
    """The calls that stand where a tool's name belongs; none where it is a name, or holds anything but calls."""
    if not isinstance(name, str):
        return _calls_of(name)
    if not name.lstrip().startswith(_OPENINGS):
        return []
    calls: list[WholeCall] = []
    at = _end_of_separators(name, 0)
    while at < len(name):
        value, at = _decoded_at(name, at)
        found = _calls_of(value)
        if not found:
            return []
        calls += found
        at = _end_of_separators(name, at)
    return calls


def calls_in_text(text: str, tools: Collection[str]) -> list[WholeCall]:
    """The calls that a text holds anywhere, in order.

    Each names one of `tools`; the first may name another tool, if its ``arguments`` or ``parameters`` are an object.
    """
    calls: list[WholeCall] = []
    if len(text) > _LONGEST_SEARCHED:
        return calls
    at, braces = text.find("{"), 0
    while at >= 0 and braces < _MOST_BRACES:
        value, end = _decoded_at(text, at)
        call = _call_of(value)
        if call is not None and (call.name in tools or (not calls and _is_call_of_any_tool(value))):
            calls.append(call)
            at, braces = text.find("{", end), 0
        else:
            at, braces = text.find("{", at + 1), braces + 1
    return calls


def argument_object(written: JsonValue) -> dict[str, JsonValue] | None:
    """Arguments as an object: {} for nothing, also out of JSON text and of JSON text within it; None if unreadable."""
    value = written
    for _ in range(2):
        if isinstance(value, str) and value.strip():
            value = decoded(value)
    if value is None or value == "":
        return {}
    return value if isinstance(value, dict) else None


def _calls_of(value: JsonValue) -> list[WholeCall]:
    """The calls that a value is, in order; none if it holds anything else."""
    if isinstance(value, dict) and isinstance(several := value.get("tool_calls"), list):
        value = several
    found = [_call_of(item) for item in (value if isinstance(value, list) else [value])]
    calls = [call for call in found if call is not None]
    return calls if len(calls) == len(found) else []


def _call_of(value: JsonValue) -> WholeCall | None:
    if isinstance(value, dict) and not isinstance(value.get("name"), str):
        value = value.get("function")
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(name, str) or not name:
        return None
    return WholeCall(name, next((value[key] for key in _ARGUMENTS if key in value), None))


def _is_call_of_any_tool(value: JsonValue) -> bool:
    return isinstance(value, dict) and isinstance(value.get("arguments", value.get("parameters")), dict)


def _end_of_separators(text: str, at: int) -> int:
    found = _BETWEEN_CALLS.match(text, at)
    return found.end() if found else at


def _decoded_at(text: str, at: int) -> tuple[JsonValue, int]:
    """The JSON value at a place and where it ends; None and the end of the text where there is none."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, len(text)
    return value, end


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


_DECODER = JSONDecoder(parse_constant=_refuse_constant)
