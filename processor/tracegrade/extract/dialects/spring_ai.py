"""Spring AI: `spring.ai.kind`, beside an operation name that says "framework" before it said execute_tool.

A chat client's call is an agent run. When a tool throws, the model gets that as its result, and its span says OK.
"""

from tracegrade import semconv as s
from tracegrade.extract.reading import Dialect, Holds, Keys, SpanKind, Words
from tracegrade.model.span import Span

_KINDS = Words({"tool_call": "tool", s.SPRING_MCP_SERVER: "tool", "chat_client": "agent"})
_TOOL_SPAN_PREFIXES = ("tool_call ", "execute_tool ")


def _classify(span: Span) -> SpanKind | None:
    """What its other kinds are, an operation name says: model calls have a kind in some releases."""
    kind = span.attributes.get(s.SPRING_KIND)
    found = _KINDS[kind] if type(kind) is str else "unknown"
    return None if found == "unknown" else found


def _tool_name(span: Span) -> str:
    return next((span.name[len(p) :].strip() for p in _TOOL_SPAN_PREFIXES if span.name.startswith(p)), "")


DIALECT: Dialect = Dialect(
    name="spring_ai",
    marks=frozenset({s.SPRING_KIND}),
    classify=_classify,
    keys=Keys(
        tool_name=(s.SPRING_TOOL_NAME,),
        call_id=(s.SPRING_TOOL_CALL_ID,),
        arguments=(s.SPRING_TOOL_ARGUMENTS, s.SPRING_SERVER_ARGUMENTS),
        output=(s.SPRING_TOOL_RESULT, s.SPRING_SERVER_RESULT),
        schema=(s.SPRING_TOOL_SCHEMA,),
        session=(s.SPRING_CONVERSATION_ID,),
    ),
    holds=Holds(structure=(s.SPRING_KIND,)),
    tool_name=_tool_name,
)
