"""Google's Agent Development Kit: the GenAI conventions, with content in `gcp.vertex.agent.*` in its schema 1.

What other agents did is given to an agent as if the user had said it (google-adk 2.13.0, flows/llm_flows/context).
Source: google-adk 2.13.0, telemetry/tracing.py.
"""

import re
from dataclasses import replace

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import Output, unwrap_output
from tracegrade.extract.decode.values import decode
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.messages import read_messages
from tracegrade.extract.reading import Dialect, Holds, Keys, Message, SpanKind
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolError

_TOOL_ARGUMENTS = "gcp.vertex.agent.tool_call_args"
_TOOL_RESPONSE = "gcp.vertex.agent.tool_response"
_LLM_REQUEST = "gcp.vertex.agent.llm_request"
_LLM_RESPONSE = "gcp.vertex.agent.llm_response"
_EVENT_ID = "gcp.vertex.agent.event_id"

_SCOPE = "gcp.vertex.agent"
_AGENT_SPAN_PREFIX = "agent_run ["
_OF_ANOTHER_AGENT = re.compile(
    r"For context:[^\n]*\n\[[^\]\n]+\] (?:said:|called tool `|`[^`\n]+` tool returned result:)"
)


def _classify(span: Span) -> SpanKind | None:
    attributes = span.attributes
    if s.OPERATION_NAME in attributes:
        return gen_ai.DIALECT.classify(span)
    if _LLM_RESPONSE in attributes:
        return "chat"
    # Older agent spans have nothing but a name.
    return "agent" if span.scope == _SCOPE and span.name.startswith(_AGENT_SPAN_PREFIX) else None


def _agent_name(span: Span) -> str:
    if span.name.startswith(_AGENT_SPAN_PREFIX):
        return span.name[len(_AGENT_SPAN_PREFIX) :].removesuffix("]")
    return gen_ai.DIALECT.agent_name(span)


def _outputs(span: Span) -> list[Message]:
    response = decode(span.attributes.get(_LLM_RESPONSE)).value
    content = response.get("content") if isinstance(response, dict) else None
    return read_messages([content]) if isinstance(content, dict) else gen_ai.DIALECT.outputs(span)


def _inputs(span: Span) -> list[Message]:
    request = decode(span.attributes.get(_LLM_REQUEST)).value
    contents = request.get("contents") if isinstance(request, dict) else None
    messages = read_messages(contents) if isinstance(contents, list) else gen_ai.DIALECT.inputs(span)
    return [_by_its_author(message) for message in messages]


def _by_its_author(message: Message) -> Message:
    """What another agent did is no user's message."""
    return replace(message, role="system") if _OF_ANOTHER_AGENT.match(message.text) else message


def _is_hidden(span: Span) -> bool:
    """With content off, schema 1 writes an empty object for both."""
    attributes = span.attributes
    return attributes.get(_TOOL_ARGUMENTS) == "{}" == attributes.get(_TOOL_RESPONSE)


def _read_output(span: Span, raw: JsonValue) -> Output:
    # A result that is no object is recorded as {"result": ...}, by ADK for JavaScript a list as {"results": [...]}, and
    # what went wrong as {"error": ...}, by ADK for Java (0.5.0) as {"status": "error", "message": ...}.
    decoded = decode(raw)
    value = decoded.value
    if isinstance(value, dict) and value.keys() == {"status", "message"} and value["status"] == "error":
        return Output(decoded, failed=True, error=ToolError("", str(value["message"])))
    if isinstance(value, dict) and len(value) == 1 and span.resource.sdk_language == "nodejs":
        items = value.get("results")
        if isinstance(items, list):
            return Output(replace(decoded, value=items))
    return unwrap_output(decoded, function_response=True)


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="google_adk",
    marks=frozenset({_EVENT_ID, _TOOL_ARGUMENTS, _LLM_RESPONSE}),
    classify=_classify,
    reads_names=True,
    keys=Keys(arguments=(_TOOL_ARGUMENTS,), output=(_TOOL_RESPONSE,), session=("gcp.vertex.agent.session_id",)),
    holds=Holds(structure=(_EVENT_ID,), messages=(_LLM_REQUEST, _LLM_RESPONSE)),
    outputs=_outputs,
    inputs=_inputs,
    read_output=_read_output,
    is_hidden=_is_hidden,
    agent_name=_agent_name,
)
