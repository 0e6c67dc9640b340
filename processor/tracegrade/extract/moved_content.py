"""Content that a distribution took off a span and sent in one log event, named after the span's scope.

Its members ``input`` and ``output`` hold a message for each attribute and each event that was taken: the value as it
was, in the role that the distribution gave it. What it was called on the span is lost, so these stand in only for what
the span's own dialect does not find. Source: AWS Distro for OpenTelemetry Python 0.21.0, llo_handler.py.
"""

from collections.abc import Iterator

from tracegrade import semconv as s
from tracegrade.extract.decode.values import decode
from tracegrade.extract.messages import read_event, read_messages
from tracegrade.extract.reading import Message, ToolEvents
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span


def inputs(span: Span) -> list[Message]:
    """The messages that the span took in."""
    return _messages(span, s.MOVED_INPUT)


def outputs(span: Span) -> list[Message]:
    """The messages that the span put out."""
    return _messages(span, s.MOVED_OUTPUT)


def tool_events(span: Span) -> ToolEvents:
    """What a tool got and gave: the last of each."""
    arguments = output = None
    for _, content in _moved(span, s.MOVED_INPUT):
        arguments = _member(content, "content")
    for _, content in _moved(span, s.MOVED_OUTPUT):
        output = _member(content, "message")
    return ToolEvents(arguments, output)


def _member(content: JsonValue, name: str) -> JsonValue:
    """The member of an event's attributes, where it was an event that was taken; else the attribute's value."""
    return content[name] if isinstance(content, dict) and name in content else content


def _moved(span: Span, side: str) -> Iterator[tuple[str, JsonValue]]:
    """(role, content) of the messages of one side."""
    for event in span.events:
        moved = event.attributes.get(side) if event.name == span.scope else None
        messages = moved.get("messages") if isinstance(moved, dict) else None
        for message in messages if isinstance(messages, list) else ():
            if isinstance(message, dict):
                role = message.get("role")
                yield role if isinstance(role, str) else "", message.get("content")


def _messages(span: Span, side: str) -> list[Message]:
    found: list[Message] = []
    for role, content in _moved(span, side):
        value = decode(content).value
        if isinstance(content, dict):
            found.append(read_event(content, role, len(found)))
        elif isinstance(value, list) and all(isinstance(item, dict) and "role" in item for item in value):
            found += read_messages(value)
        elif isinstance(value, str):
            found.append(Message(role, value))
    return found
