"""AgentOps: `agentops.span.kind`; decorators record a bound call in `agentops.tool.input`.

Its instrumentations of model clients write a span of no length for each tool call that a model asked for: a request,
not its execution. Source: agentops 0.4.21, semconv/ and sdk/decorators/utility.py.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.values import call_id
from tracegrade.extract.reading import Dialect, Holds, Keys, Message, RequestedCall, SpanKind, Words
from tracegrade.model.span import Span

_KIND = "agentops.span.kind"
_ENTITY_INPUT = "agentops.entity.input"
_ENTITY_OUTPUT = "agentops.entity.output"

# "AgentOpsSpanKindValues.TOOL" is how the requests have it.
_KINDS = Words({"tool": "tool", "agent": "agent", "AgentOpsSpanKindValues.TOOL": "chat"})


def _classify(span: Span) -> SpanKind | None:
    """Its model calls are written in the dialect of whatever recorded them."""
    kind = span.attributes.get(_KIND)
    found = _KINDS[kind] if type(kind) is str else "unknown"
    return None if found == "unknown" else found


def _outputs(span: Span) -> list[Message]:
    attributes = span.attributes
    name = attributes.get(s.OI_TOOL_NAME)
    if span.attributes.get(_KIND) == "agent" or not isinstance(name, str) or not name:
        return []
    identity = call_id(attributes.get(s.TOOL_CALL_ID_BARE))
    return [Message("assistant", "", (RequestedCall(name, identity, attributes.get(s.OI_TOOL_PARAMETERS), "0/0"),))]


def _name(span: Span) -> str:
    name = span.attributes.get(s.OPERATION)
    return name if isinstance(name, str) and name else span.name.rpartition(".")[0]


DIALECT: Dialect = Dialect(
    name="agentops",
    marks=frozenset({_KIND}),
    classify=_classify,
    keys=Keys(
        arguments=("agentops.tool.input", _ENTITY_INPUT),
        output=("agentops.tool.output", "tool.result", _ENTITY_OUTPUT),
        prompt=("agentops.agent.input", _ENTITY_INPUT),
        answer=("agentops.agent.output", _ENTITY_OUTPUT),
    ),
    holds=Holds(structure=(_KIND, s.OPERATION, s.OI_TOOL_NAME, s.TOOL_CALL_ID_BARE), arguments=(s.OI_TOOL_PARAMETERS,)),
    outputs=_outputs,
    tool_name=_name,
    agent_name=_name,
)
