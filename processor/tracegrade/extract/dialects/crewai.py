"""CrewAI's own tracing: the GenAI conventions, where an agent's name is a key and its role is what people call it.

A tool that failed has, beside its own span, one of no length that says the same and is no call. Source: crewai
1.15.30, telemetry/tracing/semantic_conventions.py.
"""

from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.reading import Dialect, Holds, Keys, SpanKind
from tracegrade.model.span import Span

_EVENT = "crewai.event_name"


def _classify(span: Span) -> SpanKind | None:
    is_echo = span.attributes.get(_EVENT) == "tool_failure_detected"
    return "other" if is_echo else gen_ai.DIALECT.classify(span)


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="crewai",
    marks=frozenset({_EVENT}),
    classify=_classify,
    keys=Keys(agent=("crewai.agent.role",)),
    holds=Holds(structure=(_EVENT,)),
)
