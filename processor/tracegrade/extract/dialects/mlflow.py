"""MLflow: `mlflow.spanType`, and every value as JSON, a text thus in quotes.

DSPy's and smolagents' spans are named after a class and its method: the tool's name is an attribute, or the class's.
What its integrations record in and out of a model call is the provider's request and response; LangChain's callbacks
put session and agent into an attribute ``metadata``. Source: mlflow 3.18.0, tracing/constant.py.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.names import without_method
from tracegrade.extract.decode.unwrap import Output, read_schemas, unwrap_output
from tracegrade.extract.decode.values import Decoded, decode, first_text, text_among
from tracegrade.extract.messages import messages_at, turn_at
from tracegrade.extract.reading import Dialect, HandedOver, Holds, Keys, SpanKind, Words
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_TYPE = "mlflow.spanType"
_INPUTS = "mlflow.spanInputs"
_OUTPUTS = "mlflow.spanOutputs"
_TOOLS = "mlflow.chat.tools"
_LANGCHAIN_METADATA = "metadata"
_NAME = "name"

_OTHER_TYPES = ("EMBEDDING", "EVALUATOR", "GUARDRAIL", "MEMORY", "PARSER", "RERANKER", "RETRIEVER", "TASK")
_KINDS = Words(
    {"TOOL": "tool", "CHAT_MODEL": "chat", "LLM": "chat", "AGENT": "agent", **dict.fromkeys(_OTHER_TYPES, "other")}
)
# A decorated function has no type unless it is given one.
_MAY_BE_AGENTS = frozenset({"CHAIN", "UNKNOWN", "WORKFLOW"})
_HANDOFF = "Handoff"  # of the OpenAI Agents SDK
_SCOPE = "mlflow.tracing.provider"
_AGENT = ("lc_agent_name",)
_VALUE = "_value"


def _classify(span: Span) -> SpanKind | None:
    kind = first_text(span, (_TYPE,))
    if not kind and span.scope == _SCOPE:
        # MLflow may export GenAI's conventions instead; LangChain's agents are still chains, by their operation.
        kind = first_text(span, (s.OPERATION_NAME,))
        if kind not in _MAY_BE_AGENTS:
            return None
    if kind in _MAY_BE_AGENTS:
        # LangChain's agents are chains: the outermost one, and the one that bears the agent's name.
        if span.is_local_root or span.name == _agent_in_metadata(span):
            return "agent"
        return "handoff" if span.name == _HANDOFF else "other"
    return _KINDS[kind] if _TYPE in span.attributes else None


def _agent_in_metadata(span: Span) -> str:
    return text_among(span.attributes.get(_LANGCHAIN_METADATA), _AGENT)


def _tool_name(span: Span) -> str:
    """From the span's name, "" where that is the class of all functions that smolagents made tools."""
    name = first_text(span, (_NAME,)) or without_method(span.name)
    if name == "FinalAnswerTool":
        return s.SMOLAGENTS_FINAL_ANSWER
    return "" if name == "SimpleTool" else name


def _agent_name(span: Span) -> str:
    return _agent_in_metadata(span) or first_text(span, (_NAME,)) or span.name


def _read_output(span: Span, raw: JsonValue) -> Output:
    """The result; smolagents' texts are recorded as ``{"_value": text}``."""
    decoded = decode(raw)
    value = decoded.value
    if isinstance(value, dict) and value.keys() == {_VALUE}:
        decoded = Decoded(value[_VALUE], decoded.status)
    return unwrap_output(decoded)


def _schemas(span: Span) -> dict[str, JsonValue]:
    return read_schemas(span.attributes.get(_TOOLS))


def _handed_over(span: Span) -> HandedOver | None:
    if span.name != _HANDOFF or _classify(span) != "handoff":
        return None
    inputs, outputs = (span.attributes.get(key) for key in (_INPUTS, _OUTPUTS))
    return HandedOver(text_among(inputs, ("from_agent",)), text_among(outputs, ("to_agent",)))


DIALECT: Dialect = Dialect(
    name="mlflow",
    marks=frozenset({_TYPE, _LANGCHAIN_METADATA}),
    classify=_classify,
    keys=Keys(
        tool_name=("mlflow.spanFunctionName",),
        call_id=("tool_call_id",),
        arguments=(_INPUTS,),
        output=(_OUTPUTS,),
        session=("mlflow.trace.session",),
        user=("mlflow.trace.user",),
        model=("mlflow.llm.model",),
        prompt=(_INPUTS,),
        answer=(_OUTPUTS,),
    ),
    holds=Holds(structure=(_TYPE, _NAME), definitions=(_TOOLS,)),
    outputs=turn_at(_OUTPUTS),
    inputs=messages_at(_INPUTS),
    schemas=_schemas,
    schemas_in=(_TOOLS,),
    handed_over=_handed_over,
    read_output=_read_output,
    tool_name=_tool_name,
    agent_name=_agent_name,
    metadata=(_LANGCHAIN_METADATA,),
    agent_metadata=(_LANGCHAIN_METADATA,),
)
