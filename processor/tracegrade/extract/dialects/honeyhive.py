"""HoneyHive's decorators: `honeyhive_event_type`, arguments and results written flat, one attribute a value.

Source: honeyhive 1.7.0, tracer/instrumentation/decorators.py; its TypeScript package, and Python before 1.0, write
inputs one level deeper.
"""

from tracegrade.extract.decode.values import first_text
from tracegrade.extract.document import below, parsed
from tracegrade.extract.messages import read_messages
from tracegrade.extract.reading import Dialect, Holds, Keys, Message, SpanKind, Words
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolError

_TYPE = "honeyhive_event_type"
_NAME = "honeyhive_event_name"
_INPUTS = "honeyhive_inputs."
_RESULT = "honeyhive_outputs.result"
_ERROR = "honeyhive_error"
_ERROR_TYPE = "honeyhive_error_type"

# A function that raised has a second span beside its own.
_ERROR_SPAN_SUFFIX = "_error"
_AGENT = "agent"
_KINDS = Words({"tool": "tool", "model": "chat", "chain": "agent", "session": "other"})


def _classify(span: Span) -> SpanKind | None:
    word = span.attributes.get(_TYPE)
    if not isinstance(word, str):
        return None
    kind = _KINDS[word]
    if kind == "tool" and _ERROR_TYPE in span.attributes and span.name.endswith(_ERROR_SPAN_SUFFIX):
        return "other"
    # There is no type for agents: the outermost chain, and those that are called so.
    if kind == "agent" and not span.is_local_root and _AGENT not in _name(span).lower():
        return "other"
    return kind


def _name(span: Span) -> str:
    """What the function was called in its decorator, else its own name, which follows that of its module."""
    return first_text(span, (_NAME,)) or span.name.rpartition(".")[2]


def _given(span: Span) -> dict[str, JsonValue]:
    """The arguments; those that are objects or lists are JSON."""
    found = None
    for prefix in ("honeyhive_inputs._params_.", _INPUTS):
        found = found or below(span.attributes, prefix)
    return {name: parsed(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _arguments(span: Span) -> JsonValue:
    return dict(_given(span))


def _output(span: Span) -> JsonValue:
    flattened = below(span.attributes, _RESULT + ".")
    return flattened if flattened is not None else span.attributes.get(_RESULT)


def _inputs(span: Span) -> list[Message]:
    return read_messages(dict(_given(span))) if _classify(span) == "chat" else []


def _outputs(span: Span) -> list[Message]:
    if _classify(span) != "chat":
        return []
    result = _output(span)
    return read_messages(result) or ([Message("assistant", result)] if isinstance(result, str) else [])


def _failure(span: Span) -> ToolError | None:
    message = first_text(span, (_ERROR,))
    return ToolError(first_text(span, (_ERROR_TYPE,)), message) if message else None


DIALECT: Dialect = Dialect(
    name="honeyhive",
    marks=frozenset({_TYPE}),
    classify=_classify,
    keys=Keys(session=("honeyhive.session_id",), answer=(_RESULT,)),
    holds=Holds(structure=(_TYPE, _NAME, _ERROR_TYPE), errors=(_ERROR,)),
    prefixes=(_INPUTS, "honeyhive_outputs."),
    inputs=_inputs,
    outputs=_outputs,
    failure=_failure,
    tool_name=_name,
    arguments=_arguments,
    output=_output,
    agent_name=_name,
)
