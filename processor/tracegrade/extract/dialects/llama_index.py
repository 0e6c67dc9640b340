"""LlamaIndex's own OpenTelemetry package: steps of a workflow, the event that each got as a `repr` of 200 characters.

The step that calls a tool is the call, its result in an event; the tool's own span below it says what was raised.
Agents, prompts and answers are in no attribute. Source: llama-index-observability-otel 0.7.0, base.py;
llama-index-workflows, _event_summary.py.
"""

import ast
import re

from tracegrade import semconv as s
from tracegrade.extract.reading import Dialect, Keys, SpanKind
from tracegrade.extract.values import first_text
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import STATUS_ERROR, Span
from tracegrade.model.tool_call import ToolError

_CALL = re.compile(r"ToolCall\(tool_name='([^']+)', tool_kwargs=")
_CALL_ID = re.compile(r", tool_id='([^']*)'\)$")
_RESULT = re.compile(r"tool_output=ToolOutput\(blocks=\[TextBlock\(block_type='text', text=")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_CUT = "..."


def _classify(span: Span) -> SpanKind | None:
    if span.name.endswith(".call_tool") and _CALL.match(_summary(span)):
        return "tool"
    return "outcome" if span.name.endswith(("Tool.acall", "Tool.call")) else "other"


def _summary(span: Span) -> str:
    return first_text(span, (s.LLAMA_SUMMARY,))


def _tool_name(span: Span) -> str:
    found = _CALL.match(_summary(span))
    return found[1] if found else ""


def _arguments(span: Span) -> JsonValue:
    summary = _summary(span)
    found = _CALL.match(summary)
    return _CALL_ID.sub("", summary[found.end() :]).removesuffix(_CUT) if found else None


def _output(span: Span) -> JsonValue:
    """The result with the call's id, as in a message about it."""
    shown = next(
        (_shown(event.attributes.get("output")) for event in span.events if event.name == s.LLAMA_OUTPUT), None
    )
    call_id = _CALL_ID.search(_summary(span))
    return {"content": shown, "tool_call_id": call_id[1] if call_id else None} if shown is not None else None


def _shown(event: JsonValue) -> JsonValue:
    """The text of a result; a beginning only where that shows that it is one: JSON that does not end."""
    found = _RESULT.search(event) if isinstance(event, str) else None
    if found is None:
        return None
    rest = found.string[found.end() :]
    quoted = _QUOTED.match(rest)
    if quoted is None:
        beginning = rest[1:].removesuffix(_CUT)
        return beginning if beginning[:1] in ("{", "[") else None
    try:
        text: str = ast.literal_eval(quoted[0])
    except (ValueError, SyntaxError):
        return None
    return text


def _failure(span: Span) -> ToolError | None:
    if span.status_code != STATUS_ERROR:
        return None
    raised = next((event.attributes for event in span.events if event.name == s.EXCEPTION_EVENT), {})
    return ToolError(str(raised.get(s.EXCEPTION_TYPE, "")), span.status_message)


DIALECT: Dialect = Dialect(
    name="llama_index",
    marks=frozenset({s.LLAMA_SUMMARY}),
    classify=_classify,
    keys=Keys(),
    events=frozenset({s.LLAMA_OUTPUT}),
    failure=_failure,
    tool_name=_tool_name,
    arguments=_arguments,
    output=_output,
)
