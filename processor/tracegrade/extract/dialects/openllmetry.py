"""OpenLLMetry (Traceloop): `traceloop.span.kind`, values in `traceloop.entity.input` and `traceloop.entity.output`.

Covers the SDK's decorators, the instrumentations of frameworks, and model calls with flattened messages, which
LiteLLM writes as well. Later versions are the GenAI conventions beside these keys. Source:
opentelemetry-semantic-conventions-ai 0.5.1 and, for the flattened messages, 0.4.9;
opentelemetry-instrumentation-llamaindex 0.62.4, event_emitter.py.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import Output, declared
from tracegrade.extract.decode.values import decode
from tracegrade.extract.dialects import gen_ai
from tracegrade.extract.document import numbered
from tracegrade.extract.messages import read_flattened
from tracegrade.extract.reading import (
    SESSION_WORDS,
    USER_WORDS,
    Dialect,
    Holds,
    Keys,
    Message,
    SpanKind,
    Words,
    under,
    unwrap_result,
)
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_KIND = "traceloop.span.kind"
_WORKFLOW_NAME = "traceloop.workflow.name"
_OUTPUT = "traceloop.entity.output"
_PROPERTIES = "traceloop.association.properties."
_LANGCHAIN_AGENT = "traceloop.association.properties.lc_agent_name"
_LLM_REQUEST_TYPE = "llm.request.type"
_LLM_REQUEST_FUNCTIONS = "llm.request.functions."
_FLAT_PROMPTS = "gen_ai.prompt."
_FLAT_COMPLETIONS = "gen_ai.completion."

_KINDS = Words({"tool": "tool", "agent": "agent", "workflow": "agent", "task": "other"})
_AGNO = "opentelemetry.instrumentation.agno"
_MODEL_CALLS = frozenset({"chat", "completion"})
# A model call without a request type has a first message or a first call.
_FIRST_MESSAGES = frozenset(
    {
        f"{_FLAT_PROMPTS}0.role",
        f"{_FLAT_PROMPTS}0.content",
        f"{_FLAT_COMPLETIONS}0.role",
        f"{_FLAT_COMPLETIONS}0.content",
        f"{_FLAT_COMPLETIONS}0.function_call.name",
        f"{_FLAT_COMPLETIONS}0.tool_calls.0.name",
    }
)
_TOOL_SPAN_SUFFIX = ".tool"
_MCP_INPUT = {"tool_name", "arguments"}
_MCP_RESULT = "result"
_WORKFLOW_SPAN_SUFFIX = ".workflow"


def _classify(span: Span) -> SpanKind | None:
    attributes = span.attributes
    operation = attributes.get(s.OPERATION_NAME)
    if operation is not None:
        # LangChain's agents run below a task of their name, which stands beside their own span.
        is_agent = operation == "execute_task" and attributes.get(_LANGCHAIN_AGENT) == _entity(span)
        return "agent" if is_agent else gen_ai.DIALECT.classify(span)
    kind = attributes.get(_KIND)
    if type(kind) is str:
        # LlamaIndex's workflows run a tool within a task.
        found = _KINDS[kind]
        return "tool" if found == "other" and s.OI_TOOL_NAME in attributes else found
    request = attributes.get(_LLM_REQUEST_TYPE)
    if (type(request) is str and request in _MODEL_CALLS) or not _FIRST_MESSAGES.isdisjoint(attributes):
        return "chat"
    return "other"


def _entity(span: Span) -> str:
    name = span.attributes.get(s.TRACELOOP_ENTITY_NAME)
    return name if isinstance(name, str) else ""


def _tool_name(span: Span) -> str:
    """From the entity, or from what it gave where the entity is the tool's class (LlamaIndex, LangChain for JS)."""
    name = _entity(span) or span.name
    short = name.removesuffix(_TOOL_SPAN_SUFFIX)
    output = decode(span.attributes.get(_OUTPUT)).value
    if not isinstance(output, dict):
        return short
    if output.get("type") == "constructor":  # a message, as LangChain dumps it
        message = output.get("kwargs")
        found = message.get("name") if isinstance(message, dict) else None
    else:
        found = output.get("tool_name") if short != name else None
    return found if isinstance(found, str) and found else short


def _agent_name(span: Span) -> str:
    workflow = span.attributes.get(_WORKFLOW_NAME)
    name = _entity(span) or (workflow if isinstance(workflow, str) else "")
    return name.removesuffix(_WORKFLOW_SPAN_SUFFIX) or gen_ai.DIALECT.agent_name(span)


def _read_output(span: Span, raw: JsonValue) -> Output:
    """The result; of that of an MCP tool, whose input names it, the first text is recorded, as a member."""
    decoded = decode(raw)
    value = decoded.value
    if isinstance(value, dict) and value.keys() == {_MCP_RESULT}:
        given = decode(span.attributes.get(s.TRACELOOP_INPUT)).value
        if isinstance(given, dict) and given.keys() == _MCP_INPUT:
            output = unwrap_result(span, decode(value[_MCP_RESULT]))
            output.is_part = True
            return output
    return unwrap_result(span, decoded)


def _arguments(span: Span) -> JsonValue:
    """Where Agno's instrumentation writes content, it writes the output of each call, and no input for no arguments."""
    attributes = span.attributes
    is_agnos = span.scope == _AGNO and _OUTPUT in attributes and not span.dropped_attributes_count
    return {} if is_agnos and s.TRACELOOP_INPUT not in attributes else None


def _outputs(span: Span) -> list[Message]:
    return read_flattened(span.attributes, _FLAT_COMPLETIONS, "assistant") or gen_ai.DIALECT.outputs(span)


def _inputs(span: Span) -> list[Message]:
    return read_flattened(span.attributes, _FLAT_PROMPTS) or gen_ai.DIALECT.inputs(span)


def _schemas(span: Span) -> dict[str, JsonValue]:
    functions = numbered(span.attributes, _LLM_REQUEST_FUNCTIONS)
    found = {
        name: declared(function.get("parameters"))
        for function in functions
        if isinstance(name := function.get("name"), str)
    }
    return found or gen_ai.DIALECT.schemas(span)


DIALECT: Dialect = gen_ai.VARIANT._replace(
    name="openllmetry",
    marks=frozenset({_KIND, _LLM_REQUEST_TYPE}) | _FIRST_MESSAGES,
    classify=_classify,
    keys=Keys(
        arguments=("tool.arguments", s.TRACELOOP_INPUT),
        output=(_OUTPUT,),
        agent=(_LANGCHAIN_AGENT,),
        session=under(_PROPERTIES, SESSION_WORDS),
        user=under(_PROPERTIES, USER_WORDS),
        prompt=(s.TRACELOOP_INPUT,),
        answer=(_OUTPUT,),
    ),
    holds=Holds(
        structure=(_KIND, _LLM_REQUEST_TYPE, s.TRACELOOP_ENTITY_NAME, _WORKFLOW_NAME, _LANGCHAIN_AGENT),
        messages=tuple(sorted(_FIRST_MESSAGES)),
    ),
    prefixes=(_FLAT_PROMPTS, _FLAT_COMPLETIONS, _LLM_REQUEST_FUNCTIONS),
    outputs=_outputs,
    inputs=_inputs,
    arguments=_arguments,
    read_output=_read_output,
    schemas=_schemas,
    schemas_in=(_LLM_REQUEST_FUNCTIONS, *gen_ai.DIALECT.schemas_in),
    tool_name=_tool_name,
    agent_name=_agent_name,
)
