"""Claude Code and the Claude Agent SDK, traces in beta: `span.type`, or a span name that starts with `claude_code.`.

A tool span waits for a permission and holds the execution as a child; results are in a span event. Newer versions
write the conventions' keys as well. Source: Claude Code's documentation, monitoring-usage, "Traces (beta)".
"""

from tracegrade import semconv as s
from tracegrade.extract.reading import Dialect, Keys, SpanKind, ToolEvents
from tracegrade.extract.values import first_text
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolError

_PREFIX = "claude_code."
_KINDS: dict[str, SpanKind] = {
    "interaction": "agent",
    "llm_request": "chat",
    "tool": "tool",
    "tool.execution": "outcome",
    "tool.blocked_on_user": "outcome",
}
# Where the input is not recorded, single details of it are; by the names that the tools have for them.
_DETAILS = {
    "full_command": "command",
    "file_path": "file_path",
    "skill_name": "skill",
    "subagent_type": "subagent_type",
}
_EVENT_KEYS = ("output", "content", "diff")


def _classify(span: Span) -> SpanKind | None:
    kind = span.attributes.get(s.SPAN_TYPE)
    if not span.name.startswith(_PREFIX) and not (isinstance(kind, str) and kind.startswith(_PREFIX)):
        return None
    name = kind if isinstance(kind, str) else span.name
    return _KINDS.get(name.removeprefix(_PREFIX), "other")


def _arguments(span: Span) -> JsonValue:
    found = {name: span.attributes[key] for key, name in _DETAILS.items() if key in span.attributes}
    return found or None


def _failure(span: Span) -> ToolError | None:
    """What an execution and a permission asked for say about their tool's call."""
    attributes = span.attributes
    if attributes.get(s.CLAUDE_SUCCESS) in (False, "false"):
        return ToolError("", first_text(span, (s.CLAUDE_ERROR,)))
    decision = attributes.get(s.CLAUDE_DECISION)
    return ToolError("denied", "the permission to run was not given") if decision == "reject" else None


def _tool_events(span: Span) -> ToolEvents:
    for event in span.events:
        if event.name == s.CLAUDE_OUTPUT_EVENT:
            for key in _EVENT_KEYS:
                if key in event.attributes:
                    return ToolEvents(output=event.attributes[key])
    return ToolEvents()


DIALECT = Dialect(
    name="claude_code",
    marks=frozenset({s.SPAN_TYPE, s.CLAUDE_TOOL_NAME}),
    classify=_classify,
    keys=Keys(
        tool_name=(s.CLAUDE_TOOL_NAME,),
        call_id=(s.CLAUDE_TOOL_USE_ID,),
        arguments=(s.CLAUDE_TOOL_INPUT,),
        session=(s.SESSION_ID,),
        user=(s.USER_ID,),
        model=(s.CLAUDE_MODEL,),
        prompt=(s.CLAUDE_PROMPT,),
    ),
    attributes=frozenset({s.CLAUDE_SUCCESS, s.CLAUDE_ERROR, s.CLAUDE_DECISION, *_DETAILS}),
    events=frozenset({s.CLAUDE_OUTPUT_EVENT}),
    tool_events=_tool_events,
    arguments=_arguments,
    failure=_failure,
)
