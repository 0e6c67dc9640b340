"""A bare tool name and nothing that says what the span is: spans written by hand, early GenAI instrumentations.

A span with `tool.name` (not synthesized) is a call: arguments in `input.value`, output in `output.value`. One that says
under a key of its sender that it is an agent's, a chain's or a model's is left to shape. Last in precedence. Source:
UiPath's evaluators (uipath 2.14.44).
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import Output
from tracegrade.extract.decode.values import Decoded, decode
from tracegrade.extract.document import document
from tracegrade.extract.reading import Dialect, Keys, SpanKind
from tracegrade.extract.shape.kinds import NO_KINDS, kinds_of
from tracegrade.extract.shape.names import is_code
from tracegrade.extract.shape.values import fields
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span


def _classify(span: Span) -> SpanKind | None:
    attributes = span.attributes
    name = attributes.get(s.OI_TOOL_NAME) or attributes.get(s.TOOL_NAME)
    if not name or (isinstance(name, str) and is_code(name)) or _says_otherwise(span):
        return None
    return "other" if attributes.get(s.OI_TOOL_SYNTHESIZED) in (True, "true") else "tool"


def _says_otherwise(span: Span) -> bool:
    kinds = kinds_of(fields(document(span))) if span.is_whole else NO_KINDS
    return (kinds.is_agent or kinds.is_chain or kinds.is_model) and not kinds.is_tool


def _output(span: Span, raw: JsonValue) -> Output:
    """An object's `content` if it has one, else the whole object; any other text as it came."""
    decoded = decode(raw)
    if isinstance(value := decoded.value, dict):
        return Output(Decoded(value["content"], decoded.status) if "content" in value else decoded)
    return Output(Decoded(raw, decoded.status) if isinstance(raw, str) and decoded.is_readable else decoded)


DIALECT: Dialect = Dialect(
    name="tool_name",
    marks=frozenset({s.OI_TOOL_NAME, s.TOOL_NAME}),
    classify=_classify,
    keys=Keys(call_id=(s.TOOL_CALL_ID_BARE,)),
    read_output=_output,
)
