"""One span that no dialect reads, and what its keys say: each answer is worked out once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from tracegrade.extract.decode.values import decode
from tracegrade.extract.document import document, own, parsed
from tracegrade.extract.messages import read_messages
from tracegrade.extract.reading import Message
from tracegrade.extract.shape import names
from tracegrade.extract.shape.keys import is_foreign, may_hold_message, may_name_argument, slot_at
from tracegrade.extract.shape.kinds import OF_TOOL, Kinds, counts_tokens, is_tool_name_key, kinds_of, names_model
from tracegrade.extract.shape.messages import SpanMessages, call_of, holds_work, messages_of, values_at_keys
from tracegrade.extract.shape.values import Field, Values, fields, holds_value, slot_of, values_of
from tracegrade.extract.shape.words import words_of
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import KIND_SERVER, Span, SpanEvent
from tracegrade.model.tool_call import ToolError

KIND_CONSUMER = 5


class UnclaimedSpan:
    """A span, and what it says of itself."""

    def __init__(self, span: Span) -> None:
        self.span = span

    @cached_property
    def name(self) -> str:
        """The span's name, in which places for attributes are filled."""
        return names.with_places_filled(self.span.name, self.span.attributes)

    @property
    def is_bare(self) -> bool:
        """Whether it has nothing but a name."""
        return not self.span.attributes and not self.span.events

    @cached_property
    def document(self) -> dict[str, JsonValue]:
        """The span as one value, without what we wrote ourselves, such as the mark of what was redacted."""
        span = self.span
        found = document(replace(span, events=_with_records(span.events)) if span.events else span)
        found.pop("tracegrade", None)
        return found

    @cached_property
    def fields(self) -> list[Field]:
        """Its keys and values."""
        return list(fields(self.document))

    @cached_property
    def kinds(self) -> Kinds:
        """What its kind words say."""
        return kinds_of(self.fields)

    @cached_property
    def values(self) -> Values:
        """The values that it has of an execution; else what messages of its events say, which the tool got and gave."""
        found = values_of(self.document)
        if self.span.events and (found.arguments is None or found.result is None) and self.kinds.is_tool:
            shown = self.shown
            if found.arguments is None:
                found = found._replace(arguments=_content(shown.inputs))
            if found.result is None:
                found = found._replace(result=_content(shown.outputs))
        return found

    @cached_property
    def names_model(self) -> bool:
        """Whether it names a model."""
        return any(names_model(path, own(value)) for path, value in self.fields)

    @cached_property
    def counts_tokens(self) -> bool:
        """Whether it has numbers of tokens."""
        return any(counts_tokens(path, value) for path, value in self.fields) or any(
            "usage" in words_of(path[-1]) for path, _ in self.fields
        )

    @cached_property
    def says_llm(self) -> bool:
        """Whether what it took in or put out stands under a key with the word llm."""
        return any(
            slot_of(path) in ("arguments", "result") and any("llm" in words_of(part) for part in path)
            for path, _ in self.fields
        )

    @property
    def is_of_gen_ai(self) -> bool:
        """Whether it has a key of the conventions for generative AI, which are for the work of models and agents."""
        return any(key.startswith("gen_ai.") for key in self.span.attributes)

    @cached_property
    def bare(self) -> dict[str, JsonValue]:
        """The values under keys of one word, without a prefix, that say nothing of the span or its call."""
        return {key: value for key, value in self.span.attributes.items() if may_name_argument(key)}

    @property
    def has_bare_result(self) -> bool:
        """Whether a result stands under a key of one word."""
        return any("." not in key and slot_at(key) == "result" for key in self.span.attributes)

    @property
    def is_model(self) -> bool:
        """Whether it is a model's by a kind word, a model's name or tokens, or the key of what it took or gave."""
        return self.kinds.is_model or self.names_model or self.counts_tokens or self.says_llm

    @cached_property
    def shown(self) -> SpanMessages:
        """The messages on it."""
        return messages_of(self.span, None if self.span.events else self.document)

    @cached_property
    def messages(self) -> list[Message]:
        """The same, read."""
        return [*read_messages(self.shown.inputs), *read_messages(self.shown.outputs)]

    @cached_property
    def asks(self) -> bool:
        """Whether all that it put out asks for calls, as models alone write it: one message, or one item a call."""
        if self.kinds.is_tool or not any(
            type(value) is str and slot_at(key) == "result" and may_hold_message(value)
            for key, value in values_at_keys(self.span)
        ):
            return False
        put_out = read_messages(self.shown.outputs)
        return bool(put_out) and all(message.calls for message in put_out)

    @property
    def holds_content(self) -> bool:
        """Whether it holds values that are objects, lists or texts of such."""
        values = self.values
        return any(isinstance(parsed(value), dict | list) for value in (values.arguments, values.result))

    @property
    def holds_work(self) -> bool:
        """Whether it has messages of its own: such with calls, or of other roles than tool's."""
        return holds_work(
            self.messages, on_tool=self.kinds.is_tool, call_id=self.values.call_id, tool=self.key_name or self.bare_name
        )

    @cached_property
    def is_foreign(self) -> bool:
        """Whether it is of another kind of work, unless it has the id of a call that a model asked for."""
        span = self.span
        return (
            span.kind in (KIND_SERVER, KIND_CONSUMER)
            or is_foreign(key for key in span.attributes if not key.endswith("id"))
            or any(is_foreign(_keys_within(key, value)) for key, value in span.attributes.items())
        )

    @cached_property
    def key_name(self) -> str:
        """The tool that a key names."""
        return names.key_name(self.fields, is_alone=self.names_tool_and_value or self.kinds.is_function)

    @cached_property
    def bare_name(self) -> str:
        """What a ``name`` beside a type that says tool says."""
        return names.bare_name(self.fields, self.kinds.beside) if self.kinds.beside else ""

    @property
    def says_execution(self) -> bool:
        """Whether its name is a sentence about a tool, or its keys say so, without what a model asked for."""
        if names.sentence_name(self.name):
            return True
        return not self.is_bare and (self.kinds.is_tool or self.kinds.is_function or self.names_tool_and_value)

    @cached_property
    def names_tool_and_value(self) -> bool:
        """Whether a key for a tool's name, of one word without dots, stands beside a value under the same prefix."""
        for path, value in self.fields:
            text = own(value)
            if is_tool_name_key(path) and type(text) is str and names.is_word(text):
                prefix = path[:-1]
                for other, beside in self.fields:
                    is_beside = other[: len(prefix)] == prefix or any("tool" in words_of(part) for part in other)
                    if is_beside and holds_value(other, beside):
                        return True
        return False


def _with_records(events: Sequence[SpanEvent]) -> list[SpanEvent]:
    """Events, of which those that name a tool are all named ``tool``: their keys say what each value is.

    What was written twice, as an event of the span and as a log record, is one event with the keys of both.
    """
    found: list[SpanEvent] = []
    for event in events:
        shown = event.attributes
        if any(is_tool_name_key(tuple(key.split("."))) for key in shown):
            before = found[-1].attributes if found and found[-1].name == OF_TOOL else {}
            if before and all(str(before.get(key, value)) == str(value) for key, value in shown.items()):
                shown = before | shown
                found.pop()
            event = replace(event, name=OF_TOOL, attributes=shown)
        found.append(event)
    return found


def _keys_within(key: str, value: JsonValue) -> Iterator[str]:
    """The keys of an object that is a text under this key, as those of attributes; none of what a tool took or gave."""
    if type(value) is not str or value[:1] != "{" or slot_at(key) is not None:
        return
    found = parsed(value)
    for name, member in found.items() if isinstance(found, dict) else ():
        yield from [f"{name}.{inner}" for inner in member] if isinstance(member, dict) else [name]


def _content(messages: list[JsonValue]) -> JsonValue:
    """The content of an only message."""
    only = messages[0] if len(messages) == 1 else None
    return only.get("content") if isinstance(only, dict) else None


def record_of_call(value: JsonValue, tool: str, level: int = 0) -> dict[str, JsonValue] | None:
    """The call of `tool` as a model asked for it, with an id, where a value of its execution is or holds this alone."""
    found = parsed(value)
    if isinstance(found, list):
        return record_of_call(found[0], tool, level + 1) if len(found) == 1 and level < _MAX_RECORD_LEVELS else None
    if not isinstance(found, dict):
        return None
    if found.get("name") == tool and isinstance(found.get("id"), str):
        return call_of(found, is_certain=False)
    records = [record_of_call(item, tool, level + 1) for item in found.values()] if level < _MAX_RECORD_LEVELS else []
    return next((record for record in records if record is not None), None)


_MAX_RECORD_LEVELS = 3


def error_of(error: JsonValue) -> ToolError:
    """The error that a value tells of: a text, or an object with a message and perhaps a type."""
    value = decode(error).value
    if isinstance(value, dict):
        kind, message = value.get("type"), value.get("message")
        return ToolError(kind if isinstance(kind, str) else "", message if isinstance(message, str) else "")
    return ToolError("", value if isinstance(value, str) else "")


def is_model_by_shape(span: Span) -> bool:
    """Whether a span that no dialect reads is a model's, with messages."""
    looked = UnclaimedSpan(span)
    return looked.is_model and not looked.is_foreign and not looked.kinds.is_tool and bool(looked.messages)
