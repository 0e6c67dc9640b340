"""OpenInference for Haystack: an agent is a CHAIN whose value holds the ``repr`` of its messages, and nothing else.

Its model calls and tools have no spans, so calls and results are read from there. Chat generators that are components
of a pipeline are model calls as everywhere in OpenInference. Source: openinference-instrumentation-haystack 0.1.46.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.reprs import CLASS, read_repr
from tracegrade.extract.decode.values import decode
from tracegrade.extract.dialects import openinference
from tracegrade.extract.messages import read_messages, since_last_user
from tracegrade.extract.reading import Dialect, Holds, Keys, Message, SpanKind
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_SCOPE = "openinference.instrumentation.haystack"
_AGENT_RUN = "Agent.run"
# What a part of a message holds, as Haystack serialises it elsewhere.
_PARTS = {"ToolCall": "tool_call", "ToolCallResult": "tool_call_result"}


def _classify(span: Span) -> SpanKind | None:
    return "agent" if span.scope == _SCOPE and span.name.startswith(_AGENT_RUN) else None


def _messages(span: Span, key: str) -> list[Message]:
    value = decode(span.attributes.get(key)).value
    shown = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(shown, list):
        return []
    return read_messages([_message(read_repr(item)) for item in shown if isinstance(item, str)])


def _message(value: JsonValue) -> JsonValue:
    """A message in the form in which Haystack's own spans have it."""
    if not isinstance(value, dict):
        return None
    content = value.get("_content")
    parts: list[JsonValue] = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict):
            name = _PARTS.get(str(part.get(CLASS)))
            parts.append({name: part} if name is not None else part)
    return {"role": value.get("_role"), "content": parts}


def _outputs(span: Span) -> list[Message]:
    return since_last_user(_messages(span, s.OI_OUTPUT))


def _inputs(span: Span) -> list[Message]:
    return _messages(span, s.OI_INPUT)


def _no_name(span: Span) -> str:
    return ""


DIALECT: Dialect = openinference.DIALECT._replace(
    name="openinference_haystack",
    classify=_classify,
    keys=Keys(),
    holds=Holds(),
    outputs=_outputs,
    inputs=_inputs,
    agent_name=_no_name,
)
