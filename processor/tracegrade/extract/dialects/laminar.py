"""Laminar: `lmnr.span.type`, values as JSON in `lmnr.span.input` and `lmnr.span.output`.

Of OpenAI's Agents SDK it writes a task, below that an agent's span, and in turns below that model calls, tools and
handoffs, which have the type of tools.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.names import quoted
from tracegrade.extract.decode.values import first_text, text_among
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.messages import messages_at
from tracegrade.extract.reading import Dialect, HandedOver, Holds, Keys, SpanKind, Words
from tracegrade.model.span import Span

_KINDS = Words({"TOOL": "tool", "LLM": "chat"})
_AGENTS_TASK = "agents.task"
_TASK = "execute_task "
_MASTRA_AGENT = "agent run: '"


def _classify(span: Span) -> SpanKind | None:
    """Its other types say nothing about what a span is, but where in its path it stands does."""
    attributes = span.attributes
    word = attributes.get(s.LMNR_TYPE)
    kind = _KINDS[word] if type(word) is str else None
    if kind == "tool":
        return "handoff" if s.LMNR_HANDOFF_TO in attributes else kind
    if kind == "chat":
        return kind
    path = attributes.get(s.LMNR_PATH)
    is_below_task = isinstance(path, list) and len(path) > 1 and path[-2] == _AGENTS_TASK
    is_agent = is_below_task or span.name.startswith(_MASTRA_AGENT) or _is_langchain_agent(span)
    return "agent" if is_agent else None


def _is_langchain_agent(span: Span) -> bool:
    """Whether a span bears the name of the agent in whose run it is, as the span of the run itself does."""
    raw = span.attributes.get(s.LANGCHAIN_METADATA)
    agent = text_among(raw, (s.LANGCHAIN_AGENT,)) if isinstance(raw, str) else ""
    return bool(agent) and span.name.removeprefix(_TASK) == agent


def _name(span: Span) -> str:
    return quoted(span.name)  # Mastra's exporter writes the kind before a name


def _handed_over(span: Span) -> HandedOver | None:
    if s.LMNR_HANDOFF_TO not in span.attributes:
        return None
    return HandedOver(first_text(span, (s.LMNR_HANDOFF_FROM,)), first_text(span, (s.LMNR_HANDOFF_TO,)))


DIALECT: Dialect = Dialect(
    name="laminar",
    marks=frozenset({s.LMNR_TYPE}),
    classify=_classify,
    keys=Keys(
        call_id=(s.LMNR_TOOL_CALL_ID,),
        arguments=(s.LMNR_INPUT,),
        output=(s.LMNR_OUTPUT,),
        session=(s.LMNR_SESSION_ID, s.LMNR_GROUP_ID),
        user=(s.LMNR_USER_ID,),
        prompt=(s.LMNR_INPUT,),
        answer=(s.LMNR_OUTPUT,),
    ),
    holds=Holds(
        structure=(s.LMNR_TYPE, s.LMNR_PATH, s.LMNR_HANDOFF_FROM, s.LMNR_HANDOFF_TO),
        definitions=(s.TOOL_DEFINITIONS,),
        messages=(s.INPUT_MESSAGES, s.OUTPUT_MESSAGES),
    ),
    # A model client's instrumentation writes under the first key, a decorated function under the second.
    inputs=messages_at(s.INPUT_MESSAGES, s.LMNR_INPUT),
    outputs=messages_at(s.OUTPUT_MESSAGES, s.LMNR_OUTPUT),
    schemas=gen_ai.DIALECT.schemas,
    schemas_in=gen_ai.DIALECT.schemas_in,
    handed_over=_handed_over,
    tool_name=_name,
    agent_name=_name,
    agent_metadata=(s.LANGCHAIN_METADATA,),
)
