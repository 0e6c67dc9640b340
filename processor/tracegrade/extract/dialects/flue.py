"""Flue: `flue.tool.*` and `flue.task.*`, before it wrote the GenAI conventions; a task is a sub-agent's run.

Beside the conventions, what is no object has a key of Flue's own.
"""

from tracegrade import semconv as s
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.reading import Dialect, Keys, SpanKind
from tracegrade.model.span import Span


def _classify(span: Span) -> SpanKind | None:
    attributes = span.attributes
    if attributes.get(s.FLUE_TOOL_NAME):
        return "tool"
    is_task = s.FLUE_TASK_AGENT in attributes or s.FLUE_TASK_PROMPT in attributes
    return "agent" if is_task else gen_ai.DIALECT.classify(span)


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="flue",
    marks=frozenset(
        {
            s.FLUE_TOOL_NAME,
            s.FLUE_TASK_AGENT,
            s.FLUE_TASK_PROMPT,
            s.FLUE_FALLBACK_ARGUMENTS,
            s.FLUE_FALLBACK_RESULT,
        }
    ),
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
