"""MLflow: `mlflow.spanType`, and every value as JSON, a text thus in quotes.

DSPy's and smolagents' spans are named after a class and its method: the tool's name is an attribute, or the class's.
What its integrations record in and out of a model call is the provider's request and response; LangChain's callbacks
put session and agent into an attribute ``metadata``.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.names import without_method
from tracegrade.extract.decode.unwrap import Output, read_schemas, unwrap_output
from tracegrade.extract.decode.values import Decoded, decode, first_text, text_among
from tracegrade.extract.messages import messages_at, turn_at
from tracegrade.extract.reading import Dialect, HandedOver, Holds, Keys, SpanKind, Words
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

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
    kind = first_text(span, (s.MLFLOW_TYPE,))
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
    return _KINDS[kind] if s.MLFLOW_TYPE in span.attributes else None


def _agent_in_metadata(span: Span) -> str:
    return text_among(span.attributes.get(s.MLFLOW_LANGCHAIN_METADATA), _AGENT)


def _tool_name(span: Span) -> str:
    """From the span's name, "" where that is the class of all functions that smolagents made tools."""
    name = first_text(span, (s.MLFLOW_NAME,)) or without_method(span.name)
    if name == s.SMOLAGENTS_FINAL_ANSWER_CLASS:
        return s.SMOLAGENTS_FINAL_ANSWER
    return "" if name == s.SMOLAGENTS_FUNCTION_CLASS else name


def _agent_name(span: Span) -> str:
    return _agent_in_metadata(span) or first_text(span, (s.MLFLOW_NAME,)) or span.name


def _read_output(span: Span, raw: JsonValue) -> Output:
    """The result; smolagents' texts are recorded as ``{"_value": text}``."""
    decoded = decode(raw)
    value = decoded.value
    if isinstance(value, dict) and value.keys() == {_VALUE}:
        decoded = Decoded(value[_VALUE], decoded.status)
    return unwrap_output(decoded)


def _schemas(span: Span) -> dict[str, JsonValue]:
    return read_schemas(span.attributes.get(s.MLFLOW_TOOLS))


def _handed_over(span: Span) -> HandedOver | None:
    if span.name != _HANDOFF or _classify(span) != "handoff":
        return None
    inputs, outputs = (span.attributes.get(key) for key in (s.MLFLOW_INPUTS, s.MLFLOW_OUTPUTS))
    return HandedOver(text_among(inputs, ("from_agent",)), text_among(outputs, ("to_agent",)))


DIALECT: Dialect = Dialect(
    name="mlflow",
    marks=frozenset({s.MLFLOW_TYPE, s.MLFLOW_LANGCHAIN_METADATA}),
    classify=_classify,
    keys=Keys(
        tool_name=(s.MLFLOW_FUNCTION,),
        call_id=(s.MLFLOW_LANGCHAIN_CALL_ID,),
        arguments=(s.MLFLOW_INPUTS,),
        output=(s.MLFLOW_OUTPUTS,),
        session=(s.MLFLOW_SESSION,),
        user=(s.MLFLOW_USER,),
        model=(s.MLFLOW_MODEL,),
        prompt=(s.MLFLOW_INPUTS,),
        answer=(s.MLFLOW_OUTPUTS,),
    ),
    holds=Holds(structure=(s.MLFLOW_TYPE, s.MLFLOW_NAME), definitions=(s.MLFLOW_TOOLS,)),
    outputs=turn_at(s.MLFLOW_OUTPUTS),
    inputs=messages_at(s.MLFLOW_INPUTS),
    schemas=_schemas,
    schemas_in=(s.MLFLOW_TOOLS,),
    handed_over=_handed_over,
    read_output=_read_output,
    tool_name=_tool_name,
    agent_name=_agent_name,
    metadata=(s.MLFLOW_LANGCHAIN_METADATA,),
    agent_metadata=(s.MLFLOW_LANGCHAIN_METADATA,),
)
