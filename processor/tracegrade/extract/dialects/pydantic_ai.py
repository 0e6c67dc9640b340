"""Pydantic AI: `tool_arguments`, `tool_response` and messages as a list of events in `events`, until its format 3.

Later formats are the GenAI conventions. In all of them an agent span has its `final_result`, and the tool by which
the model gives that is no tool call. Source: pydantic-ai-slim 1.0.18, models/instrumented.py and agent/__init__.py;
2.68.0, capabilities/instrumentation.py and _instrumentation.py.
"""

import re

from tracegrade import semconv as s
from tracegrade.extract.decode.values import decode, is_masked, parse_object
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.messages import read_message, read_messages, since_last_user
from tracegrade.extract.reading import Dialect, Holds, Keys, Message, SpanKind
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import STATUS_ERROR, Span

_TOOL_ARGUMENTS = "tool_arguments"
_TOOL_RESPONSE = "tool_response"
_MODEL_NAME = "model_name"
_FINAL_RESULT = "final_result"
_EVENTS = "events"
_ALL_EVENTS = "all_messages_events"
_ALL_MESSAGES = "pydantic_ai.all_messages"
_FAILURE_STAGE = "pydantic_ai.tool.failure_stage"
_REQUEST_PARAMETERS = "model_request_parameters"
_LOGFIRE_MESSAGE = "logfire.msg"

_VALIDATION_ERRORS = re.compile(r"\d+ validation errors?: \[")
_OUTPUT_FUNCTION = "running output function"
_OUTPUT_TOOL = "final_result"  # unless it is given another name


def _classify(span: Span) -> SpanKind | None:
    attributes = span.attributes
    if s.TOOL_NAME in attributes:
        said = attributes.get(_LOGFIRE_MESSAGE)
        if isinstance(said, str) and said.startswith(_OUTPUT_FUNCTION):
            return "other"
    if s.OPERATION_NAME in attributes:
        return gen_ai.DIALECT.classify(span)
    if s.TOOL_NAME in attributes:
        return "tool"
    return "agent" if s.PYDANTIC_AGENT_NAME in attributes and _MODEL_NAME in attributes else None


def _is_refused(span: Span) -> bool:
    attributes = span.attributes
    stage = attributes.get(_FAILURE_STAGE)
    if stage is not None or span.status_code != STATUS_ERROR:
        return stage == "validation"
    # Before it said so itself, the result told the model what was wrong.
    result = attributes.get(_TOOL_RESPONSE, attributes.get(s.TOOL_CALL_RESULT))
    return isinstance(result, str) and _VALIDATION_ERRORS.match(result) is not None


def _outputs(span: Span) -> list[Message]:
    result = span.attributes.get(_FINAL_RESULT)
    if isinstance(result, str):
        return [*(said for said in _said_in_run(span) if said.calls or said.results), Message("assistant", result)]
    choices = [event for event in _events(span) if event.get("event.name") == s.MESSAGE_EVENT_CHOICE]
    bodies = [body for choice in choices if isinstance(body := choice.get("message"), dict)]
    messages = [read_message(body, position, "assistant") for position, body in enumerate(bodies)]
    messages = messages or gen_ai.DIALECT.outputs(span) or _said_in_run(span)
    if any(message.calls for message in messages) and (finals := _output_tools(span)):
        for message in messages:
            message.calls = tuple(call for call in message.calls if call.name not in finals)
    return messages


def _said_in_run(span: Span) -> list[Message]:
    """The messages of an agent's run, without those of earlier turns and the calls that give its final result."""
    messages = since_last_user(read_messages(span.attributes.get(_ALL_MESSAGES)))
    for message in messages:
        message.calls = tuple(call for call in message.calls if call.name != _OUTPUT_TOOL)
    return messages


def _answer(span: Span) -> str:
    result = span.attributes.get(_FINAL_RESULT)
    text = result.strip() if isinstance(result, str) else ""
    return "" if is_masked(text) else text


def _inputs(span: Span) -> list[Message]:
    given = [event for event in _events(span) if event.get("event.name") != s.MESSAGE_EVENT_CHOICE]
    if given:
        return [read_message(event, position) for position, event in enumerate(given)]
    return gen_ai.DIALECT.inputs(span)


def _output_tools(span: Span) -> set[str]:
    """The tools by which the model gives its final result."""
    raw = span.attributes.get(_REQUEST_PARAMETERS)
    if (parameters := parse_object(raw)) is None and decode(raw).status == "truncated":
        return {_OUTPUT_TOOL}
    tools = parameters.get("output_tools") if isinstance(parameters, dict) else None
    names = [tool.get("name") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return {name for name in names if isinstance(name, str)}


def _events(span: Span) -> list[dict[str, JsonValue]]:
    attributes = span.attributes
    events = decode(attributes.get(_EVENTS, attributes.get(_ALL_EVENTS))).value
    return [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="pydantic_ai",
    marks=frozenset(
        {
            _TOOL_ARGUMENTS,
            _TOOL_RESPONSE,
            s.PYDANTIC_AGENT_NAME,
            _EVENTS,
            _ALL_EVENTS,
            _ALL_MESSAGES,
            _REQUEST_PARAMETERS,
            _FAILURE_STAGE,
            _LOGFIRE_MESSAGE,
        }
    ),
    classify=_classify,
    keys=Keys(arguments=(_TOOL_ARGUMENTS,), output=(_TOOL_RESPONSE,), agent=(s.PYDANTIC_AGENT_NAME,)),
    holds=Holds(
        structure=(_FAILURE_STAGE, _MODEL_NAME),
        definitions=(_REQUEST_PARAMETERS,),
        messages=(_EVENTS, _ALL_EVENTS, _ALL_MESSAGES, _FINAL_RESULT, _LOGFIRE_MESSAGE),
    ),
    is_refused=_is_refused,
    outputs=_outputs,
    answer=_answer,
    inputs=_inputs,
)
