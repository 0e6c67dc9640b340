"""Chat messages as JSON: the conventions' parts, the providers' own shapes, and mixtures of both.

A message is an object with a role and any of ``parts`` (OTel GenAI), ``content`` (a text, or content blocks), and
``tool_calls`` (chat completions, LiteLLM beside ``parts``).
"""

from tracegrade.extract.reading import Message, RequestedCall, ShownResult
from tracegrade.extract.values import call_id, decode, is_exact, is_masked, parse_plain
from tracegrade.model.json_value import JsonValue

_CALL_TYPES = frozenset({"tool_call", "server_tool_call", "tool_use", "tool-call", "function_call"})
_ID_KEYS = ("id", "tool_call_id", "tool_use_id", "toolUseId", "toolCallId", "call_id")
_RESULT_TYPES = frozenset({"tool_call_response", "server_tool_call_response", "tool_result", "tool-result"})


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


def _read_list(value: JsonValue) -> list[Message]:
    if isinstance(value, dict):
        inner = value.get("messages")
        value = inner if isinstance(inner, list) else [value]
    if not isinstance(value, list):
        return []
    return [
        _read_plain(item, position) or read_message(item, position)
        for position, item in enumerate(value)
        if isinstance(item, dict)
    ]


def _read_plain(value: dict[str, JsonValue], position: int) -> Message | None:
    """Nearly all messages, as `read_message` reads them: one part, a text or a call; None for any other."""
    role, parts = value.get("role"), value.get("parts")
    if type(parts) is not list or len(parts) != 1 or type(role) is not str or role == "tool":
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
    role = found if isinstance(found, str) else role
    texts: list[str] = []
    calls: list[RequestedCall] = []
    results: list[ShownResult] = []
    content = value.get("content")
    if isinstance(parts := value.get("parts"), list):
        _read_parts(parts, position, texts, calls, results)
    if isinstance(content, list):
        _read_parts(content, position, texts, calls, results)
    if "tool_calls" in value and not calls:
        tool_calls = decode(value["tool_calls"]).value
        for index, item in enumerate(tool_calls if isinstance(tool_calls, list) else []):
            if isinstance(item, dict) and (call := _chat_completions_call(item, f"{position}/{index}")):
                calls.append(call)
    if role == "tool" and not results and not calls and (content is not None or texts):
        shown = "\n".join(texts) if texts else content
        results.append(ShownResult(call_id(value.get("tool_call_id") or value.get("id")), shown))
        texts.clear()
    elif isinstance(content, str):
        texts.append(content)
    text = texts[0] if len(texts) == 1 else "\n".join(texts)
    return Message(role, text, tuple(calls), tuple(results))


def last_text(messages: list[Message], roles: tuple[str, ...]) -> str | None:
    """The text of the last message of one of `roles` that has one, trimmed; masked texts are none."""
    for message in reversed(messages):
        if message.role in roles and (text := message.text.strip()) and not is_masked(text):
            return text
    return None


def _read_parts(
    parts: list[JsonValue], position: int, texts: list[str], calls: list[RequestedCall], results: list[ShownResult]
) -> None:
    for index, part in enumerate(parts):
        if not isinstance(part, dict):
            if isinstance(part, str):
                texts.append(part)
            continue
        kind = part.get("type")
        if kind == "text" or (kind is None and "text" in part):
            text = part.get("content", part.get("text"))
            if isinstance(text, str):
                texts.append(text)
        elif isinstance(kind, str) and kind in _CALL_TYPES:
            if call := _part_call(part, f"{position}/{index}"):
                calls.append(call)
        elif isinstance(kind, str) and kind in _RESULT_TYPES:
            results.append(_part_result(part))
        elif isinstance(inner := part.get("toolUse"), dict):  # Bedrock and Strands
            if call := _part_call(inner, f"{position}/{index}"):
                calls.append(call)
        elif isinstance(inner := part.get("toolResult"), dict):
            results.append(_part_result(inner))


def _part_call(part: dict[str, JsonValue], path: str) -> RequestedCall | None:
    arguments = part.get("arguments")
    if arguments is None:
        arguments = part.get("input", part.get("args"))
        if arguments is None and isinstance(inner := part.get("server_tool_call"), dict):
            arguments = inner.get("arguments", inner)
    name = part.get("name", part.get("toolName"))
    if not isinstance(name, str) or not name:
        return _chat_completions_call(part, path)
    return RequestedCall(name, _part_id(part), arguments, path)


def _part_result(part: dict[str, JsonValue]) -> ShownResult:
    # The official examples say `result` where the schema says `response`.
    keys = ("response", "result", "server_tool_call_response", "output", "content")
    return ShownResult(_part_id(part), next((part[key] for key in keys if key in part), None))


def _part_id(part: dict[str, JsonValue]) -> str | None:
    for key in _ID_KEYS:
        if key in part and (found := call_id(part[key])) is not None:
            return found
    return None


def _chat_completions_call(item: dict[str, JsonValue], path: str) -> RequestedCall | None:
    """``{id, type, function: {name, arguments}}``, also with name and arguments beside the id."""
    function = item.get("function")
    body = function if isinstance(function, dict) else item
    name = body.get("name")
    if not isinstance(name, str) or not name:
        return None
    return RequestedCall(name, _part_id(item), body.get("arguments", body.get("args")), path)
