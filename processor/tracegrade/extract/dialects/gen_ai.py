"""OTel GenAI semantic conventions: `gen_ai.operation.name` and, for MCP, `mcp.method.name`.

Covers the tool spans of v1.31 to today, messages as attributes or in one event (v1.37 on),
and messages as events, one each (before).
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import read_schemas
from tracegrade.extract.decode.values import decode, first_text
from tracegrade.extract.dialects import gemini_cli
from tracegrade.extract.messages import event_body, read_event, read_messages
from tracegrade.extract.reading import Dialect, HandedOver, Holds, Keys, Message, SpanKind, ToolEvents, Words
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span, SpanEvent

# The conventions' other operations, and words of known senders for steps that are neither calls nor model calls.
_OTHER_OPERATIONS = (
    *("create_agent", "embeddings", "fetch_response", "plan", "retrieval", "rerank", "evaluation", "guardrail"),
    *("create_memory", "create_memory_store", "delete_memory", "delete_memory_store"),
    *("search_memory", "update_memory", "upsert_memory"),
    *(
        "agent_step",
        "chain",
        "execute_event_loop_cycle",
        "execute_task",
        "framework",
        "model_chunk",
        "orchestrate_tools",
    ),
)
KINDS = Words(
    {
        "execute_tool": "tool",
        "chat": "chat",
        "generate_content": "chat",
        "call_llm": "chat",  # any-agent's word
        "text_completion": "chat",
        "invoke_agent": "agent",
        "invoke_workflow": "agent",  # a run only where no agent span is one, and so is a turn
        "handle_conversation_turn": "agent",
        **dict.fromkeys(_OTHER_OPERATIONS, "other"),
    }
)
# What instrumentations tag execute_tool beside real calls: ADK's span around a parallel batch, OpenLIT's tool listing.
_NO_TOOLS = frozenset({"(merged tools)", "mcp_list_tools"})
_TOOL_SPAN_PREFIXES = ("execute_tool ", "delegate ")
_AGENT_SPAN_PREFIXES = ("invoke_agent ", "invoke_workflow ", "handle_conversation_turn ")
# OpenLIT tags every node of a graph invoke_agent.
_GRAPH_NODES_SCOPE = "openlit.instrumentation.langgraph"
_MCP_CALL = "tools/call"
_HANDED_FROM = (s.HANDOFF_FROM, s.HANDOFF_SOURCE_NAME)
_HANDED_TO = (s.HANDOFF_TO, s.HANDOFF_TARGET_NAME)
_PASSES_CONTROL = "pass_control"  # in place of returning to the caller, who then called an agent as a tool

# A streamed response, as opentelemetry-instrumentation-openai-agents-v2 0.1.0 writes it: in place of its text.
_DUMPED_RESPONSE = "{'id': "

_INPUT_EVENTS = {
    s.MESSAGE_EVENT_SYSTEM: "system",
    s.MESSAGE_EVENT_USER: "user",
    s.MESSAGE_EVENT_ASSISTANT: "assistant",
    s.MESSAGE_EVENT_TOOL: "tool",
}


def _classify(span: Span) -> SpanKind | None:
    attributes = span.attributes
    operation = attributes.get(s.OPERATION_NAME)
    if type(operation) is not str:
        method = attributes.get(s.MCP_METHOD)
        return None if method is None else "tool" if method == _MCP_CALL else "other"
    kind = KINDS[operation]
    if kind == "unknown" and gemini_cli.DIALECT.classify(span) is not None:
        return None  # that dialect is asked next: asked first, it would cost all other spans of GenAI
    if kind == "tool" or (kind == "unknown" and s.TOOL_NAME in attributes):
        return kind if _is_call(span) else "other"
    return kind if span.scope != _GRAPH_NODES_SCOPE or operation != "invoke_agent" else "other"


def _is_call(span: Span) -> bool:
    """Whether an execute_tool span is a tool call: not a batch, a listing, another MCP method, or a retriever."""
    attributes = span.attributes
    name = attributes.get(s.TOOL_NAME)
    if type(name) is str and name in _NO_TOOLS:
        return False
    if attributes.get(s.TOOL_TYPE) == "retriever":
        return False
    return attributes.get(s.MCP_METHOD, _MCP_CALL) == _MCP_CALL


def _tool_name(span: Span) -> str:
    """From a span name: ``execute_tool X``, FastMCP's ``delegate X``, ``tools/call X``, ``MCP send tools/call X``."""
    for prefix in _TOOL_SPAN_PREFIXES:
        if span.name.startswith(prefix):
            return span.name[len(prefix) :].strip()
    return span.name.partition(_MCP_CALL)[2].strip()


def _agent_name(span: Span) -> str:
    for prefix in _AGENT_SPAN_PREFIXES:
        if span.name.startswith(prefix):
            return span.name[len(prefix) :].strip()
    return ""


def _outputs(span: Span) -> list[Message]:
    messages = read_messages(span.attributes.get(s.OUTPUT_MESSAGES))
    if len(messages) == 1 and messages[0].text.startswith(_DUMPED_RESPONSE):
        return read_messages(decode(messages[0].text).value) or messages
    if messages or not span.events:
        return messages
    for event in span.events:
        if event.name == s.INFERENCE_EVENT:
            messages += read_messages(event_body(event.attributes).get(s.OUTPUT_MESSAGES))
        elif event.name == s.MESSAGE_EVENT_CHOICE:
            messages.append(read_event(event.attributes, "assistant", len(messages)))
        elif event.name == s.COMPLETION_EVENT:
            messages += read_messages(_content(event, s.COMPLETION_CONTENT))
    return messages


def _inputs(span: Span) -> list[Message]:
    messages = read_messages(span.attributes.get(s.INPUT_MESSAGES))
    if messages or not span.events:
        return messages
    for event in span.events:
        if event.name == s.INFERENCE_EVENT:
            messages += read_messages(event_body(event.attributes).get(s.INPUT_MESSAGES))
        elif (role := _INPUT_EVENTS.get(event.name)) is not None:
            messages.append(read_event(event.attributes, role, len(messages)))
        elif event.name == s.PROMPT_EVENT:
            messages += read_messages(_content(event, s.PROMPT_CONTENT))
    return messages


def _content(event: SpanEvent, key: str) -> JsonValue:
    return event.attributes.get(key, event.attributes.get(s.EVENT_CONTENT))


def _tool_events(span: Span) -> ToolEvents:
    """On a tool span, a tool message and then a choice are what the tool got and gave (Strands)."""
    arguments: JsonValue = None
    output: JsonValue = None
    for event in span.events:
        if event.name == s.MESSAGE_EVENT_TOOL:
            arguments = event_body(event.attributes).get("content")
        elif event.name == s.MESSAGE_EVENT_CHOICE:
            output = event_body(event.attributes).get("message")
    return ToolEvents(arguments, output) if output is not None else ToolEvents()


def _schemas(span: Span) -> dict[str, JsonValue]:
    return read_schemas(span.attributes.get(s.TOOL_DEFINITIONS))


def _handed_over(span: Span) -> HandedOver | None:
    from_agent, to_agent = first_text(span, _HANDED_FROM), first_text(span, _HANDED_TO)
    if not to_agent and span.attributes.get(s.TRANSFER_MODE) == _PASSES_CONTROL:
        to_agent = first_text(span, (s.TRANSFER_TARGET_NAME,))
    return HandedOver(from_agent, to_agent) if from_agent or to_agent else None


DIALECT: Dialect = Dialect(
    name="gen_ai",
    marks=frozenset({s.OPERATION_NAME, s.MCP_METHOD}),
    classify=_classify,
    keys=Keys(
        tool_name=(s.TOOL_NAME,),
        call_id=(s.TOOL_CALL_ID,),
        arguments=(s.TOOL_CALL_ARGUMENTS, s.TOOL_INPUT),
        output=(s.TOOL_CALL_RESULT, s.TOOL_OUTPUT),
        schema=(s.TOOL_JSON_SCHEMA,),
        # Beside LangChain's, the conventions' name is the outermost agent's (Splunk).
        agent=(s.LANGCHAIN_AGENT, s.NETRA_LANGCHAIN_AGENT, s.AGENT_NAME, s.AXIOM_CAPABILITY),
        session=(s.CONVERSATION_ID,),
        user=(s.USER_ID, s.ENDUSER_ID),
        model=(s.RESPONSE_MODEL, s.REQUEST_MODEL),
        failed=(s.TOOL_STATUS, s.TANSTACK_OUTCOME),
        error_message=(s.ERROR_MESSAGE,),
        prompt=(s.WORKFLOW_INPUT,),
    ),
    holds=Holds(
        structure=(
            *(s.OPERATION_NAME, s.MCP_METHOD, s.TOOL_TYPE, s.LANGGRAPH_NODE),
            *(*_HANDED_FROM, *_HANDED_TO, s.TRANSFER_TARGET_NAME, s.TRANSFER_MODE),
        ),
        definitions=(s.TOOL_DEFINITIONS,),
        messages=(s.INPUT_MESSAGES, s.OUTPUT_MESSAGES, s.SYSTEM_INSTRUCTIONS, *s.REFERENCES),
    ),
    events=frozenset({s.INFERENCE_EVENT, s.MESSAGE_EVENT_CHOICE, s.PROMPT_EVENT, s.COMPLETION_EVENT, *_INPUT_EVENTS}),
    outputs=_outputs,
    inputs=_inputs,
    tool_events=_tool_events,
    schemas=_schemas,
    schemas_in=(s.TOOL_DEFINITIONS,),
    handed_over=_handed_over,
    tool_name=_tool_name,
    agent_name=_agent_name,
)

# Where the dialects begin whose spans are GenAI's with further keys and marks: what they do not replace is read as the
# conventions say.
VARIANT: Dialect = DIALECT._replace(name="", marks=frozenset(), keys=Keys(), holds=Holds())
