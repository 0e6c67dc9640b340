"""What an attribute or a member of JSON holds: arguments or outputs of tools, messages, or what traces are made of."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

from tracegrade import semconv as s
from tracegrade.extract.answers import tells_result
from tracegrade.extract.messages import CALL_TYPES, RESULT_ROLES, RESULT_TYPES, is_result_type
from tracegrade.extract.registry import in_force
from tracegrade.extract.shape.keys import is_structure_by_shape, slot_at
from tracegrade.extract.shape.kinds import is_tool_name_key
from tracegrade.extract.shape.words import Slot
from tracegrade.model.json_value import JsonValue
from tracegrade.redact.settings import Kind

Kinds = frozenset[Kind | Literal["definition"]]  # a definition: what arguments a tool takes, and not what it was given

NO_KINDS: Kinds = frozenset()
ARGUMENTS: Kinds = frozenset({"arguments"})
OUTPUTS: Kinds = frozenset({"outputs"})
MESSAGES: Kinds = frozenset({"messages"})

_SCHEMA_WORDS = frozenset(
    {"parameters", "params", "input_schema", "inputschema", "json_schema", "parameters_json_schema"}
)
_JSON_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_SCHEMA_FORMS = frozenset({"$ref", "anyOf", "oneOf", "allOf", "enum", "const"})
# By the last part of an attribute's key, or the name of a member: what instrumentations call them. Rather too many
# than too few: a place that a user names must not be missed because a framework has another word for it.
_ARGUMENT_WORDS = frozenset(
    {
        "arguments",
        "args",
        "kwargs",
        "parameters",
        "params",
        "tool.args",
        "tool_args",
        "tool_arguments",
        "tool_call_args",
        "tool_input",
        "toolinput",
        "tool_kwargs",
        "input_json",
        "input-json",
        "action_input",
        "input_summary",
        "input_str",
        "arguments_json",
        "full_command",
        "command",
    }
)
_OUTPUT_WORDS = frozenset(
    {
        "result",
        "results",
        "tool_result",
        "toolresult",  # as Bedrock writes it
        "tool_call_result",
        "tool_response",
        "tool_output",
        "tooloutput",
        "observation",
        "returnvalue",
        "return_value",
        "artifact",
        "output-json",
        "raw_output",
        "stdout",
        "stderr",
        "structuredcontent",
    }
)
_INPUT_WORDS = frozenset(
    {
        "input",
        "inputs",
        "raw_input",
        "spaninputs",
        "request",
        "llm_request",
        "data",
    }
)
_ANSWER_WORDS = frozenset(
    {
        "output",
        "outputs",
        "spanoutputs",
        "response",
        "llm_response",
        "responses",
    }
)
_MESSAGE_WORDS = frozenset(
    {
        "messages",
        "message",
        "content",
        "contents",
        "text",
        "prompt",
        "prompts",
        "completion",
        "completions",
        "system",
        "system_instructions",
        "user_prompt",
        "final_result",
        "answer",
        "question",
        "query",
        "history",
        "events",
        "parts",
        "choices",
        "generations",
        "thinking",
        "reasoning",
        "object",
        "body",
        "all_messages_events",
        "input_messages",
        "output_messages",
        "user_input",
        "chat_history",
        "tool_calls",
        "toolcalls",
        "msg",
    }
)
_TOOL_RESULT_ROLES = RESULT_TYPES.union(RESULT_ROLES)
# Members that only messages have, and what frameworks wrap them in.
_OF_MESSAGES = frozenset(
    {
        *("role", "messages", "parts", "tool_calls", "toolCalls", "choices", "functionCall", "function_call"),
        *("functionResponse", "responseParts", "tool_call_id", "generations", "additional_kwargs", "candidates"),
    }
)
_NEAR = 5  # levels, and items of a list, in which messages are looked for
_KIND_WORDS = frozenset({"kind", "type", "name", "operation", "operationid", "subtype"})
_WORD = re.compile(r"[^a-z0-9]+")

_SEPARATOR = re.compile(r"[.:/]")

# By these an application says of which conversation a span is, at the end of a key or in an object of metadata:
# traces are put together to conversations by them.
SESSION_MEMBERS = frozenset({"session_id", "sessionid", "conversation_id", "conversationid", "thread_id", "threadid"})
# The same inside messages: by the names of members.
STRUCTURE_MEMBERS = SESSION_MEMBERS | frozenset(
    {
        s.LANGCHAIN_AGENT,
        "role",
        "type",
        "id",
        "name",
        "call_id",
        "tool_call_id",
        "tool_use_id",
        "toolcallid",
        "tooluseid",
        "callid",
        "tool_id",
        "ref",
        "tool_name",
        "toolname",
        "finish_reason",
        "index",
        "status",
        "is_error",
        "stop_reason",
    }
)
# An event, or the body of a log record, with one of these is a message, whose members are attributes.
MARKS_OF_MESSAGE = frozenset({"role", "content", "parts", "tool_calls", "message"})
# Flattened messages: llm.input_messages.0.message.role, gen_ai.prompt.1.tool_calls.0.id.
_FLAT = re.compile(r"\.\d+\.(?:.*\.)?([A-Za-z_]+)$")


def is_structure(key: str) -> bool:
    """Whether an attribute is one of those that traces are put together from, or a definition of tools."""
    declared = in_force().declared
    if key in declared.structure or key in declared.definitions:
        return True
    last = key.rpartition(".")[2]
    if last == s.LANGCHAIN_AGENT or last.lower() in SESSION_MEMBERS or is_structure_by_shape(key):
        return True
    flat = _FLAT.search(key)
    return flat is not None and flat[1].lower() in STRUCTURE_MEMBERS


def kinds_of_key(key: str) -> Kinds:
    """What an attribute with this key holds, unless it is a definition (`without_definition`)."""
    return _kinds_by_words(key) | in_force().declared.content.get(key, NO_KINDS)


@lru_cache(maxsize=10_000)
def _kinds_by_words(key: str) -> Kinds:
    # What lies flattened below a word by which shape reads arguments or a result is a part of them, or of messages.
    by_shape = _BY_SLOT[slot_at(key)]
    found = _kinds_of_last_word(key)
    return found | by_shape if found else by_shape | (MESSAGES if by_shape else NO_KINDS)


_BY_SLOT: dict[Slot | None, Kinds] = {"arguments": ARGUMENTS, "result": OUTPUTS, "error": NO_KINDS, None: NO_KINDS}


def _kinds_of_last_word(key: str) -> Kinds:
    words = _SEPARATOR.split(key.lower())
    if words[-1] in ("value", "json", "data", "content") and len(words) > 1 and not _is_word(words[-2]):
        return OUTPUTS | MESSAGES if words[-1] == "content" else NO_KINDS
    word = words[-2] if words[-1] in ("value", "json", "data") and len(words) > 1 else words[-1]
    found = kinds_of_word(word, NO_KINDS)
    # What a flattened tool message says is not told from what others say: the role has a key of its own.
    return found | OUTPUTS if word in ("content", "text") and found else found


def _is_word(word: str) -> bool:
    return bool(kinds_of_word(word, NO_KINDS))


def kinds_of_word(word: str, around: Kinds) -> Kinds:
    """What a member of this name holds, in what holds `around`."""
    word = word.lower()
    if word in _ARGUMENT_WORDS:
        return around | ARGUMENTS
    if word in _OUTPUT_WORDS:
        return around | OUTPUTS
    if word in _INPUT_WORDS:
        return around | ARGUMENTS | MESSAGES
    if word in _ANSWER_WORDS:
        return around | OUTPUTS | MESSAGES
    if word in _MESSAGE_WORDS:
        return around | MESSAGES
    return around


def may_be_definition(key: str) -> bool:
    """Whether what has this name may be the JSON Schema of what a tool takes, see `is_definition`."""
    return _SEPARATOR.split(key.lower())[-1] in _SCHEMA_WORDS


def is_definition(value: JsonValue) -> bool:
    """Whether a value is the JSON Schema of what a tool takes, and not what it was given."""
    properties = value.get("properties") if isinstance(value, dict) and value.get("type") == "object" else None
    return isinstance(properties, dict) and all(map(_is_schema, properties.values()))


def _is_schema(value: JsonValue) -> bool:
    if not isinstance(value, dict):
        return False
    types = value.get("type")
    named = types if isinstance(types, list) else [types]
    return (
        all(_is_one_of(one, _JSON_TYPES) for one in named) if types is not None else not _SCHEMA_FORMS.isdisjoint(value)
    )


def is_tool_result(message: dict[str, Any]) -> bool:
    """Whether a message, or a part of one, is what a tool gave."""
    if len(message) == 1 and isinstance(message.get("tool"), str):
        return True  # a message whose only member is named after its role
    if any(isinstance(text := message.get(key), str) and tells_result(text) for key in ("content", "text")):
        return True
    if "tool_call_id" in message and "content" in message:
        return True  # of LangChain's dumped messages, whose class is told around them
    role, kind = message.get("role"), message.get("type")
    if isinstance(role, str) and role.lower() in _TOOL_RESULT_ROLES:
        return True
    return isinstance(kind, str) and (kind == "tool" or is_result_type(kind))


def is_dumped(value: dict[str, Any]) -> bool:
    """Whether an object is one that LangChain dumped: its ``kwargs`` are its members, and no arguments."""
    return value.get("type") == "constructor" and "lc" in value and isinstance(value.get("kwargs"), dict)


def _is_one_of(value: JsonValue, words: frozenset[str]) -> bool:
    return isinstance(value, str) and value in words  # a list has no place in a set


def is_tool_call(part: dict[str, Any]) -> bool:
    """Whether a part of a message is what a model asks of a tool: its name and ids are what traces are made of."""
    return _is_one_of(part.get("type"), CALL_TYPES) and not {"arguments", "input", "args", "function"}.isdisjoint(part)


def is_ambiguous(word: str) -> bool:
    """Whether what has this name may be arguments or an output, and as well messages with such in them."""
    return bool({"messages"} & kinds_of_word(word, NO_KINDS)) and word.lower() not in ("tool_calls", "toolcalls")


def holds_messages(value: JsonValue) -> bool:
    """Whether a value is messages, or what is around them: then what is in them has kinds of its own."""
    level = [value]
    for _ in range(_NEAR):
        below: list[JsonValue] = []
        for item in level:
            if isinstance(item, dict):
                if not _OF_MESSAGES.isdisjoint(item):
                    return True
                below += item.values()
            elif isinstance(item, list):
                below += item[:_NEAR]
        level = below
    return False


def kinds_in_tool(key: str) -> Kinds:
    """What an attribute of a span of a tool holds, or of its events, where its key alone says messages."""
    words = set(_WORD.split(key.lower()))
    if words & {"input", "inputs", "prompt", "request", "query"}:
        return ARGUMENTS
    if words & {"output", "outputs", "completion", "response", "answer"}:
        return OUTPUTS
    return ARGUMENTS | OUTPUTS


def is_of_tool(attributes: Iterable[tuple[str, str]]) -> bool:
    """Whether the attributes of a span, with their texts, say that it is of a tool: by its kind, else by a tool's name.

    A model's span may have the names of tools that were asked for.
    """
    names_tool = says_model = False
    for key, value in attributes:
        said = value.lower()
        if _WORD.split(key.lower())[-1] in _KIND_WORDS:
            if "tool" in said:
                return True
            says_model = says_model or not _MODEL_WORDS.isdisjoint(_WORD.split(said))
        names_tool = names_tool or (bool(said) and is_tool_name_key(tuple(key.split("."))))
    return names_tool and not says_model


_MODEL_WORDS = frozenset({"chat", "llm", "model", "generation", "completion", "inference"})
