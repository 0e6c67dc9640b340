"""LiveKit agents: `lk.function_tool.*`, beside the GenAI conventions in newer releases.

A failed call's result holds the text given to the model; the exception is on no span. Source: livekit-agents 1.8.9,
telemetry/trace_types.py; without `pii.` before 1.8.
"""

from tracegrade.extract.decode.unwrap import Output, unwrap_output
from tracegrade.extract.decode.values import decode
from tracegrade.extract.reading import Dialect, Holds, Keys, SpanKind
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_TOOLS = "lk.function_tools"
_TOOL_NAME = "lk.function_tool.name"
_TOOL_IS_ERROR = "lk.function_tool.is_error"
_USER_INPUT = "lk.pii.user_input"
_USER_INPUT_OLD = "lk.user_input"


def _classify(span: Span) -> SpanKind | None:
    if span.attributes.get(_TOOL_NAME):
        return "tool"
    if _TOOLS in span.attributes:
        return "other"  # around a model call, which has a span of its own
    return "agent" if span.name == "agent_turn" else None


def _read_output(span: Span, raw: JsonValue) -> Output:
    output = unwrap_output(decode(raw))
    output.failed = output.failed or span.attributes.get(_TOOL_IS_ERROR) is True
    return output


DIALECT: Dialect = Dialect(
    name="livekit",
    marks=frozenset({_TOOL_NAME, _TOOLS, _USER_INPUT, _USER_INPUT_OLD}),
    classify=_classify,
    keys=Keys(
        tool_name=(_TOOL_NAME,),
        call_id=("lk.function_tool.id",),
        arguments=("lk.pii.function_tool.arguments", "lk.function_tool.arguments"),
        output=("lk.pii.function_tool.output", "lk.function_tool.output"),
        prompt=(_USER_INPUT, _USER_INPUT_OLD),
        answer=("lk.pii.response.text", "lk.response.text"),
    ),
    holds=Holds(structure=(_TOOL_IS_ERROR,), definitions=(_TOOLS,)),
    read_output=_read_output,
)
