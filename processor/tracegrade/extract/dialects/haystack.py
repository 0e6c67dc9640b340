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

_TOOL_NAME = "haystack.tool.name"
_LLM_INPUT = "haystack.agent.step.llm.input"
_LLM_OUTPUT = "haystack.agent.step.llm.output"
_AGENT_STEPS = "haystack.agent.max_steps"
_COMPONENT_NAME = "haystack.component.name"
_COMPONENT_TYPE = "haystack.component.type"
_COMPONENT_OUTPUT = "haystack.component.output"

_KINDS: dict[str, SpanKind] = {
    "haystack.agent.run": "agent",
    "haystack.agent.step.llm": "chat",
    "haystack.agent.step.tool": "tool",
}
_INPUTS = (_LLM_INPUT, "haystack.agent.input", "haystack.component.input")
_OUTPUTS = (_LLM_OUTPUT, "haystack.agent.output", _COMPONENT_OUTPUT)


def _classify(span: Span) -> SpanKind | None:
    kind = _KINDS.get(span.name)
    if kind is not None:
        return kind
    if _TOOL_NAME in span.attributes:
        return "tool"
    component = span.attributes.get(_COMPONENT_TYPE)
    if component == "Agent":
        return "agent"  # around the span of its run, which does not know the component's name
    return "chat" if isinstance(component, str) and component.endswith("ChatGenerator") else "other"


def _name(span: Span) -> str:
    return first_text(span, (_COMPONENT_NAME,))


def _model(span: Span) -> str:
    """The model that the reply says it is of."""
    value = decode(span.attributes.get(_LLM_OUTPUT, span.attributes.get(_COMPONENT_OUTPUT))).value
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
    marks=frozenset({_TOOL_NAME, _LLM_INPUT, _LLM_OUTPUT, _AGENT_STEPS, _COMPONENT_TYPE}),
    classify=_classify,
    keys=Keys(
        tool_name=(_TOOL_NAME,),
        arguments=("haystack.agent.step.tool.input",),
        output=("haystack.agent.step.tool.output",),
        failed=(s.HAYSTACK_TOOL_ERROR,),
    ),
    holds=Holds(structure=(_AGENT_STEPS, _COMPONENT_TYPE, _COMPONENT_NAME), messages=(*_INPUTS, *_OUTPUTS)),
    own_names=("haystack.agent.", "haystack.component.", "haystack.pipeline."),
    outputs=turn_at(*_OUTPUTS),
    inputs=messages_at(*_INPUTS),
    read_output=_read_output,
    agent_name=_name,
    model=_model,
)
