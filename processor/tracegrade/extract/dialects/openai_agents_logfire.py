"""OpenAI's Agents SDK through Logfire: the SDK's own words as attributes, and what a span is by its message's template.

A model call through the Responses API has what was sent and what came back as that API's objects. Source: logfire
5.4.0, _internal/integrations/openai_agents.py.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import Output, read_schemas, unwrap_output
from tracegrade.extract.decode.values import decode, first_text
from tracegrade.extract.messages import read_messages
from tracegrade.extract.reading import Dialect, HandedOver, Holds, Keys, Message, SpanKind
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolError

_NAME = "name"
_INPUT = "input"
_OUTPUT = "output"
_ERROR = "error"
_GROUP = "group_id"
_RAW_INPUT = "raw_input"
_RESPONSE = "response"
_FROM_AGENT = "from_agent"
_TO_AGENT = "to_agent"

_SCOPE = "logfire.openai_agents"
# How templates begin. Around agents are the SDK's trace and in them their turns, of which each names its agent.
_KINDS: tuple[tuple[str, SpanKind], ...] = (
    ("Function: ", "tool"),
    ("Chat completion with ", "chat"),
    ("Responses API", "chat"),
    ("Agent run: ", "agent"),
    ("Turn ", "agent"),
    ("OpenAI Agents trace: ", "agent"),
    ("Handoff: ", "handoff"),
)
_NO_GROUP = "null"


def _classify(span: Span) -> SpanKind | None:
    if span.scope != _SCOPE:
        return None
    template = span.attributes.get(s.LOGFIRE_TEMPLATE)
    if not isinstance(template, str):
        return None
    return next((kind for beginning, kind in _KINDS if template.startswith(beginning)), "other")


def _agent_name(span: Span) -> str:
    template = first_text(span, (s.LOGFIRE_TEMPLATE,))
    return first_text(span, (_NAME,)) if template.startswith("Agent run: ") else ""


def _inputs(span: Span) -> list[Message]:
    attributes = span.attributes
    raw = attributes.get(_RAW_INPUT, attributes.get(_INPUT))
    messages = read_messages(raw)
    return messages if messages or not isinstance(raw, str) else [Message("user", raw)]


def _outputs(span: Span) -> list[Message]:
    messages = read_messages(_response(span).get("output"))
    return messages or read_messages(span.attributes.get(_OUTPUT))


def _schemas(span: Span) -> dict[str, JsonValue]:
    return read_schemas(_response(span).get("tools"))


def _response(span: Span) -> dict[str, JsonValue]:
    """What the Responses API answered."""
    if _classify(span) != "chat":
        return {}
    value = decode(span.attributes.get(_RESPONSE)).value
    return value if isinstance(value, dict) else {}


def _read_output(span: Span, raw: JsonValue) -> Output:
    """The result, which for a tool that failed is what the model was told of it."""
    output = unwrap_output(decode(raw))
    said = decode(span.attributes.get(_ERROR)).value
    if isinstance(said, dict):
        data = said.get("data")
        messages = (data.get("error") if isinstance(data, dict) else None, said.get("message"))
        output.error = ToolError("", next((text for text in messages if isinstance(text, str) and text), ""))
    return output


def _handed_over(span: Span) -> HandedOver | None:
    if _classify(span) != "handoff":
        return None
    return HandedOver(first_text(span, (_FROM_AGENT,)), first_text(span, (_TO_AGENT,)))


def _session(span: Span) -> str:
    group = first_text(span, (_GROUP,))
    return group if group != _NO_GROUP else ""


DIALECT: Dialect = Dialect(
    name="openai_agents_logfire",
    marks=frozenset({s.LOGFIRE_TEMPLATE}),
    classify=_classify,
    keys=Keys(tool_name=(_NAME,), arguments=(_INPUT,), output=(_OUTPUT,), agent=(s.PYDANTIC_AGENT_NAME,)),
    holds=Holds(
        structure=(s.LOGFIRE_TEMPLATE, _GROUP, _FROM_AGENT, _TO_AGENT),
        messages=(_RAW_INPUT, _RESPONSE),
        errors=(_ERROR,),
    ),
    inputs=_inputs,
    outputs=_outputs,
    read_output=_read_output,
    schemas=_schemas,
    schemas_in=(_RESPONSE,),
    handed_over=_handed_over,
    agent_name=_agent_name,
    session=_session,
)
