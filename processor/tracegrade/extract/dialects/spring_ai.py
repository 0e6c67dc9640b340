"""Spring AI: `spring.ai.kind`, beside an operation name that says "framework" before it said execute_tool.

A chat client's call is an agent run. When a tool throws, the model gets that as its result, and its span says OK.
Source: spring-projects/spring-ai, ToolCallingObservationDocumentation.java,
McpServerToolObservationDocumentation.java.
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
        tool_name=("spring.ai.tool.definition.name",),
        call_id=("spring.ai.tool.call.id",),
        arguments=("spring.ai.tool.call.arguments", "spring.ai.mcp.server.tool.call.arguments"),
        output=("spring.ai.tool.call.result", "spring.ai.mcp.server.tool.call.result"),
        schema=("spring.ai.tool.definition.schema",),
        session=("spring.ai.chat.client.conversation.id",),
    ),
    holds=Holds(structure=(s.SPRING_KIND,)),
    tool_name=_tool_name,
)
