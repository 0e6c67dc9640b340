"""Langfuse: `langfuse.observation.type`, what went in and out as JSON (a text as it is), LangChain's objects within.

Source: langfuse 5.0.4, _client/attributes.py; the server's own attributes.ts for the older keys.
"""

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

_TYPE = "langfuse.observation.type"
_ROOT = "langfuse.internal.is_app_root"
_INPUT = "langfuse.observation.input"
_OUTPUT = "langfuse.observation.output"
_METADATA = "langfuse.observation.metadata."
_TRACE_METADATA = "langfuse.trace.metadata."

_OTHER_TYPES = ("embedding", "evaluator", "event", "guardrail", "retriever")
_KINDS = Words({"tool": "tool", "generation": "chat", "agent": "agent", **dict.fromkeys(_OTHER_TYPES, "other")})
_MAY_BE_AGENTS = frozenset({"span", "chain"})


def _classify(span: Span) -> SpanKind | None:
    kind = span.attributes.get(_TYPE)
    if not isinstance(kind, str):
        return None
    if kind.lower() in _MAY_BE_AGENTS:  # a decorated function is a span unless it is given another type
        return "agent" if span.is_local_root or span.attributes.get(_ROOT) is True else "other"
    return _KINDS[kind]


DIALECT: Dialect = Dialect(
    name="langfuse",
    marks=frozenset({_TYPE}),
    classify=_classify,
    keys=Keys(
        call_id=(_METADATA + "tool_call_id",),
        agent=(_METADATA + s.LANGCHAIN_AGENT,),
        arguments=(_INPUT,),
        output=(_OUTPUT,),
        session=(
            s.SESSION_ID,
            "langfuse.session.id",
            *under(_TRACE_METADATA, SESSION_WORDS),
            *under(_METADATA, SESSION_WORDS),
        ),
        user=(s.USER_ID, "langfuse.user.id", *under(_TRACE_METADATA, USER_WORDS), *under(_METADATA, USER_WORDS)),
        model=("langfuse.observation.model.name",),
        prompt=(_INPUT, "langfuse.trace.input"),
        answer=(_OUTPUT, "langfuse.trace.output"),
        failed=("langfuse.observation.level", _METADATA + s.HAYSTACK_TOOL_ERROR),
        error_message=("langfuse.observation.status_message",),
    ),
    holds=Holds(structure=(_TYPE, _ROOT)),
    outputs=turn_at(_OUTPUT),
    inputs=messages_at(_INPUT),
    tool_name=span_name,
    agent_name=span_name,
)
