"""CrewAI's own tracing: the GenAI conventions, where an agent's name is a key and its role is what people call it.

A tool that failed has, beside its own span, one of no length that says the same and is no call.
"""

from tracegrade import semconv as s
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.reading import Dialect, Holds, Keys, SpanKind
from tracegrade.model.span import Span


def _classify(span: Span) -> SpanKind | None:
    is_echo = span.attributes.get(s.CREWAI_EVENT) == "tool_failure_detected"
    return "other" if is_echo else gen_ai.DIALECT.classify(span)


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="crewai",
    marks=frozenset({s.CREWAI_EVENT}),
    classify=_classify,
    keys=Keys(agent=(s.CREWAI_AGENT_ROLE,)),
    holds=Holds(structure=(s.CREWAI_EVENT,)),
)
