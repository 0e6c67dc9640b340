"""Haystack's own spans: agents, their model calls and tools, and chat generators run as components of a pipeline.

Source: haystack-ai 3.4.1. Older agents run a ToolInvoker component instead of a span a tool; their calls are read from
the chat generators' messages.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import Output, unwrap_output
from tracegrade.extract.decode.values import Decoded, decode, first_text
from tracegrade.extract.messages import messages_at, turn_at
from tracegrade.extract.reading import Dialect, Holds, Keys, SpanKind
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_KINDS: dict[str, SpanKind] = {
    "haystack.agent.run": "agent",
    "haystack.agent.step.llm": "chat",
    "haystack.agent.step.tool": "tool",
}
_INPUTS = (s.HAYSTACK_LLM_INPUT, s.HAYSTACK_AGENT_INPUT, s.HAYSTACK_COMPONENT_INPUT)
_OUTPUTS = (s.HAYSTACK_LLM_OUTPUT, s.HAYSTACK_AGENT_OUTPUT, s.HAYSTACK_COMPONENT_OUTPUT)


def _classify(span: Span) -> SpanKind | None:
    kind = _KINDS.get(span.name)
    if kind is not None:
        return kind
    if s.HAYSTACK_TOOL_NAME in span.attributes:
        return "tool"
    component = span.attributes.get(s.HAYSTACK_COMPONENT_TYPE)
    if component == "Agent":
        return "agent"  # around the span of its run, which does not know the component's name
    return "chat" if isinstance(component, str) and component.endswith("ChatGenerator") else "other"


def _name(span: Span) -> str:
    return first_text(span, (s.HAYSTACK_COMPONENT_NAME,))


def _model(span: Span) -> str:
    """The model that the reply says it is of."""
    value = decode(span.attributes.get(s.HAYSTACK_LLM_OUTPUT, span.attributes.get(s.HAYSTACK_COMPONENT_OUTPUT))).value
    replies = value.get("replies") if isinstance(value, dict) else None
    for reply in replies if isinstance(replies, list) else []:
        meta = reply.get("meta") if isinstance(reply, dict) else None
        if isinstance(meta, dict) and isinstance(model := meta.get("model"), str):
            return model
    return ""


def _read_output(span: Span, raw: JsonValue) -> Output:
    """The result, or the message of a failure, which is recorded as ``{"error": message}``."""
    decoded = decode(raw)
    value = decoded.value
    if span.attributes.get(s.HAYSTACK_TOOL_ERROR) is True and isinstance(value, dict) and value.keys() == {"error"}:
        return Output(Decoded(value["error"], decoded.status), failed=True)
    return unwrap_output(decoded)


DIALECT: Dialect = Dialect(
    name="haystack",
    marks=frozenset(
        {
            s.HAYSTACK_TOOL_NAME,
            s.HAYSTACK_LLM_INPUT,
            s.HAYSTACK_LLM_OUTPUT,
            s.HAYSTACK_AGENT_STEPS,
            s.HAYSTACK_COMPONENT_TYPE,
        }
    ),
    classify=_classify,
    keys=Keys(
        tool_name=(s.HAYSTACK_TOOL_NAME,),
        arguments=(s.HAYSTACK_TOOL_INPUT,),
        output=(s.HAYSTACK_TOOL_OUTPUT,),
        failed=(s.HAYSTACK_TOOL_ERROR,),
    ),
    holds=Holds(
        structure=(s.HAYSTACK_AGENT_STEPS, s.HAYSTACK_COMPONENT_TYPE, s.HAYSTACK_COMPONENT_NAME),
        messages=(*_INPUTS, *_OUTPUTS),
    ),
    own_names=("haystack.agent.", "haystack.component.", "haystack.pipeline."),
    outputs=turn_at(*_OUTPUTS),
    inputs=messages_at(*_INPUTS),
    read_output=_read_output,
    agent_name=_name,
    model=_model,
)
