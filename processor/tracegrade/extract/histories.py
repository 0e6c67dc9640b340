"""Histories: each model call is given all messages before it again, and what is new is at their end.

Reading every history whole would cost the square of a trace's model calls.
"""

from dataclasses import replace

from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span


def beyond(span: Span, since: Span, prefixes: tuple[str, ...]) -> Span:
    """`span` without the messages that `since` was given as well, where its history goes on from that one's.

    A history is a list as JSON text, flattened keys under one of `prefixes`, or span events. What is new in it is
    found by comparing texts, which costs little beside reading them.
    """
    attributes = dict(span.attributes)
    if prefixes:
        _drop_known_keys(attributes, since.attributes, prefixes)
    for key, value in attributes.items():
        if type(value) is str and value[:1] == "[":
            attributes[key] = _beyond_text(value, since.attributes.get(key))
    known = len(since.events)
    events = span.events[known:] if known and span.events[:known] == since.events else span.events
    return replace(span, attributes=attributes, events=events)


def _drop_known_keys(attributes: dict[str, JsonValue], before: dict[str, JsonValue], prefixes: tuple[str, ...]) -> None:
    flattened = [key for key in before if key.startswith(prefixes)]
    changed = [key for key in flattened if key not in attributes or attributes[key] != before[key]]
    continued = tuple(prefix for prefix in prefixes if not any(key.startswith(prefix) for key in changed))
    for key in flattened:
        if key.startswith(continued):
            del attributes[key]


def _beyond_text(value: str, before: JsonValue) -> str:
    """The list of what the list `value` holds beyond the objects of the list `before`, all as JSON text."""
    if type(before) is not str or before[-2:] != "}]":
        return value
    if value == before:
        return "[]"
    known = len(before) - 1
    return f"[{value[known + 1 :]}" if value[known : known + 1] == "," and value.startswith(before[:-1]) else value
