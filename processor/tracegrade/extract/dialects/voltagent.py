"""VoltAgent: `span.type` beside `entity.type`, values in `input` and `output`.

The agent's own span has no `span.type`. Its tool spans' `tool.parameters` is the tool's schema, in Zod's words.
"""

from tracegrade import semconv as s
from tracegrade.extract.messages import messages_at
from tracegrade.extract.reading import Dialect, Holds, Keys, SpanKind, Words
from tracegrade.model.span import Span

_KINDS = Words({"tool": "tool", "llm": "chat", "agent": "agent"})


def _classify(span: Span) -> SpanKind | None:
    attributes = span.attributes
    if attributes.get(s.VOLT_ENTITY_TYPE) != "agent" or s.VOLT_OPERATION_ID not in attributes:
        return None
    kind = attributes.get(s.SPAN_TYPE, "agent")
    return _KINDS[kind] if type(kind) is str else None


DIALECT: Dialect = Dialect(
    name="voltagent",
    marks=frozenset({s.VOLT_OPERATION_ID}),
    classify=_classify,
    keys=Keys(
        call_id=(s.TOOL_CALL_ID_BARE,),
        arguments=(s.VOLT_INPUT,),
        output=(s.VOLT_OUTPUT,),
        agent=(s.VOLT_SUBAGENT_NAME, s.VOLT_ENTITY_NAME),
        session=(s.VOLT_CONVERSATION_ID,),
        model=(s.VOLT_MODEL,),
        prompt=(s.VOLT_INPUT,),
        answer=(s.VOLT_OUTPUT,),
    ),
    holds=Holds(structure=(s.VOLT_OPERATION_ID, s.SPAN_TYPE, s.VOLT_ENTITY_TYPE), messages=(s.VOLT_MESSAGES,)),
    inputs=messages_at(s.VOLT_MESSAGES),
)
