"""traceAI (Future AGI): `gen_ai.span.kind`, OpenInference's values, and its flattened messages under GenAI's names.

Source: fi-instrumentation-otel 1.1.0, fi_types.py.
"""

from tracegrade import semconv as s
from tracegrade.extract.dialects import gen_ai, openinference
from tracegrade.extract.dialects.openinference import read_nested
from tracegrade.extract.messages import read_messages
from tracegrade.extract.reading import Dialect, Holds, Keys, Message, SpanKind, span_name
from tracegrade.model.span import Span

_KIND = "gen_ai.span.kind"
_INPUT_MESSAGES = "gen_ai.input.messages."
_OUTPUT_MESSAGES = "gen_ai.output.messages."


def _classify(span: Span) -> SpanKind | None:
    attributes = span.attributes
    kind = attributes.get(_KIND)
    # Others write the kind next to an operation, and messages as the conventions have them (LoongSuite).
    if type(kind) is not str or s.OPERATION_NAME in attributes:
        return None
    found = openinference.KINDS[kind]
    is_handoff = found == "tool" and s.TOOL_NAME not in attributes and span.name.lower().startswith("handoff")
    return "handoff" if is_handoff else found


def _inputs(span: Span) -> list[Message]:
    return read_nested(span, _INPUT_MESSAGES)


def _outputs(span: Span) -> list[Message]:
    messages = read_nested(span, _OUTPUT_MESSAGES)
    if any(message.calls for message in messages) or _classify(span) != "chat":
        return messages
    # Of LangChain's model calls the keys hold no calls, and the value the whole generation.
    whole = read_messages(span.attributes.get(s.OI_OUTPUT))
    return whole if any(message.calls for message in whole) else messages


DIALECT: Dialect = Dialect(
    name="traceai",
    marks=frozenset({_KIND}),
    classify=_classify,
    keys=Keys(prompt=(s.OI_INPUT,), answer=(s.OI_OUTPUT,)),
    holds=Holds(structure=(_KIND,)),
    prefixes=(_INPUT_MESSAGES, _OUTPUT_MESSAGES),
    inputs=_inputs,
    outputs=_outputs,
    schemas=gen_ai.DIALECT.schemas,
    schemas_in=gen_ai.DIALECT.schemas_in,
    tool_name=span_name,
    agent_name=span_name,
    metadata=(s.OI_METADATA,),
    agent_metadata=(s.OI_METADATA,),
)
