"""Spans of Anthropic's API and SDKs, in beta: the GenAI conventions, with results and sessions under `anthropic.*`.

Tool spans are named ``anthropic.tool_use`` and the tool. Source: Anthropic's OpenTelemetry span reference.
"""

from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.reading import Dialect, Holds, Keys, SpanKind
from tracegrade.model.span import Span

_RESULT = "anthropic.tool_result.content"
_SESSION = "anthropic.session.id"
_REQUEST = "anthropic.request.id"

_TOOL_SPAN_PREFIX = "anthropic.tool_use "


def _classify(span: Span) -> SpanKind | None:
    return gen_ai.DIALECT.classify(span) or ("tool" if span.name.startswith(_TOOL_SPAN_PREFIX) else None)


def _tool_name(span: Span) -> str:
    return span.name.removeprefix(_TOOL_SPAN_PREFIX).strip()


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="anthropic",
    marks=frozenset({_RESULT, _SESSION, _REQUEST}),
    classify=_classify,
    keys=Keys(output=(_RESULT,), session=(_SESSION,)),
    holds=Holds(structure=(_REQUEST,)),
    tool_name=_tool_name,
)
