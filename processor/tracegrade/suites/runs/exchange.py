"""What was said in a stored run of a case: every request to a model with what was new in it, and the reply."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracegrade.codec.kept_spans import decode_spans
from tracegrade.extract.decode.values import parse_plain
from tracegrade.extract.messages import read_messages
from tracegrade.extract.reading import Message
from tracegrade.model.span import Span
from tracegrade.model.trace_result import TraceResult
from tracegrade.semconv import (
    INPUT_MESSAGES,
    OPERATION_NAME,
    OUTPUT_MESSAGES,
    REQUEST_MODEL,
    SYSTEM_INSTRUCTIONS,
    TOKENS_IN,
    TOKENS_OUT,
)

_ERROR = 2  # the code of a status in OTLP


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model.

    ``system`` is its system prompt, shown with the first request alone unless it changed. ``messages`` are those that
    no request before it had, in order, ``earlier`` how many it repeated. ``problem`` says why there is no reply.
    """

    span_id: str
    model: str
    system: str
    earlier: int
    messages: Sequence[Message]
    reply: Sequence[Message]
    problem: str
    input_tokens: int | None
    output_tokens: int | None
    latency_ns: int


def exchange(stored: TraceResult) -> list[Request]:
    """The requests of a stored trace, in the order in which they were made."""
    chats = [span for span in decode_spans(stored.spans).spans if span.attributes.get(OPERATION_NAME) == "chat"]
    chats.sort(key=lambda span: (span.start_ns, span.end_ns))
    found: list[Request] = []
    before: list[object] = []
    system = ""
    for span in chats:
        sent = read_messages(span.attributes.get(INPUT_MESSAGES))
        reply = read_messages(span.attributes.get(OUTPUT_MESSAGES))
        earlier = len(before) if list(map(_message_key, sent[: len(before)])) == before else 0
        told = _text_of(span)
        found.append(_request(span, "" if told == system else told, earlier, sent[earlier:], reply))
        before, system = list(map(_message_key, [*sent, *reply])), told
    return found


def _message_key(message: Message) -> object:
    """What a message says, wherever it stands."""
    calls = [(call.name, call.call_id, call.arguments) for call in message.calls]
    return message.role, message.text, calls, message.results


def _request(span: Span, system: str, earlier: int, messages: list[Message], reply: list[Message]) -> Request:
    said = span.attributes.get
    return Request(
        span_id=span.span_id.hex(),
        model=str(said(REQUEST_MODEL) or ""),
        system=system,
        earlier=earlier,
        messages=messages,
        reply=reply,
        problem=(span.status_message or "it failed") if span.status_code == _ERROR else "",
        input_tokens=_number(span, TOKENS_IN[0]),
        output_tokens=_number(span, TOKENS_OUT[0]),
        latency_ns=span.end_ns - span.start_ns,
    )


def _number(span: Span, key: str) -> int | None:
    found = span.attributes.get(key)
    return found if isinstance(found, int) else None


def _text_of(span: Span) -> str:
    """The system prompt of a request; "" without one."""
    parts = parse_plain(span.attributes.get(SYSTEM_INSTRUCTIONS) or [])
    texts = [part.get("content") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return "\n".join(text for text in texts if isinstance(text, str))
