"""LangChain4j in Quarkus, before it wrote the GenAI conventions: spans that only their names describe.

An AI service's call is an agent run. Arguments and results are on no span; a failed call has an exception and no error
status. Source: quarkiverse/quarkus-langchain4j 1.3.0, ToolSpanWrapper.java, AiServiceMethodImplementationSupport.java.
"""

from tracegrade.extract.reading import Dialect, Keys, SpanKind
from tracegrade.model.span import Span

_TOOL = "langchain4j.tools."
_AGENT = "langchain4j.aiservices."


def _classify(span: Span) -> SpanKind | None:
    name = span.name
    if not name.startswith("langchain4j."):
        return None
    return "tool" if name.startswith(_TOOL) else "agent" if name.startswith(_AGENT) else "other"


def _tool_name(span: Span) -> str:
    return span.name.removeprefix(_TOOL)


def _agent_name(span: Span) -> str:
    """The service's class; a method follows it."""
    return span.name.removeprefix(_AGENT).rpartition(".")[0]


DIALECT: Dialect = Dialect(
    name="langchain4j", marks=frozenset(), classify=_classify, keys=Keys(), tool_name=_tool_name, agent_name=_agent_name
)
