"""Envelopes: what frameworks put around the arguments that a tool got and the result that it gave.

They are recognised by their form, never by their sender, because instrumentations wrap one another.
"""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from tracegrade.extract.decode.reprs import CLASS, read_repr
from tracegrade.extract.decode.values import Decoded, call_id, decode, literal_json
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolError

MAX_ENVELOPES = 5
# An agent declares the same tools in each of its model calls: this many texts are kept decoded, some 40 MB at most.
_DECLARED = 128
_LONGEST_DECLARED = 64 * 1024
# An object with more than one member is an envelope only if it has one of these.
_ENVELOPE_KEYS = frozenset({"content", "data", "kwargs", "blocks", "response", "text", "tool_output", "update"})

_VALUE = "$value"  # around what is no object, in Strands for TypeScript
_SMOLAGENTS = "sanitize_inputs_outputs"
_BOUND_CALL = frozenset({"args", "kwargs", _SMOLAGENTS})
_MCP_CALL = frozenset({"tool_name", "arguments"})
_TOOL_RUN = frozenset({"input", "options"})  # BeeAI's
_CALLBACK_INPUT = frozenset({"input_str", "tags", "metadata", "inputs", "kwargs"})
_CALLBACK_OUTPUT = frozenset({"output", "kwargs"})
_FUNCTION_RESPONSE = frozenset({"id", "name", "response"})
# Beside `content` these say that an object is a message about a result and not the result itself.
_MESSAGE_KEYS = frozenset({"tool_call_id", "toolCallId", "toolUseId", "tool_use_id", "isError", "is_error"})
_BLOCK_KEYS = frozenset(
    {"type", "text", "annotations", "_meta", "meta", "id", "cache_control", "cache_prompt", "citations", "block_type"}
)

_MESSAGE_REPR = re.compile(r"""content=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL)
_MESSAGE_STARTS = ("content='", 'content="', "content=[", "content={")
# What the repr of a message may say after its content.
_MESSAGE_MEMBER = re.compile(r" (?:additional_kwargs|response_metadata|name|id|tool_call_id|artifact|status)=")
_MAX_MESSAGE_MEMBERS = 32
_REPR_CALL_ID = re.compile(r"\btool_call_id='([^']*)'")
_REPR_FAILED = re.compile(r"\bstatus='error'")
_MAX_REPR_CHARS = 100_000
# LangGraph's `Command`, by which a tool answers with messages and says where the graph goes on.
_COMMAND = frozenset({"graph", "update", "resume", "goto", CLASS})
# Objects whose repr is an envelope: LangGraph's, AgentScope's.
_REPR_STARTS = ("Command(", "ToolResponse(", "{'messages': [ToolMessage(")
# Agno's object for what came of a call, where a tool gave nothing.
_EXECUTION_RESULT = frozenset(
    {"status", "result", "error", "updated_session_state", "images", "videos", "audios", "files"}
)
# The same as Python prints it.
_PRINTED_RESULT = re.compile(
    r"""status='(?:failure'\ result=None\ error=(?P<error>.*?)
    |(?P<status>success|failure)'\ result=(?P<result>.*)\ error=.*?)(?:\ updated_session_state=.*)?\Z""",
    re.DOTALL | re.VERBOSE,
)
# ADK's plug-in for tools that fail gives the model this as the result.
_ADK_HANDLED = "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN"


@dataclass(slots=True)
class Output:
    """A tool's result without its envelopes, and what they said beside it.

    ``error`` is how the call failed, where that is said elsewhere than in the result. ``is_part``: it may be the
    first of several values, which some senders keep alone.
    """

    result: Decoded
    call_id: str | None = None
    failed: bool = False
    error: ToolError | None = None
    is_part: bool = False

    def said_error(self) -> ToolError | None:
        """The error that the result reports; None where it reports none."""
        if self.error is not None or not self.failed:
            return self.error
        value = self.result.value
        return ToolError("", value if isinstance(value, str) else "")


def unwrap_output(decoded: Decoded, *, function_response: bool = False) -> Output:
    """The result inside ToolMessage shapes, content blocks, MCP results and function responses.

    Args:
        decoded: what the sender recorded as the result.
        function_response: it is what Gemini's API gets as a call's result (see `open_function_response`).
    """
    value = decoded.value
    if type(value) is dict and len(value) != 1 and _ENVELOPE_KEYS.isdisjoint(value):
        if value.get("response_type") == _ADK_HANDLED:
            return Output(decoded, failed=True, error=_handled_error(value))
        if "updated_session_state" in value and value.keys() == _EXECUTION_RESULT:
            failed = value["status"] == "failure"
            given = value["error" if failed else "result"]
            return Output(Decoded(None, "ok") if given is None else decode(given), failed=failed)
        return Output(decoded)  # nearly all results
    layer = _open(value)
    if layer is None and function_response and isinstance(value, dict) and len(value) == 1:
        content, failed = open_function_response(value)
        layer = None if content is value else (content, None, failed)
    if layer is None:
        if isinstance(value, str) and (record := _PRINTED_RESULT.match(value)):
            return _of_printed(record)
        is_cut = isinstance(value, str) and value.startswith(_MESSAGE_STARTS) and not any(_ends_of_content(value))
        return Output(Decoded(value, "truncated") if is_cut else decoded)
    found_id: str | None = None
    failed = False
    for _ in range(MAX_ENVELOPES):
        content, layer_id, layer_failed = layer
        found_id = found_id or layer_id
        failed = failed or layer_failed
        inner = Decoded(None, "ok") if content is None else decode(content)
        if inner.status == "ok" and decoded.status in ("repaired", "python_repr"):
            inner = Decoded(inner.value, decoded.status)
        decoded = inner
        layer = _open(decoded.value)
        if layer is None:
            break
    return Output(decoded, found_id, failed)


def _of_printed(record: re.Match[str]) -> Output:
    """The result in Agno's printed object for what came of a call, or the message of a failure."""
    if record["error"] is not None:
        return Output(decode(record["error"]), failed=True)
    given = record["result"]
    return Output(Decoded(None, "ok") if given == "None" else decode(given), failed=record["status"] == "failure")


def open_function_response(response: JsonValue) -> tuple[JsonValue, bool]:
    """What a function gave to Gemini, and whether it failed: (result, failed).

    A response is an object. By the API's reference its ``output`` is the result and its ``error`` says what went wrong;
    one without them is the result as a whole. Google's SDK and ADK write ``result`` for ``output``. Opened once, where
    it has nothing else: what a function itself gave may look the same.
    """
    if isinstance(response, dict) and len(response) == 1:
        for name in ("result", "output"):
            if name in response:
                return response[name], False
        if error := response.get("error"):
            return error, True
    return response, False


def _open(value: JsonValue) -> tuple[JsonValue, str | None, bool] | None:
    """One layer: (content, call id, failed), None when `value` is not an envelope."""
    if isinstance(value, dict):
        return _open_object(value)
    if isinstance(value, list):
        return _open_blocks(value)
    if isinstance(value, str):
        if value.startswith("content="):
            return _open_repr(value)
        if value.startswith(_REPR_STARTS) and isinstance(found := read_repr(value), dict):
            return _open_object(found)
    return None


def _handled_error(value: dict[str, JsonValue]) -> ToolError:
    kind, details = value.get("error_type"), value.get("error_details")
    return ToolError(kind if isinstance(kind, str) else "", details if isinstance(details, str) else "")


def _open_messages(update: JsonValue) -> tuple[JsonValue, str | None, bool] | None:
    """The tool's message, which is the last of those that a `Command` or a node of a graph brings."""
    messages = update.get("messages") if isinstance(update, dict) else update
    for message in reversed(messages) if isinstance(messages, list) else ():
        layer = _open(message)
        if layer is not None and isinstance(message, dict | str):
            return layer
    return None


def _open_object(value: dict[str, JsonValue]) -> tuple[JsonValue, str | None, bool] | None:
    if len(value) != 1 and _ENVELOPE_KEYS.isdisjoint(value):
        return None
    if value.get("type") == "text" and _BLOCK_KEYS.issuperset(value):  # the only block, without its list
        return _open_blocks([value])
    inner = value.get("data")
    if value.get("type") == "tool" and isinstance(inner, dict) and "content" in inner:
        return _open_message(inner)
    inner = value.get("kwargs")
    if value.get("type") == "constructor" and isinstance(inner, dict) and "content" in inner:  # LangChain's dumpd
        return _open_message(inner)
    if "update" in value and _COMMAND.issuperset(value):
        return _open_messages(value["update"])
    if value.get(CLASS) == "ToolResponse":  # AgentScope's
        content = value.get("content")
        return _open_blocks(content) if isinstance(content, list) else None
    if "content" in value and (len(value) == 1 or not _MESSAGE_KEYS.isdisjoint(value) or value.get("role") == "tool"):
        return _open_message(value)
    if isinstance(inner, dict) and "output" in value and _CALLBACK_OUTPUT.issuperset(value):
        return value["output"], None, False
    if "tool_output" in value and "tool_id" in value:  # LlamaIndex's ToolCallResult
        return value["tool_output"], call_id(value["tool_id"]), False
    if "blocks" in value and "is_error" in value:  # LlamaIndex's ToolOutput
        raw = value.get("raw_output")
        return (raw if isinstance(raw, dict | list) else value["blocks"]), None, value["is_error"] is True
    if "response" in value and "name" in value and _FUNCTION_RESPONSE.issuperset(value):
        content, failed = open_function_response(value["response"])
        return content, call_id(value.get("id")), failed
    if len(value) == 1:
        if _VALUE in value:
            return value[_VALUE], None, False
        output = value.get("output")
        if isinstance(output, str | dict) and _open(output) is not None:
            return output, None, False
        if "messages" in value:  # of LangGraph's tool node
            layer = _open_messages(value)
            return layer if layer is not None and layer[1] is not None else None
    return None


def _open_message(message: dict[str, JsonValue]) -> tuple[JsonValue, str | None, bool]:
    found = next(
        (message[key] for key in ("tool_call_id", "toolCallId", "toolUseId", "tool_use_id") if key in message), None
    )
    failed = message.get("status") == "error" or message.get("isError") is True or message.get("is_error") is True
    content = message["content"]
    if not content and isinstance(structured := message.get("structuredContent"), dict):
        content = structured
    artifact = message.get("artifact")
    if not failed and isinstance(artifact, dict) and isinstance(structured := artifact.get("structured_content"), dict):
        content = _structured(structured, content)
    return content, call_id(found), failed


def _structured(structured: dict[str, JsonValue], content: JsonValue) -> JsonValue:
    """An MCP tool's structured result, which says of a list what its texts, one an item, do not.

    What is no object stands in it as ``{"result": ...}``; where the text says the same, the tool gave that itself.
    """
    if structured.keys() != {"result"}:
        return structured
    layer = _open_blocks(content) if isinstance(content, list) else None
    text = decode(layer[0] if layer is not None else content).value
    return structured if text == structured else structured["result"]


def _open_blocks(blocks: list[JsonValue]) -> tuple[JsonValue, str | None, bool] | None:
    """Content blocks, all of text, or one of JSON (Anthropic, MCP, Bedrock and Strands)."""
    if len(blocks) == 1 and isinstance(only := blocks[0], dict) and only.keys() == {"json"}:
        return only["json"], None, False
    texts = []
    read: list[JsonValue] = []
    for block in blocks:
        if not isinstance(block, dict) or "text" not in block:
            return None
        if not _BLOCK_KEYS.issuperset(block) or block.get("type", "text") not in ("text", "output_text"):
            return None
        if isinstance(text := block["text"], str):
            texts.append(text)
        read.append(text)
    if len(texts) == len(read):
        return ("\n".join(texts), None, False) if texts else None
    # A sender has read what JSON the texts were (langchain-azure-ai).
    is_typed = all(isinstance(block, dict) and block.get("type") == "text" for block in blocks)
    return (read[0] if len(read) == 1 else read, None, False) if is_typed else None


def _open_repr(text: str) -> tuple[JsonValue, str | None, bool] | None:
    """The ``repr`` of a LangChain ToolMessage: ``content='...' name='...' tool_call_id='...'``."""
    if len(text) > _MAX_REPR_CHARS:
        return None
    for end in _ends_of_content(text):
        if (found := _REPR_CALL_ID.search(text, end)) is None:
            return None
        try:
            content = literal_json(ast.literal_eval(text[len("content=") : end]))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return content, call_id(found[1]), _REPR_FAILED.search(text, end) is not None
    return None


def _ends_of_content(text: str) -> Iterable[int]:
    """The places where the content of a message may end in its ``repr``; that of a text is known."""
    if (match := _MESSAGE_REPR.match(text)) is not None:
        return (match.end(),)
    return (member.start() for member in islice(_MESSAGE_MEMBER.finditer(text), _MAX_MESSAGE_MEMBERS))


_OF_SCHEMAS_ALONE = frozenset({"additionalProperties", "$schema"})
_OF_SCHEMAS = _OF_SCHEMAS_ALONE | {"type", "required", "title", "description"}


def properties(schema: JsonValue) -> dict[str, JsonValue] | None:
    """The parameters that a JSON Schema names, in its order; None when `schema` is something else, such as arguments.

    Three forms: an object schema, the same as the library Zod dumps it (VoltAgent), and (smolagents) an object whose
    members all have a type and a description.
    """
    if not isinstance(schema, dict):
        return None
    if schema.get("type") == "object":
        definition = schema.get("def")
        inner = definition.get("shape") if isinstance(definition, dict) else schema.get("properties")
        if isinstance(inner, dict):
            return inner
        if _OF_SCHEMAS.issuperset(schema) and not _OF_SCHEMAS_ALONE.isdisjoint(schema):
            return {}  # of a tool without parameters
    if schema and all(isinstance(item, dict) and "type" in item and "description" in item for item in schema.values()):
        return schema
    return None


def declared(raw: JsonValue) -> JsonValue:
    """What an attribute says of tools, decoded; never to be changed: all spans that say the same share one value."""
    if isinstance(raw, str) and len(raw) <= _LONGEST_DECLARED:
        return _declared(raw)
    return decode(raw).value


@lru_cache(maxsize=_DECLARED)
def _declared(text: str) -> JsonValue:
    return decode(text).value


def read_schemas(raw: JsonValue) -> dict[str, JsonValue]:
    """Tool name to JSON Schema in a list of tool definitions, as the providers' APIs take them."""
    found: dict[str, JsonValue] = {}
    definitions = declared(raw)
    for item in definitions if isinstance(definitions, list) else []:
        if isinstance(item, dict):
            function = item.get("function")
            body = function if isinstance(function, dict) else item
            name = body.get("name")
            if isinstance(name, str):
                found[name] = body.get("parameters", body.get("inputSchema", body.get("input_schema")))
    return found


def callback_input(value: JsonValue) -> JsonValue:
    """The input of a tool as LangChain gave it to its callbacks; None when `value` is not such a record.

    OpenLLMetry writes the whole record: ``{"input_str": ..., "inputs": {...}, "tags", "metadata", "kwargs"}``.
    """
    if not isinstance(value, dict) or "input_str" not in value or not _CALLBACK_INPUT.issuperset(value):
        return None
    inputs = value.get("inputs")
    return inputs if isinstance(inputs, dict) else value["input_str"]


def callback_text(value: JsonValue) -> str | None:
    """The input of a tool as LangChain for JavaScript gave it to its callbacks, as OpenLLMetry writes it.

    None when `value` is no record of that: ``{"args": ["{...}"]}``.
    """
    if not isinstance(value, dict) or value.keys() != {"args"} or not isinstance(texts := value["args"], list):
        return None
    return texts[0] if len(texts) == 1 and isinstance(texts[0], str) else None


def unwrap_arguments(decoded: Decoded, parameters: dict[str, JsonValue] | None) -> Decoded:
    """The arguments inside the record of a bound Python call, ``{"args": [...], "kwargs": {...}}``, or of a tool's run.

    Args:
        decoded: what the sender recorded as the arguments.
        parameters: the tool's parameters in order, None where unknown; they name positional arguments, and without
            them the record stays as it came, with status text.
    """
    value = decoded.value
    if not isinstance(value, dict):
        return decoded
    if value.keys() == _MCP_CALL and isinstance(inner := value["arguments"], dict):
        is_own = parameters is not None and "tool_name" in parameters
        return decoded if is_own else Decoded(inner, decoded.status)
    if value.keys() == _TOOL_RUN and isinstance(inner := value["input"], dict):
        is_known = parameters is not None and _TOOL_RUN.isdisjoint(parameters)
        return Decoded(inner, decoded.status) if is_known else decoded
    keyword = value.get("kwargs")
    if keyword is None and _SMOLAGENTS in value:
        keyword = {}  # left out where there are none
    if not isinstance(keyword, dict):
        return decoded
    if not _BOUND_CALL.issuperset(value) or (parameters is not None and "kwargs" in parameters):
        return decoded
    positional = value.get("args") or []
    if not isinstance(positional, list):
        return decoded
    if not positional:
        return Decoded(keyword, decoded.status)
    if parameters is not None and len(positional) <= len(parameters):
        return Decoded({**dict(zip(parameters, positional, strict=False)), **keyword}, decoded.status)
    return Decoded(value, "text")


def name_lone_argument(raw: JsonValue, decoded: Decoded, parameters: dict[str, JsonValue] | None) -> Decoded:
    """An object for an argument whose name the sender lost, when the tool has exactly one parameter.

    LangChain's callbacks record a tool's only text argument as the bare text.
    """
    if parameters is None or len(parameters) != 1 or isinstance(decoded.value, dict):
        return decoded
    if decoded.status not in ("ok", "text", "repaired", "python_repr"):
        return decoded
    name, schema = next(iter(parameters.items()))
    is_text = isinstance(schema, dict) and schema.get("type") == "string"
    return Decoded({name: raw if is_text and isinstance(raw, str) else decoded.value}, "repaired")
