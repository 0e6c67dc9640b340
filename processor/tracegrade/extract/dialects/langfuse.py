"""Langfuse: `langfuse.observation.type`, what went in and out as JSON (a text as it is), LangChain's objects within."""

from tracegrade import semconv as s
from tracegrade.extract.messages import messages_at, turn_at
from tracegrade.extract.reading import (
    SESSION_WORDS,
    USER_WORDS,
    Dialect,
    Holds,
    Keys,
    SpanKind,
    Words,
    span_name,
    under,
)
from tracegrade.model.span import Span

_OTHER_TYPES = ("embedding", "evaluator", "event", "guardrail", "retriever")
_KINDS = Words({"tool": "tool", "generation": "chat", "agent": "agent", **dict.fromkeys(_OTHER_TYPES, "other")})
_MAY_BE_AGENTS = frozenset({"span", "chain"})


def _classify(span: Span) -> SpanKind | None:
    kind = span.attributes.get(s.LANGFUSE_TYPE)
    if not isinstance(kind, str):
        return None
    if kind.lower() in _MAY_BE_AGENTS:  # a decorated function is a span unless it is given another type
        return "agent" if span.is_local_root or span.attributes.get(s.LANGFUSE_ROOT) is True else "other"
    return _KINDS[kind]


DIALECT: Dialect = Dialect(
    name="langfuse",
    marks=frozenset({s.LANGFUSE_TYPE}),
    classify=_classify,
    keys=Keys(
        call_id=(s.LANGFUSE_METADATA + "tool_call_id",),
        agent=(s.LANGFUSE_METADATA + s.LANGCHAIN_AGENT,),
        arguments=(s.LANGFUSE_INPUT,),
        output=(s.LANGFUSE_OUTPUT,),
        session=(
            s.SESSION_ID,
            s.LANGFUSE_SESSION,
            *under(s.LANGFUSE_TRACE_METADATA, SESSION_WORDS),
            *under(s.LANGFUSE_METADATA, SESSION_WORDS),
        ),
        user=(
            s.USER_ID,
            s.LANGFUSE_USER,
            *under(s.LANGFUSE_TRACE_METADATA, USER_WORDS),
            *under(s.LANGFUSE_METADATA, USER_WORDS),
        ),
        model=(s.LANGFUSE_MODEL,),
        prompt=(s.LANGFUSE_INPUT, s.LANGFUSE_TRACE_INPUT),
        answer=(s.LANGFUSE_OUTPUT, s.LANGFUSE_TRACE_OUTPUT),
        failed=(s.LANGFUSE_LEVEL, s.LANGFUSE_METADATA + s.HAYSTACK_TOOL_ERROR),
        error_message=(s.LANGFUSE_STATUS_MESSAGE,),
    ),
    holds=Holds(structure=(s.LANGFUSE_TYPE, s.LANGFUSE_ROOT)),
    outputs=turn_at(s.LANGFUSE_OUTPUT),
    inputs=messages_at(s.LANGFUSE_INPUT),
    tool_name=span_name,
    agent_name=span_name,
)
