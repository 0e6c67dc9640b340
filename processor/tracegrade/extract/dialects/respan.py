"""Respan: `respan.entity.log_type` beside OpenLLMetry's keys, and calls as JSON in flattened messages.

Source: respan-tracing 2, constants/span_attributes.py.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.values import first_text
from tracegrade.extract.dialects import openllmetry
from tracegrade.extract.messages import content_of
from tracegrade.extract.reading import Dialect, SpanKind, Words
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_TYPE = "respan.entity.log_type"

_OTHER_TYPES = ("embedding", "transcription", "speech", "task", "guardrail", "score", "custom", "prompt")
_KINDS = Words(
    {
        "tool": "tool",
        "function": "tool",
        "agent": "agent",
        "workflow": "agent",
        "handoff": "handoff",
        **dict.fromkeys(("chat", "completion", "response", "generation", "text"), "chat"),
        **dict.fromkeys(_OTHER_TYPES, "other"),
    }
)
_SPAN_PREFIX = "tool."


def _classify(span: Span) -> SpanKind | None:
    kind = span.attributes.get(_TYPE)
    return _KINDS[kind] if type(kind) is str else None


def _tool_name(span: Span) -> str:
    return first_text(span, (s.TRACELOOP_ENTITY_NAME,)) or span.name.removeprefix(_SPAN_PREFIX)


def _arguments(span: Span) -> JsonValue:
    return content_of(span.attributes.get(s.TRACELOOP_INPUT), _tool_name(span))


DIALECT: Dialect = openllmetry.DIALECT._replace(
    name="respan",
    marks=frozenset({_TYPE}),
    classify=_classify,
    keys=openllmetry.DIALECT.keys._replace(arguments=()),
    holds=openllmetry.DIALECT.holds._replace(structure=(_TYPE, *openllmetry.DIALECT.holds.structure)),
    tool_name=_tool_name,
    arguments=_arguments,
    agent_metadata=(s.LANGCHAIN_METADATA,),
)
