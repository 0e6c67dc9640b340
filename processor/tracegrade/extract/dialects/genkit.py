"""Genkit: `genkit:metadata:subtype`, every value as JSON in `genkit:input` and `genkit:output`.

A flow is an agent run. A model's messages hold parts `{text}`, `{toolRequest: {ref, name, input}}` and
`{toolResponse: {ref, name, output}}`. Source: @genkit-ai/core 1.42.0, tracing/instrumentation.ts.
"""

from tracegrade.extract.decode.unwrap import Output, unwrap_output
from tracegrade.extract.decode.values import Decoded, decode
from tracegrade.extract.messages import read_messages
from tracegrade.extract.reading import Dialect, Holds, Keys, Message, SpanKind, Words, span_name
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_SUBTYPE = "genkit:metadata:subtype"
_INPUT = "genkit:input"
_OUTPUT = "genkit:output"

_IN_PARTS = "tool.v2"
_WRAPPING = ("go", "python")
_RESULT = frozenset({"output", "content"})
_OTHER_SUBTYPES = (
    *("embedder", "evaluator", "executable-prompt", "indexer", "prompt", "reranker", "resource", "retriever", "util"),
    *("cancel-operation", "check-operation", "custom", "flowStep"),
)
_KINDS = Words(
    {
        "tool": "tool",
        _IN_PARTS: "tool",
        "model": "chat",
        "background-model": "chat",
        "flow": "agent",
        "agent": "agent",
        **dict.fromkeys(_OTHER_SUBTYPES, "other"),
    }
)


def _classify(span: Span) -> SpanKind | None:
    subtype = span.attributes.get(_SUBTYPE)
    return _KINDS[subtype] if type(subtype) is str else None


def _member(span: Span, key: str, name: str) -> JsonValue:
    value = decode(span.attributes.get(key)).value
    return value.get(name) if isinstance(value, dict) else None


def _is_chat(span: Span) -> bool:
    return _classify(span) == "chat"


def _inputs(span: Span) -> list[Message]:
    return read_messages(_member(span, _INPUT, "messages")) if _is_chat(span) else []


def _outputs(span: Span) -> list[Message]:
    return read_messages(_member(span, _OUTPUT, "message")) if _is_chat(span) else []


def _schemas(span: Span) -> dict[str, JsonValue]:
    tools = _member(span, _INPUT, "tools")
    return {
        name: tool.get("inputSchema")
        for tool in (tools if isinstance(tools, list) else [])
        if isinstance(tool, dict) and isinstance(name := tool.get("name"), str)
    }


def _read_output(span: Span, raw: JsonValue) -> Output:
    """The result; tools that may answer in several parts, as all of Go's and Python's do, record it as ``output``."""
    decoded = decode(raw)
    value = decoded.value
    if isinstance(value, dict) and _RESULT.issuperset(value):
        is_wrapped = span.attributes.get(_SUBTYPE) == _IN_PARTS or span.resource.sdk_language in _WRAPPING
        if is_wrapped:
            decoded = Decoded(value.get("output", value.get("content")), decoded.status)
    return unwrap_output(decoded)


DIALECT: Dialect = Dialect(
    name="genkit",
    marks=frozenset({_SUBTYPE}),
    classify=_classify,
    keys=Keys(
        tool_name=("genkit:name",),
        arguments=(_INPUT,),
        output=(_OUTPUT,),
        session=("genkit:sessionId",),
        prompt=(_INPUT,),
        answer=(_OUTPUT,),
    ),
    holds=Holds(structure=(_SUBTYPE,)),
    outputs=_outputs,
    inputs=_inputs,
    read_output=_read_output,
    schemas=_schemas,
    schemas_in=(_INPUT,),
    tool_name=span_name,
    agent_name=span_name,
    model=span_name,
)
