"""Chat messages as JSON: the conventions' parts, the providers' own shapes, and mixtures of both.

A message is an object with a role and any of ``parts`` (OTel GenAI, Gemini), ``content`` (a text, or content blocks),
and ``tool_calls`` (chat completions, LangChain, LiteLLM beside ``parts``). What holds messages is a list of them, or a
provider's request or response as instrumentations record it whole; or the list lies flattened below an attribute's key.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import open_function_response
from tracegrade.extract.decode.values import call_id, decode, is_exact, is_masked, parse_plain
from tracegrade.extract.document import numbered, parsed
from tracegrade.extract.media import media_of
from tracegrade.extract.reading import Message, RequestedCall, ShownResult
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span
from tracegrade.model.stand_ins import MASK

USER_ROLES = ("user", "human")
ASSISTANT_ROLES = ("assistant", "model", "ai", "")

_RESULTS = attrgetter("results")
# Tools that the provider runs itself are called like any other: Anthropic's server_tool_use, OpenAI's mcp_call.
CALL_TYPES = frozenset(
    {"tool_call", "server_tool_call", "tool_use", "server_tool_use", "mcp_tool_use", "tool-call", "function_call"}
    | {"custom_tool_call", "mcp_call"}
)
_ID_KEYS = ("call_id", "id", "tool_call_id", "tool_use_id", "toolUseId", "toolCallId", "ref")
RESULT_TYPES = frozenset(
    {"tool_call_response", "server_tool_call_response", "tool_result", "tool-result", "function_call_output"}
    | {"custom_tool_call_output"}
)
_RESULT_SUFFIX = "_tool_result"  # Anthropic's of its own tools: web_search_tool_result
RESULT_ROLES = ("tool", "function")  # the latter before there were tools
# Calls and results as the only member of a part: Bedrock and Strands, Gemini in both spellings, Haystack, Genkit.
_CALL_MEMBERS = ("toolUse", "functionCall", "function_call", "tool_call", "toolRequest")
_RESULT_MEMBERS = ("toolResult", "tool_call_result", "toolResponse")
_GEMINI_RESULT_MEMBERS = ("functionResponse", "function_response")
# Members of a recorded request or response that hold its messages: OpenAI (also Responses), Gemini, Bedrock, Haystack,
# LangChain.
_HOLDERS = ("messages", "choices", "replies", "candidates", "contents", "generations", "message", "output", "input")
_MAX_HOLDERS = 5
_PROMPTS = frozenset({"input", "contents"})  # of these, texts are what a user said
# What an event says itself of its message.
_EVENT_FIELDS = frozenset(
    {
        *("message", "content", "tool_calls", "parts"),
        *(s.INPUT_MESSAGES, s.OUTPUT_MESSAGES, s.PROMPT_CONTENT, s.COMPLETION_CONTENT),
    }
)
_ITEM_TYPES = frozenset(
    {"function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "mcp_call"}
)
# LangChain's words for roles, in `type` or, of a serialised object, as the class.
_LANGCHAIN_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
}


def read_messages(raw: JsonValue) -> list[Message]:
    """The messages in an attribute: a list, an object with a list, or the JSON text of either; [] for all else."""
    if raw is None:
        return []
    messages = _read_list(parse_plain(raw))
    for message in messages:
        for call in message.calls:
            if not is_exact(call.arguments):
                return _read_list(decode(raw).value)
    return messages


def messages_at(*keys: str) -> Callable[[Span], list[Message]]:
    """A reader, for dialects, of the messages in the first of these attributes that a span has."""

    def read(span: Span) -> list[Message]:
        attributes = span.attributes
        for key in keys:
            if key in attributes:
                return read_messages(attributes[key])
        return []

    return read


def turn_at(*keys: str) -> Callable[[Span], list[Message]]:
    """The same of what a model or an agent put out: without earlier turns."""
    read = messages_at(*keys)
    return lambda span: since_last_user(read(span))


def _read_list(value: JsonValue) -> list[Message]:
    if type(value) is list:
        for item in value:  # nearly all lists are of plain messages
            if type(item) is not dict or "role" not in item:
                value = _items(value, _MAX_HOLDERS)
                break
    else:
        value = _items(value, _MAX_HOLDERS)
    messages = [
        _read_plain(item, position) or read_message(item, position)
        for position, item in enumerate(value)
        if isinstance(item, dict)
    ]
    if any(map(_RESULTS, messages)):  # few lists: most are what models answer
        written = [item for item in value if isinstance(item, dict)]
        say_empty(messages, written, _has_content)
        _tell_apart(messages, written)
    return messages


def read_flattened(
    attributes: Mapping[str, JsonValue], prefix: str, role: str = "", *, inner: str = "", left_out: JsonValue = None
) -> list[Message]:
    """The messages of a list that lies flattened below `prefix`, in order of number; numbers may be missing.

    LiteLLM numbers the calls of one message, each as a ``function_call``.

    Args:
        attributes: those of a span.
        prefix: the key up to the number.
        role: that of all messages, where it is known.
        inner: the member of an item of the list that is the message, where the item itself is none.
        left_out: the arguments of calls that have none.
    """
    items = numbered(attributes, prefix, inner)
    if not items:
        return []
    bodies = [unwrapped(item) for item in items]
    if "function_call" in bodies[0]:
        numbered_calls: list[JsonValue] = [body["function_call"] for body in bodies if "function_call" in body]
        first = bodies[0] | {"tool_calls": numbered_calls}
        bodies = [body for body in bodies[1:] if "function_call" not in body]
        bodies.insert(0, first)
    if role:
        bodies = [{**body, "role": role} for body in bodies]
    messages = [read_message(body, position) for position, body in enumerate(bodies)]
    has_results = False
    for message in messages:
        if message.calls and left_out is not None:
            message.calls = tuple(
                call._replace(arguments=left_out) if call.arguments is None else call for call in message.calls
            )
        has_results = has_results or bool(message.results)
    if has_results and s.REDACTED not in attributes:  # a content that is not there was none
        say_empty(messages, bodies, lambda body: "content" in body or "parts" in body)
    if role and len(messages) > 1 and any("tool_call_id" in body for body in bodies):
        return _with_calls_joined(messages)
    return messages


def _with_calls_joined(messages: list[Message]) -> list[Message]:
    """What a model put out, with all its calls in one message: Netra writes each as a message of its own."""
    calls = [call for message in messages for call in message.calls]
    place = next((place for place, message in enumerate(messages) if message.calls), 0)
    if len(calls) < 2:
        return messages
    first = messages[place]
    first.calls = tuple(call._replace(path=f"{place}/{number}") for number, call in enumerate(calls))
    return [message for message in messages if message is first or not message.calls]


def unwrapped(item: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A message without the objects that flattened keys have around it, its parts and its calls."""
    body = item.get("message")
    if isinstance(body, dict) and (len(item) == 1 or "role" in body):
        item = body
    else:  # some versions of OpenLLMetry write every content as JSON: a text in quotes, a list of blocks
        content = item.get("content")
        if isinstance(content, str) and content[:1] in ('"', "["):
            decoded = decode(content)
            if decoded.status == "ok" and (isinstance(decoded.value, str) or _is_blocks(decoded.value)):
                item = {**item, "content": decoded.value}
    if "contents" in item and isinstance(contents := item["contents"], list):
        has_text = isinstance(item.get("content"), str)
        parts = [part.get("message_content", part) if isinstance(part, dict) else part for part in contents]
        item = {**item, "parts": [part for part in parts if not (has_text and _is_text(part))]}
    if "function_call_name" in item and "tool_calls" not in item and (name := item["function_call_name"]):
        item = {**item, "tool_calls": [{"name": name, "arguments": item.get("function_call_arguments_json")}]}
    return item


def _is_blocks(value: JsonValue) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and "type" in item for item in value)


def _is_text(part: JsonValue) -> bool:
    return isinstance(part, dict) and part.get("type", "text") == "text"


def _tell_apart(messages: list[Message], written: Sequence[dict[str, JsonValue]]) -> None:
    """Make a result of each text of a tool's message without ids, where the message before it has as many calls."""
    for before, message, source in zip(messages, messages[1:], written[1:], strict=False):
        asked = len(before.calls)
        if asked > 1 and message.role == "tool" and len(message.results) == 1 and message.results[0].call_id is None:
            parts = source.get("parts", source.get("content"))
            texts: list[str] = []
            _read_parts(parts if isinstance(parts, list) else [], 0, texts, [], [])
            if len(texts) == asked:
                message.results = tuple(ShownResult(None, text) for text in texts)


def _has_content(message: dict[str, JsonValue]) -> bool:
    return message.get("content") is not None or bool(message.get("parts")) or MASK in message


def _shows_content(message: Message) -> bool:
    return bool(message.text) or any(call.arguments is not None and call.arguments != {} for call in message.calls)


def say_empty(
    messages: list[Message],
    written: Sequence[dict[str, JsonValue]],
    has_content: Callable[[dict[str, JsonValue]], bool],
) -> None:
    """Make results of tools' messages without content the empty text: many senders leave that out.

    Where no message has a text or arguments, contents were not recorded, and nothing is known of results.

    Args:
        messages: those of one list, whose results may be changed.
        written: what each of them was read from.
        has_content: whether that has a content.
    """
    if not any(map(_RESULTS, messages)):
        return
    empty = [
        message
        for message, source in zip(messages, written, strict=True)
        if message.results and not has_content(source)
    ]
    if empty and any(map(_shows_content, messages)):
        for message in empty:
            message.results = tuple(
                result._replace(output="") if result.output is None else result for result in message.results
            )


def _items(value: JsonValue, levels: int) -> list[JsonValue]:
    """The messages in a value, each as an object with a role, in order; [] where there are none."""
    if isinstance(value, dict):
        return _items_of_object(value, levels)
    if not isinstance(value, list) or not levels:
        return []
    if _is_pair(value):
        return [{"role": value[0], "content": value[1]}]
    items: list[JsonValue] = []
    for item in value:
        if isinstance(item, dict) and isinstance(kind := item.get("type"), str) and kind in _ITEM_TYPES:
            _append_part(items, item)
        else:
            items += _items(item, levels - 1)
    return items


def _is_pair(value: list[JsonValue]) -> bool:
    """A message as LangChain also takes it: ``["user", "text"]``."""
    return len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], str)


def _items_of_object(value: dict[str, JsonValue], levels: int) -> list[JsonValue]:
    kwargs = value.get("kwargs")
    if value.get("type") == "constructor" and isinstance(kwargs, dict):  # LangChain's dumpd
        path = value.get("id")
        value = {**kwargs, "type": path[-1]} if isinstance(path, list) and path else kwargs
    content = value.get("content")
    if isinstance(content, dict) and value.get("role") is None:  # a candidate of Gemini
        value = content
    if _is_message(value):
        kind = value.get("type")
        if value.get("role") is None and isinstance(kind, str) and kind in _LANGCHAIN_ROLES:
            value = {**value, "role": _LANGCHAIN_ROLES[kind]}
        return [value]
    if levels:
        for key in _HOLDERS:
            inner = value.get(key)
            if key in _PROMPTS:
                if isinstance(inner, str):
                    return [{"role": "user", "content": inner}]
                if isinstance(inner, list):
                    inner = [{"role": "user", "content": item} if isinstance(item, str) else item for item in inner]
            if isinstance(inner, dict | list) and (items := _items(inner, levels - 1)):
                return items
    return []


def _is_message(value: dict[str, JsonValue]) -> bool:
    """Whether an object is a message or an item of a conversation."""
    get = value.get
    return (
        get("role") is not None
        or get("content") is not None
        or get("parts") is not None
        or get("tool_calls") is not None
    )


def _append_part(items: list[JsonValue], part: dict[str, JsonValue]) -> None:
    """Calls in a row are one message, and so are results: OpenAI's Responses lists them beside messages."""
    role = "tool" if part["type"] in RESULT_TYPES else "assistant"
    last = items[-1] if items else None
    if isinstance(last, dict) and last.get("role") == role:
        parts = last.get("parts")
        items[-1] = {**last, "parts": [*(parts if isinstance(parts, list) else []), part]}
    else:
        items.append({"role": role, "parts": [part]})


def _read_plain(value: dict[str, JsonValue], position: int) -> Message | None:
    """Nearly all messages, as `read_message` reads them: one part, a text or a call; None for any other."""
    role, parts = value.get("role"), value.get("parts")
    if type(parts) is not list or len(parts) != 1 or type(role) is not str or (role := role.lower()) in RESULT_ROLES:
        return None
    part = parts[0]
    if type(part) is not dict or "content" in value or "tool_calls" in value:
        return None
    kind = part.get("type")
    if kind == "text":
        text = part.get("content")
        return Message(role, text) if type(text) is str else None
    if kind != "tool_call":
        return None
    name, arguments, identity = part.get("name"), part.get("arguments"), call_id(part.get("id"))
    if type(name) is not str or not name or arguments is None or identity is None:
        return None
    return Message(role, "", (RequestedCall(name, identity, arguments, f"{position}/0"),))


def read_message(value: dict[str, JsonValue], position: int, role: str = "") -> Message:
    """One message; `position` is its place among its turn's messages, `role` its role where it does not say one."""
    found = value.get("role")
    content = value.get("content")
    role = found.lower() if isinstance(found, str) else role
    if type(content) is str and type(found) is str and len(value) == 2 and role not in RESULT_ROLES:
        return Message(role, content)  # nearly all
    texts: list[str] = []
    calls: list[RequestedCall] = []
    results: list[ShownResult] = []
    media: list[str] = []
    if isinstance(parts := value.get("parts"), list):
        media = _read_parts(parts, position, texts, calls, results)
    if isinstance(content, list) and not (role == "tool" and all(isinstance(part, str) for part in content)):
        # A tool's list of texts is its result as it is.
        media += _read_parts(content, position, texts, calls, results)
    known = {call.call_id for call in calls}
    if "tool_calls" in value and None not in known:  # all of them, or those that the content lacks (LangChain)
        tool_calls = decode(value["tool_calls"]).value
        first = sum(len(held) for held in (parts, content) if isinstance(held, list)) if known else 0
        for index, item in enumerate(tool_calls if isinstance(tool_calls, list) else [], first):
            call = _chat_completions_call(item, f"{position}/{index}") if isinstance(item, dict) else None
            if call is not None and (not known or call.call_id not in {None, *known}):
                calls.append(call)
    if not calls and isinstance(function := value.get("function_call"), dict):
        asked = _chat_completions_call({"function": function}, f"{position}/0")
        calls += [asked] if asked is not None else []
    if "tool_call_id" in value and not calls and role in ASSISTANT_ROLES:
        asked = _call_as_text(content, value["tool_call_id"], f"{position}/0")
        if asked is not None:
            return Message(role, "", (asked,))
    is_result = role in RESULT_ROLES or ("tool_call_id" in value and call_id(value["tool_call_id"]) is not None)
    if is_result and not results and not calls:
        shown = "\n".join(texts) if texts else content
        name = value.get("name")
        identity = call_id(value.get("tool_call_id") or value.get("id"))
        results.append(ShownResult(identity, shown, name=name if isinstance(name, str) else ""))
        texts.clear()
    elif isinstance(content, str):
        texts.append(content)
    text = texts[0] if len(texts) == 1 else "\n".join(texts)
    return Message(role, text, tuple(calls), tuple(results), tuple(media))


def _call_as_text(content: JsonValue, identity: JsonValue, path: str) -> RequestedCall | None:
    """The call in an assistant's message whose text is its name and arguments as JSON, beside its id."""
    if type(content) is not str or content[:1] != "{":
        return None
    found = decode(content).value
    if not isinstance(found, dict) or found.keys() != {"name", "arguments"} or not isinstance(found["name"], str):
        return None
    return RequestedCall(found["name"], call_id(identity), found["arguments"], path)


def content_of(value: JsonValue, tool: str) -> JsonValue:
    """What a tool got or gave, without the message of role tool around it, nor the record of the call of `tool`."""
    found = parsed(value)
    if isinstance(found, dict) and len(found) == 1 and "messages" in found:
        found = parsed(found["messages"])
    if isinstance(found, list) and len(found) == 1:
        inner = parsed(found[0])
        if isinstance(inner, dict) and inner.get("role") == "tool":
            found = inner
    if isinstance(found, dict):
        if found.get("role") == "tool":
            if "content" in found:
                return found["content"]
            results = read_message(found, 0).results if "parts" in found else ()
            return results[0].output if results else value
        if found.keys() == {"name", "arguments"} and found["name"] == tool:
            return found["arguments"]
    return value


def ai_sdk_message(text: JsonValue, calls: JsonValue) -> Message:
    """An assistant's turn as the AI SDK and Mastra have it: a text, and ``[{toolCallId, toolName, input or args}]``."""
    parts: list[JsonValue] = [
        {"type": "tool-call", **call} for call in (calls if isinstance(calls, list) else []) if isinstance(call, dict)
    ]
    return read_message({"role": "assistant", "content": text, "parts": parts}, 0)


def since_last_user(messages: list[Message]) -> list[Message]:
    """What came after the last message of a user: frameworks put out a conversation with all its earlier turns."""
    for place in range(len(messages), 0, -1):
        message = messages[place - 1]
        if message.role in USER_ROLES and not message.results:  # Anthropic's and Bedrock's users tell results
            return messages[place:]
    return messages


def event_body(attributes: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The fields of a message's event, which one attribute may hold as JSON text."""
    if s.EVENT_CONTENT not in attributes or not _EVENT_FIELDS.isdisjoint(attributes):
        return attributes
    body = decode(attributes[s.EVENT_CONTENT]).value
    return attributes | (body if isinstance(body, dict) else {"content": body})


def read_event(attributes: dict[str, JsonValue], role: str, position: int) -> Message:
    """A message event: its fields flat, or the whole message in one of them; any of them as JSON text."""
    body = dict(event_body(attributes))
    message = decode(body.get("message")).value
    if isinstance(message, dict):
        body.update(message)
    elif message is not None:
        body["content"] = message
    content = decode(body.get("content")).value
    if isinstance(content, list):
        body["content"] = content
    return read_message(body, position, role)


def last_text(messages: list[Message], roles: tuple[str, ...]) -> str | None:
    """The text of the last message of one of `roles` that has one, trimmed; masked texts are none."""
    for message in reversed(messages):
        if message.role in roles and (text := message.text.strip()) and not is_masked(text):
            return text
    return None


def _read_parts(
    parts: list[JsonValue], position: int, texts: list[str], calls: list[RequestedCall], results: list[ShownResult]
) -> list[str]:
    """Add what `parts` hold to `texts`, `calls` and `results`. Returns their images and other files, by name."""
    media: list[str] = []
    for index, part in enumerate(parts):
        if not isinstance(part, dict):
            if isinstance(part, str):
                texts.append(part)
            continue
        kind = part.get("type")
        if kind == "text" or kind == "output_text" or (kind is None and isinstance(part.get("text"), str)):
            if part.get("thought") is True:  # Gemini's reasoning
                continue
            text = part.get("content", part.get("text"))
            if isinstance(text, str):
                texts.append(text)
        elif isinstance(kind, str) and kind in CALL_TYPES:
            if call := _part_call(part, f"{position}/{index}"):
                calls.append(call)
                if kind == "mcp_call" and (result := _own_result(part, call)) is not None:
                    results.append(result)
        elif is_result_type(kind):
            results.append(_part_result(part))
        elif (inner := _member(part, _CALL_MEMBERS)) is not None:
            if call := _part_call(inner, f"{position}/{index}"):
                calls.append(call)
        elif (inner := _member(part, _RESULT_MEMBERS)) is not None:
            results.append(_part_result(inner))
        elif (inner := _member(part, _GEMINI_RESULT_MEMBERS)) is not None:
            shown, failed = open_function_response(inner.get("response"))
            results.append(ShownResult(_part_id(inner), shown, failed))
        elif isinstance(part.get("function"), dict) and (call := _chat_completions_call(part, f"{position}/{index}")):
            calls.append(call)  # chat completions' calls as the content (Langtrace)
        elif (name := media_of(part)) is not None:
            media.append(name)
    return media


def is_result_type(kind: JsonValue) -> bool:
    """Whether a part of this type is what a tool gave."""
    return isinstance(kind, str) and (kind in RESULT_TYPES or kind.endswith(_RESULT_SUFFIX))


def _member(part: dict[str, JsonValue], keys: tuple[str, ...]) -> dict[str, JsonValue] | None:
    return next((inner for key in keys if isinstance(inner := part.get(key), dict)), None)


def _part_call(part: dict[str, JsonValue], path: str) -> RequestedCall | None:
    arguments = part.get("arguments")
    if arguments is None:
        arguments = part.get("input", part.get("args"))
        if arguments is None and isinstance(inner := part.get("server_tool_call"), dict):
            arguments = inner.get("arguments", inner)
    name = part.get("name", part.get("toolName", part.get("tool_name")))
    if not isinstance(name, str) or not name:
        return _chat_completions_call(part, path)
    return RequestedCall(name, _part_id(part), arguments, path)


def _part_result(part: dict[str, JsonValue]) -> ShownResult:
    # The official examples say `result` where the schema says `response`.
    keys = ("response", "result", "server_tool_call_response", "output", "content")
    shown = next((part[key] for key in keys if key in part), None)
    flags = (part.get("error"), part.get("is_error"), part.get("isError"))
    failed = True in flags or part.get("status") == "error"  # the latter is Bedrock's
    if isinstance(shown, dict) and shown.keys() == {"type", "value"}:  # AI SDK: text, json, content, error-text, ...
        failed = failed or str(shown["type"]).startswith("error-")
        shown = shown["value"]
    elif isinstance(shown, dict) and str(shown.get("type")).endswith("_tool_result_error"):  # Anthropic's own tools
        failed = True
    origin = part.get("origin")  # Haystack: the call that the result is of
    found = _part_id(part) or (_part_id(origin) if isinstance(origin, dict) else None)
    return ShownResult(found, shown, failed)


def _own_result(part: dict[str, JsonValue], call: RequestedCall) -> ShownResult | None:
    """What OpenAI's item of a call to an MCP server says came of it; None while that is not known."""
    if (error := part.get("error")) is not None:
        return ShownResult(call.call_id, error, failed=True)
    output = part.get("output")
    return None if output is None else ShownResult(call.call_id, output)


def _part_id(part: dict[str, JsonValue]) -> str | None:
    for key in _ID_KEYS:
        if key in part and (found := call_id(part[key])) is not None:
            return found
    return None


def _chat_completions_call(item: dict[str, JsonValue], path: str) -> RequestedCall | None:
    """``{id, type, function: {name, arguments}}``, also with name and arguments beside the id, or within one member.

    OpenAI's tools that take a text are ``{id, type, custom: {name, input}}``.
    """
    if isinstance(inner := item.get("tool_call"), dict):
        item = inner
    function = item.get("function", item.get("custom"))
    body = function if isinstance(function, dict) else item
    name = body.get("name")
    if not isinstance(name, str) or not name:
        return None
    arguments = next((body[key] for key in ("arguments", "args", "input") if key in body), None)
    return RequestedCall(name, _part_id(item), arguments, path)
