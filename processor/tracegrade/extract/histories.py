"""Histories: each model call gets all earlier messages again, and the new ones are at the end.

Reading every history whole would cost the square of a trace's model calls.
"""

from typing import NamedTuple

from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span


class Beyond(NamedTuple):
    """A span without what another one holds; `goes_on`: whether its history continues the history of the other."""

    span: Span
    goes_on: bool


def beyond(span: Span, since: Span, prefixes: tuple[str, ...]) -> Beyond:
    """`span` without the messages that `since` holds as well, where its history continues that of `since`.

    A history is a list as JSON text, flattened keys under one of `prefixes`, or span events. What is new in it is
    found by comparing texts, which costs little beside reading them.
    """
    attributes = dict(span.attributes)
    goes_on = bool(prefixes) and _drop_known_keys(attributes, since.attributes, prefixes)
    for key, value in attributes.items():
        if type(value) is str and value[:1] == "[":
            attributes[key] = rest = _beyond_text(value, since.attributes.get(key))
            goes_on = goes_on or (rest is not value and rest != "[]")
    known = len(since.events)
    events = span.events
    if known and events[:known] == since.events:
        events = events[known:]
        goes_on = goes_on or bool(events)
    return Beyond(span.with_content(attributes, events), goes_on)


def _drop_known_keys(attributes: dict[str, JsonValue], before: dict[str, JsonValue], prefixes: tuple[str, ...]) -> bool:
    """Drop the keys of lists that continue earlier ones, or equal them. Returns whether one continues."""
    flattened = [key for key in before if key.startswith(prefixes)]
    changed = [key for key in flattened if key not in attributes or attributes[key] != before[key]]
    continued = tuple(prefix for prefix in prefixes if not any(key.startswith(prefix) for key in changed))
    dropped: set[str] = set()
    for key in flattened:
        if key.startswith(continued):
            del attributes[key]
            dropped.add(next(prefix for prefix in continued if key.startswith(prefix)))
    return bool(dropped) and any(key.startswith(tuple(dropped)) for key in attributes)


def _beyond_text(value: str, before: JsonValue) -> str:
    """The list `value` without the objects of the list `before` at its beginning, all as JSON text."""
    if type(before) is not str or before[-2:] != "}]":
        return value
    if value == before:
        return "[]"
    known = len(before) - 1
    return f"[{value[known + 1 :]}" if value[known : known + 1] == "," and value.startswith(before[:-1]) else value
