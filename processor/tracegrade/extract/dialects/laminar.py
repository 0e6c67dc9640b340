"""Laminar: `lmnr.span.type`, values as JSON in `lmnr.span.input` and `lmnr.span.output`.

Of OpenAI's Agents SDK it writes a task, below that an agent's span, and in turns below that model calls, tools and
handoffs, which have the type of tools. Source: lmnr 0.8.2, opentelemetry_lib/tracing/attributes.py and
opentelemetry/instrumentation/openai_agents; for a tool's metadata, OpenHands SDK, `observability`.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.names import quoted
from tracegrade.extract.decode.values import first_text, text_among
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.messages import messages_at
from tracegrade.extract.reading import Dialect, HandedOver, Holds, Keys, SpanKind, Words
from tracegrade.model.span import Span

_TYPE = "lmnr.span.type"
_INPUT = "lmnr.span.input"
_OUTPUT = "lmnr.span.output"
_PATH = "lmnr.span.path"
_HANDOFF_FROM = "openai.agents.handoff.from"
_HANDOFF_TO = "openai.agents.handoff.to"

_KINDS = Words({"TOOL": "tool", "LLM": "chat"})
_AGENTS_TASK = "agents.task"
_TASK = "execute_task "
_MASTRA_AGENT = "agent run: '"


def _classify(span: Span) -> SpanKind | None:
    """Its other types say nothing about what a span is, but where in its path it stands does."""
    attributes = span.attributes
    word = attributes.get(_TYPE)
    kind = _KINDS[word] if type(word) is str else None
    if kind == "tool":
        return "handoff" if _HANDOFF_TO in attributes else kind
    if kind == "chat":
        return kind
    path = attributes.get(_PATH)
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
    if _HANDOFF_TO not in span.attributes:
        return None
    return HandedOver(first_text(span, (_HANDOFF_FROM,)), first_text(span, (_HANDOFF_TO,)))


DIALECT: Dialect = Dialect(
    name="laminar",
    marks=frozenset({_TYPE}),
    classify=_classify,
    keys=Keys(
        call_id=("lmnr.association.properties.metadata.tool_call_id",),
        arguments=(_INPUT,),
        output=(_OUTPUT,),
        session=(
            "lmnr.association.properties.session_id",
            "lmnr.association.properties.metadata.openai.agents.group_id",
        ),
        user=("lmnr.association.properties.user_id",),
        prompt=(_INPUT,),
        answer=(_OUTPUT,),
    ),
    holds=Holds(
        structure=(_TYPE, _PATH, _HANDOFF_FROM, _HANDOFF_TO),
        definitions=(s.TOOL_DEFINITIONS,),
        messages=(s.INPUT_MESSAGES, s.OUTPUT_MESSAGES),
    ),
    # A model client's instrumentation writes under the first key, a decorated function under the second.
    inputs=messages_at(s.INPUT_MESSAGES, _INPUT),
    outputs=messages_at(s.OUTPUT_MESSAGES, _OUTPUT),
    schemas=gen_ai.DIALECT.schemas,
    schemas_in=gen_ai.DIALECT.schemas_in,
    handed_over=_handed_over,
    tool_name=_name,
    agent_name=_name,
    agent_metadata=(s.LANGCHAIN_METADATA,),
)
