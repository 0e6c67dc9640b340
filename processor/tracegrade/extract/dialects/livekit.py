"""LiveKit agents: `lk.function_tool.*`, beside the GenAI conventions in newer releases.

A failed call's result holds the text given to the model; the exception is on no span.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import Output, unwrap_output
from tracegrade.extract.decode.values import decode
from tracegrade.extract.reading import Dialect, Holds, Keys, SpanKind
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span


def _classify(span: Span) -> SpanKind | None:
    if span.attributes.get(s.LK_TOOL_NAME):
        return "tool"
    if s.LK_TOOLS in span.attributes:
        return "other"  # around a model call, which has a span of its own
    return "agent" if span.name == "agent_turn" else None


def _read_output(span: Span, raw: JsonValue) -> Output:
    output = unwrap_output(decode(raw))
    output.failed = output.failed or span.attributes.get(s.LK_TOOL_IS_ERROR) is True
    return output


DIALECT: Dialect = Dialect(
    name="livekit",
    marks=frozenset({s.LK_TOOL_NAME, s.LK_TOOLS, s.LK_USER_INPUT, s.LK_USER_INPUT_OLD}),
    classify=_classify,
    keys=Keys(
        tool_name=(s.LK_TOOL_NAME,),
        call_id=(s.LK_TOOL_ID,),
        arguments=(s.LK_TOOL_ARGUMENTS, s.LK_TOOL_ARGUMENTS_OLD),
        output=(s.LK_TOOL_OUTPUT, s.LK_TOOL_OUTPUT_OLD),
        prompt=(s.LK_USER_INPUT, s.LK_USER_INPUT_OLD),
        answer=(s.LK_RESPONSE_TEXT, s.LK_RESPONSE_TEXT_OLD),
    ),
    holds=Holds(structure=(s.LK_TOOL_IS_ERROR,), definitions=(s.LK_TOOLS,)),
    read_output=_read_output,
)
