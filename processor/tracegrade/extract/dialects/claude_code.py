"""Claude Code and the Claude Agent SDK, traces in beta: `span.type`, or a span name that starts with `claude_code.`.

A tool span waits for a permission and holds the execution as a child; results are in a span event; prompts, answers
and arguments are in log events. Newer versions write the conventions' keys as well. Source: Claude Code's
documentation, monitoring-usage, "Traces (beta)" and "Events".
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.values import canonical, first_text
from tracegrade.extract.reading import Dialect, Holds, Keys, Message, SpanKind, ToolEvents
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolError

_TOOL_NAME = "tool_name"
_TOOL_INPUT = "tool_input"
_SUBAGENT = "subagent_type"
_SUCCESS = "success"
_ERROR = "error"
_DECISION = "decision"
_OUTPUT_EVENT = "tool.output"
_PREFIX = "claude_code."
_PROMPT_LOG = "user_prompt"
_ANSWER_LOG = "assistant_response"
_RESULT_LOG = "tool_result"

_KINDS: dict[str, SpanKind] = {
    "interaction": "agent",
    "llm_request": "chat",
    "tool": "tool",
    "tool.execution": "outcome",
    "tool.blocked_on_user": "outcome",
}
# Where the input is not recorded, single details of it are; by the names that the tools have for them. A command is
# the whole of what matters.
_COMMAND = "full_command"
_DETAILS = {"file_path": "file_path", "skill_name": "skill", _SUBAGENT: "subagent_type"}
_EVENT_KEYS = ("output", "content", "diff")
_LOGS = frozenset({_PROMPT_LOG, _ANSWER_LOG, _RESULT_LOG})
# Log events that say nothing which the spans do not say: what a call was allowed by, and what a model call cost.
_LOG_SCOPE = "com.anthropic.claude_code.events"
_OTHER_LOGS = ("api_error", "api_request", "tool_decision")
# Stands in a logged input for what is nested in a list or an object there.
_LEFT_OUT = '"<nested>"'


def _classify(span: Span) -> SpanKind | None:
    kind = span.attributes.get(s.SPAN_TYPE)
    if not span.name.startswith(_PREFIX) and not (isinstance(kind, str) and kind.startswith(_PREFIX)):
        return None
    name = kind if isinstance(kind, str) else span.name
    return _KINDS.get(name.removeprefix(_PREFIX), "other")


def _agent_name(span: Span) -> str:
    """The sub-agent that a tool calls; its spans are below the tool's execution."""
    return first_text(span, (_SUBAGENT,))


def _arguments(span: Span) -> JsonValue:
    if _COMMAND in span.attributes:
        return {"command": span.attributes[_COMMAND]}
    found: JsonValue = {name: span.attributes[key] for key, name in _DETAILS.items() if key in span.attributes}
    return canonical(found)[:-1] if found else None  # decoding sees that it is not whole


def _failure(span: Span) -> ToolError | None:
    """What an execution and a permission asked for say about their tool's call."""
    attributes = span.attributes
    if attributes.get(_SUCCESS) in (False, "false"):
        return ToolError("", first_text(span, (_ERROR,)))
    decision = attributes.get(_DECISION)
    return ToolError("denied", "the permission to run was not given") if decision == "reject" else None


def _tool_events(span: Span) -> ToolEvents:
    arguments: JsonValue = None
    output: JsonValue = None
    for event in span.events:
        if event.name == _OUTPUT_EVENT:
            output = next((event.attributes[key] for key in _EVENT_KEYS if key in event.attributes), output)
        elif event.name.removeprefix(_PREFIX) == _RESULT_LOG:
            arguments = event.attributes.get(_TOOL_INPUT)
    if isinstance(arguments, str):
        arguments = arguments.partition(_LEFT_OUT)[0]  # decoding sees that it is not whole
    return ToolEvents(arguments, output)


def _inputs(span: Span) -> list[Message]:
    return _logged(span, _PROMPT_LOG, "prompt", "user")


def _outputs(span: Span) -> list[Message]:
    return _logged(span, _ANSWER_LOG, "response", "assistant")


def _logged(span: Span, name: str, key: str, role: str) -> list[Message]:
    return [
        Message(role, text)
        for event in span.events
        if event.name.removeprefix(_PREFIX) == name and isinstance(text := event.attributes.get(key), str)
    ]


DIALECT: Dialect = Dialect(
    name="claude_code",
    marks=frozenset({s.SPAN_TYPE, _TOOL_NAME}),
    classify=_classify,
    keys=Keys(
        tool_name=(_TOOL_NAME,),
        call_id=(s.CLAUDE_TOOL_USE_ID,),
        arguments=(_TOOL_INPUT,),
        session=(s.SESSION_ID,),
        user=(s.USER_ID,),
        model=("model",),
        prompt=("user_prompt",),
    ),
    holds=Holds(
        structure=(s.SPAN_TYPE, _SUCCESS, _DECISION, _SUBAGENT),
        arguments=(_COMMAND, "file_path", "skill_name"),
        errors=(_ERROR,),
    ),
    events=frozenset({_OUTPUT_EVENT, *_LOGS, *(_PREFIX + name for name in _LOGS)}),
    own_names=(_PREFIX,),
    passed_over=frozenset((_LOG_SCOPE, beginning + name) for name in _OTHER_LOGS for beginning in ("", _PREFIX)),
    inputs=_inputs,
    outputs=_outputs,
    tool_events=_tool_events,
    arguments=_arguments,
    failure=_failure,
    agent_name=_agent_name,
)
