"""OpenInference: `openinference.span.kind`, values in `input.value` and `output.value`, messages as flattened keys.

Source: Arize-ai/openinference, openinference-semantic-conventions 0.1.42, trace/__init__.py.
"""

import re

from tracegrade import semconv as s
from tracegrade.extract.decode.names import without_method
from tracegrade.extract.decode.unwrap import Output, declared
from tracegrade.extract.decode.values import decode, first_text, parse_plain
from tracegrade.extract.dialects import gen_ai, openlit
from tracegrade.extract.document import numbered
from tracegrade.extract.messages import read_flattened, read_messages
from tracegrade.extract.reading import (
    Dialect,
    HandedOver,
    Holds,
    Keys,
    Message,
    ShownResult,
    SpanKind,
    Words,
    langchain_agent_in,
    unwrap_result,
)
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import STATUS_ERROR, Span

_GRAPH_NODE = "graph.node.id"
_INPUT_MESSAGES = "llm.input_messages."
_OUTPUT_MESSAGES = "llm.output_messages."
_TOOLS = "llm.tools."

_OTHER_KINDS = ("CHAIN", "EMBEDDING", "EVALUATOR", "GUARDRAIL", "PROMPT", "RERANKER", "RETRIEVER", "UNKNOWN")
KINDS = Words({"TOOL": "tool", "LLM": "chat", "AGENT": "agent", **dict.fromkeys(_OTHER_KINDS, "other")})

_AGENT_SPAN_SUFFIX = ".run"
_FAILURE_SPAN = "error"
_LANGCHAIN = "openinference.instrumentation.langchain"
_FROM_AGENT = "from_agent"
_TO_AGENT = "to_agent"
_FUNCTION_ROLE = "function"  # of AG2's message about a call, which stands beside whether it succeeded
_HANDOFF_SPAN = re.compile(r"(?i)^(?:handoff(\s+to)?|(\w+\.)+handoff\s+to\b)\s*")  # some put their own name before
# What a request has where a tool failed, or several results are one message: Anthropic's, Bedrock's.
_REQUEST_MARKS = ('"is_error"', '"error"', '"tool_result"', '"toolResult"')


def _classify(span: Span) -> SpanKind | None:
    attributes = span.attributes
    kind = attributes.get(s.OPENINFERENCE_KIND)
    if type(kind) is not str:
        return None
    found = KINDS[kind]
    if found == "tool":
        # OpenLIT's converter makes a tool of a model call that asks for tools.
        operation = attributes.get(s.OPERATION_NAME)
        if type(operation) is str and gen_ai.KINDS[operation] == "chat":
            return "chat"
        if attributes.get(s.OI_TOOL_SYNTHESIZED) in (True, "true"):
            return "other"
        # A handoff is a TOOL span that names no tool, or its own name as one, and has agents as its input and output.
        tool = attributes.get(s.OI_TOOL_NAME)
        if _HANDOFF_SPAN.match(span.name) and (not tool or (" " in span.name and tool == span.name.replace(" ", "_"))):
            return "handoff"
        # BeeAI tells of a tool that failed by a span inside its own, which names no tool.
        if span.name == _FAILURE_SPAN and s.OI_TOOL_NAME not in attributes and span.status_code == STATUS_ERROR:
            return "other"
    elif found == "other" and span.name == langchain_agent_in(attributes.get(s.OI_METADATA)):
        return "agent"  # the run of the agent that LangChain names in all that happens within it
    return found


def _tool_name(span: Span) -> str:
    return without_method(span.name)  # DSPy's have no `tool.name`


def _agent_name(span: Span) -> str:
    node = span.attributes.get(_GRAPH_NODE)
    return node if isinstance(node, str) else span.name.removesuffix(_AGENT_SPAN_SUFFIX)


def read_nested(span: Span, prefix: str) -> list[Message]:
    """The messages below `prefix`, whose calls leave out empty arguments; but attributes beyond a limit are missing."""
    left_out: JsonValue = None if span.dropped_attributes_count else {}
    return read_flattened(span.attributes, prefix, inner="message", left_out=left_out)


def _outputs(span: Span) -> list[Message]:
    messages = read_nested(span, _OUTPUT_MESSAGES)
    if messages or span.attributes.get(s.OPENINFERENCE_KIND) != "LLM":
        return messages or (openlit.read_outputs(span) if s.OPERATION_NAME in span.attributes else [])
    # Some streamed model calls show only what the provider's library returned.
    return [message for message in read_messages(span.attributes.get(s.OI_OUTPUT)) if message.text or message.calls]


def _inputs(span: Span) -> list[Message]:
    messages = read_nested(span, _INPUT_MESSAGES)
    if messages:
        if any(message.results for message in messages):
            _complete_results(messages, span.attributes.get(s.OI_INPUT))
        return messages
    if span.attributes.get(s.OPENINFERENCE_KIND) != "AGENT":
        return messages
    # CrewAI's agents take a task object; what the task was stands in its output.
    output = decode(span.attributes.get(s.OI_OUTPUT)).value
    if isinstance(output, dict) and "raw" in output and isinstance(task := output.get("description"), str):
        return [Message("user", task)]
    return []


def _complete_results(messages: list[Message], raw: JsonValue) -> None:
    """Give results what only the request as it was sent says of them: which call one is of, and that it failed.

    Of several results in one message, the keys hold the last: the others are taken from the request as well.

    Args:
        messages: the latest ones of the request, in order.
        raw: the request as JSON.
    """
    without_id = any(result.call_id is None for message in messages for result in message.results)
    if not isinstance(raw, str) or not (without_id or any(mark in raw for mark in _REQUEST_MARKS)):
        return
    request = parse_plain(raw)
    sent = request.get("messages") if isinstance(request, dict) else request
    if not isinstance(sent, list):
        return
    latest = read_messages(sent[-len(messages) :])
    in_request = [result for message in latest for result in message.results]
    for message, as_sent in zip(reversed(messages), reversed(latest), strict=False):
        if len(as_sent.results) > len(message.results) > 0 and _has_all(as_sent.results, message.results):
            message.results = as_sent.results
    shown = [result for message in messages for result in message.results]
    if without_id and len(in_request) < len(shown):
        return
    of_shown = dict(zip(map(id, shown), in_request[len(in_request) - len(shown) :], strict=False)) if without_id else {}
    failed: set[str | None] = {result.call_id for result in in_request if result.failed and result.call_id is not None}
    for message in messages:
        message.results = tuple(_completed(result, of_shown.get(id(result)), failed) for result in message.results)


def _has_all(results: tuple[ShownResult, ...], shown: tuple[ShownResult, ...]) -> bool:
    ids = {result.call_id for result in results}
    return None not in ids and all(result.call_id in ids for result in shown)


def _completed(result: ShownResult, in_request: ShownResult | None, failed: set[str | None]) -> ShownResult:
    if result.call_id is None and in_request is not None:
        return result._replace(call_id=in_request.call_id, failed=result.failed or in_request.failed)
    return result._replace(failed=True) if result.call_id in failed else result


def _read_output(span: Span, raw: JsonValue) -> Output:
    """The result without what the framework puts around it; an object of the tool's own may look the same elsewhere."""
    decoded = decode(raw)
    value = decoded.value
    if type(value) is dict:
        if len(value) == 1 and "output" in value and span.scope == _LANGCHAIN:  # what LangChain calls a run's outputs
            decoded = decode(value["output"])
        return unwrap_result(span, decoded)
    if type(value) is list and len(value) == 2 and type(value[0]) is bool:
        shown = value[1]
        if isinstance(shown, dict) and shown.get("role") == _FUNCTION_ROLE and "content" in shown:
            return Output(decode(shown["content"]), failed=value[0] is False)
    return unwrap_result(span, decoded)


def _schemas(span: Span) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for tool in numbered(span.attributes, _TOOLS, "tool"):
        value = declared(tool.get("json_schema"))
        function = value.get("function", value) if isinstance(value, dict) else None
        if isinstance(function, dict) and isinstance(name := function.get("name"), str):
            found[name] = function.get("parameters", function.get("input_schema"))
    return found


def _handed_over(span: Span) -> HandedOver | None:
    if span.attributes.get(s.OPENINFERENCE_KIND) != "TOOL" or _classify(span) != "handoff":
        return None
    to = _agent_in(span, s.OI_OUTPUT, _TO_AGENT) or _HANDOFF_SPAN.sub("", span.name)
    return HandedOver(_agent_in(span, s.OI_INPUT, _FROM_AGENT), to)


def _agent_in(span: Span, key: str, member: str) -> str:
    """The agent that a handoff's value is, as a text or (for JavaScript) as the only member of an object."""
    text = first_text(span, (key,))
    value = parse_plain(text) if text.startswith("{") else None
    agent = value.get(member) if isinstance(value, dict) else text
    return agent if isinstance(agent, str) else ""


DIALECT: Dialect = Dialect(
    name="openinference",
    marks=frozenset({s.OPENINFERENCE_KIND}),
    classify=_classify,
    keys=Keys(
        tool_name=(s.OI_TOOL_NAME,),
        call_id=("tool.id", "tool_call.id"),
        arguments=("tool_call.function.arguments", s.OI_INPUT, s.OI_TOOL_PARAMETERS),
        output=(s.OI_OUTPUT,),
        schema=("tool.json_schema", s.OI_TOOL_PARAMETERS),
        agent=("agent.name", s.AI_FUNCTION_ID),  # the second: spans of the AI SDK, converted
        session=(s.SESSION_ID,),
        user=(s.USER_ID,),
        model=("llm.model_name",),
        prompt=(s.OI_INPUT,),
        answer=(s.OI_OUTPUT,),
    ),
    holds=Holds(structure=(s.OPENINFERENCE_KIND, s.OI_TOOL_SYNTHESIZED, _GRAPH_NODE)),
    prefixes=(_INPUT_MESSAGES, _OUTPUT_MESSAGES, _TOOLS),
    outputs=_outputs,
    inputs=_inputs,
    read_output=_read_output,
    schemas=_schemas,
    schemas_in=(_TOOLS,),
    handed_over=_handed_over,
    tool_name=_tool_name,
    agent_name=_agent_name,
    metadata=(s.OI_METADATA,),
    agent_metadata=(s.OI_METADATA,),
)
