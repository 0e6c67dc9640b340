"""What a model said: the tool calls, text and tokens of an answer, read as models really write them.

Models write what the interface does not ask for: arguments as an object instead of a text of JSON, whole calls as JSON
in the place of the tool's name, or as JSON in the text. Such calls are read, and `RequestedCall.repaired` says so.

Source: Maheidem/llm-benchmark-studio, routers/helpers.py (repairs); https://platform.openai.com/docs/api-reference/chat.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass, field

from tracegrade.evaluate.whole_calls import argument_object, calls_in_name, calls_in_text
from tracegrade.model.json_value import JsonValue, encodable
from tracegrade.model.usage import Tokens
from tracegrade.suites.models.client import ModelError

JsonObject = dict[str, JsonValue]

AS_OBJECT = "arguments came as an object"
TWICE_ENCODED = "arguments came as JSON within JSON"
IN_NAME = "the call came as JSON in the name of the tool"
IN_TEXT = "the call came as JSON in the text"
UNREADABLE = "arguments came as something that is no JSON object"


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """One call that a model asked for.

    ``repaired`` says what was wrong with the way it was written, "" for nothing. Where the arguments cannot be read
    they are {}, and ``unreadable`` is their text.
    """

    id: str
    name: str
    arguments: JsonObject
    repaired: str = ""
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. ``tokens`` is None where it does not say them, ``model`` the model's name for itself."""

    calls: list[RequestedCall] = field(default_factory=list)
    text: str = ""
    refusal: str = ""
    finish_reason: str = ""
    tokens: Tokens | None = None
    model: str = ""
    id: str = ""


def read_reply(answer: JsonObject, tools: Collection[str]) -> Reply:
    """The reply in an answer.

    Args:
        answer: the JSON that the provider sent.
        tools: the names of the tools that the model was given; a call in the text is only looked for if there are any.

    Raises:
        ModelError: there is no choice, or no message in it.
    """
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise ModelError("the answer has no choices")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ModelError("the first choice of the answer has no message")
    text = _joined_text(message.get("content"))
    calls = [call for number, item in enumerate(_written_calls(message)) for call in _calls(item, number)]
    if not calls and tools:
        for number, whole in enumerate(calls_in_text(text, tools)):
            arguments, _, unreadable = _arguments(whole.arguments)
            calls.append(_call(f"call_{number}", whole.name, arguments, IN_TEXT, unreadable))
    return Reply(
        calls,
        text,
        _joined_text(message.get("refusal")),
        _joined_text(choice.get("finish_reason")),
        _tokens(answer.get("usage")),
        _joined_text(answer.get("model")),
        _joined_text(answer.get("id")),
    )


def _joined_text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):  # parts, as some servers write them
        return "".join(_joined_text(part.get("text")) for part in value if isinstance(part, dict))
    return ""


def _written_calls(message: JsonObject) -> list[JsonObject]:
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return [call for call in calls if isinstance(call, dict)]
    alone = message.get("function_call")  # before there were tool calls
    return [{"function": alone}] if isinstance(alone, dict) else []


def _calls(written: JsonObject, number: int) -> list[RequestedCall]:
    """The call that was written, or those that stand in the place of its name: the first has its id and arguments."""
    function = written.get("function")
    function = function if isinstance(function, dict) else written
    call_id = _joined_text(written.get("id")) or f"call_{number}"
    arguments, repaired, unreadable = _arguments(function.get("arguments"))
    inside = calls_in_name(function.get("name"))
    if not inside:
        return [_call(call_id, _joined_text(function.get("name")), arguments, repaired, unreadable)]
    calls = []
    for place, whole in enumerate(inside, 1):
        own, _, unreadable = (arguments, "", "") if arguments and place == 1 else _arguments(whole.arguments)
        calls.append(_call(call_id if place == 1 else f"{call_id}-{place}", whole.name, own, IN_NAME, unreadable))
    return calls


def _call(call_id: str, name: str, arguments: JsonObject, repaired: str, unreadable: str) -> RequestedCall:
    encoded = encodable(arguments)
    return RequestedCall(
        call_id, _joined_text(encodable(name)), encoded if isinstance(encoded, dict) else {}, repaired, unreadable
    )


def _arguments(written: JsonValue) -> tuple[JsonObject, str, str]:
    """The arguments, how they were repaired, and their text where they cannot be read."""
    arguments = argument_object(written)
    if arguments is None:
        return {}, UNREADABLE, written if isinstance(written, str) else json.dumps(written, ensure_ascii=False)
    if isinstance(written, dict):
        return arguments, AS_OBJECT, ""
    is_twice_encoded = isinstance(written, str) and written.lstrip().startswith('"')
    return arguments, TWICE_ENCODED if is_twice_encoded else "", ""


def _tokens(usage: JsonValue) -> Tokens | None:
    if not isinstance(usage, dict):
        return None
    taken_in, given_out = _number(usage.get("prompt_tokens")), _number(usage.get("completion_tokens"))
    if taken_in is None and given_out is None:
        return None
    details = usage.get("prompt_tokens_details")
    cached = _number(details.get("cached_tokens")) if isinstance(details, dict) else None
    return Tokens(taken_in, given_out, (taken_in or 0) + (given_out or 0), cached or 0)


def _number(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
