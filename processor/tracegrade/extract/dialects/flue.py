"""Flue: `flue.tool.*` and `flue.task.*`, before it wrote the GenAI conventions; a task is a sub-agent's run.

Beside the conventions, what is no object has a key of Flue's own. Source: withastro/flue, packages/opentelemetry.
"""

from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.reading import Dialect, Keys, SpanKind
from tracegrade.model.span import Span

_TOOL_NAME = "flue.tool.name"
_FALLBACK_ARGUMENTS = "flue.tool.call.arguments"
_FALLBACK_RESULT = "flue.tool.call.result"
_TASK_AGENT = "flue.task.agent"
_TASK_PROMPT = "flue.task.prompt"


def _classify(span: Span) -> SpanKind | None:
    attributes = span.attributes
    if attributes.get(_TOOL_NAME):
        return "tool"
    is_task = _TASK_AGENT in attributes or _TASK_PROMPT in attributes
    return "agent" if is_task else gen_ai.DIALECT.classify(span)


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="flue",
    marks=frozenset({_TOOL_NAME, _TASK_AGENT, _TASK_PROMPT, _FALLBACK_ARGUMENTS, _FALLBACK_RESULT}),
    classify=_classify,
    keys=Keys(
        tool_name=(_TOOL_NAME,),
        call_id=("flue.tool.call_id",),
        arguments=("flue.tool.arguments", _FALLBACK_ARGUMENTS),
        output=("flue.tool.result", _FALLBACK_RESULT),
        agent=(_TASK_AGENT,),
        prompt=(_TASK_PROMPT,),
        answer=("flue.task.result",),
    ),
)
