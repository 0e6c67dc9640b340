"""Bare `gen_ai.output.messages`: a model call whose instrumentation names no operation."""

from tracegrade import semconv as s
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.reading import Dialect, Holds, Keys, SpanKind
from tracegrade.model.span import Span


def _classify(span: Span) -> SpanKind | None:
    return "unknown" if s.OUTPUT_MESSAGES in span.attributes else None


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="output_messages",
    marks=frozenset({s.OUTPUT_MESSAGES}),
    classify=_classify,
    keys=Keys(),
    holds=Holds(messages=(s.OUTPUT_MESSAGES,)),
)
