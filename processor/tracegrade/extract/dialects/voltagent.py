"""VoltAgent: `span.type` beside `entity.type`, values in `input` and `output`.

The agent's own span has no `span.type`. Its tool spans' `tool.parameters` is the tool's schema, in Zod's words.
Source: @voltagent/core 2.10.0, agent/open-telemetry/trace-context.ts.
"""

from tracegrade import semconv as s
from tracegrade.extract.messages import messages_at
from tracegrade.extract.reading import Dialect, Holds, Keys, SpanKind, Words
from tracegrade.model.span import Span

_ENTITY_TYPE = "entity.type"
_OPERATION_ID = "operation.id"
_INPUT = "input"
_OUTPUT = "output"
_MESSAGES = "llm.messages"

_KINDS = Words({"tool": "tool", "llm": "chat", "agent": "agent"})


def _classify(span: Span) -> SpanKind | None:
    attributes = span.attributes
    if attributes.get(_ENTITY_TYPE) != "agent" or _OPERATION_ID not in attributes:
        return None
    kind = attributes.get(s.SPAN_TYPE, "agent")
    return _KINDS[kind] if type(kind) is str else None


DIALECT: Dialect = Dialect(
    name="voltagent",
    marks=frozenset({_OPERATION_ID}),
    classify=_classify,
    keys=Keys(
        call_id=(s.TOOL_CALL_ID_BARE,),
        arguments=(_INPUT,),
        output=(_OUTPUT,),
        agent=("subagent.name", "entity.name"),
        session=("conversation.id",),
        model=("llm.model",),
        prompt=(_INPUT,),
        answer=(_OUTPUT,),
    ),
    holds=Holds(structure=(_OPERATION_ID, s.SPAN_TYPE, _ENTITY_TYPE), messages=(_MESSAGES,)),
    inputs=messages_at(_MESSAGES),
)
