"""Flue: `flue.tool.*` and `flue.task.*`, before it wrote the GenAI conventions; a task is a sub-agent's run."""

from tracegrade import semconv as s
from tracegrade.extract.reading import Dialect, Keys, SpanKind
from tracegrade.model.span import Span


def _classify(span: Span) -> SpanKind | None:
    attributes = span.attributes
    if attributes.get(s.FLUE_TOOL_NAME):
        return "tool"
    return "agent" if s.FLUE_TASK_AGENT in attributes or s.FLUE_TASK_PROMPT in attributes else None


DIALECT = Dialect(
    name="flue",
    marks=frozenset({s.FLUE_TOOL_NAME, s.FLUE_TASK_AGENT, s.FLUE_TASK_PROMPT}),
    classify=_classify,
    keys=Keys(
        tool_name=(s.FLUE_TOOL_NAME,),
        call_id=(s.FLUE_TOOL_CALL_ID,),
        arguments=(s.FLUE_TOOL_ARGUMENTS, s.FLUE_FALLBACK_ARGUMENTS),
        output=(s.FLUE_TOOL_RESULT, s.FLUE_FALLBACK_RESULT),
        agent=(s.FLUE_TASK_AGENT,),
        prompt=(s.FLUE_TASK_PROMPT,),
        answer=(s.FLUE_TASK_RESULT,),
    ),
)
