"""LangSmith's exporter: `langsmith.span.kind`; what went in and out is JSON in `gen_ai.prompt`, `gen_ai.completion`.

Source: langsmith 0.14.17, _internal/otel/_otel_exporter.py.
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import Output, unwrap_output
from tracegrade.extract.decode.values import ABSENT, Decoded, call_id, decode, first_text
from tracegrade.extract.messages import messages_at, turn_at
from tracegrade.extract.reading import SESSION_WORDS, USER_WORDS, Dialect, Holds, Keys, SpanKind, Words, under
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import STATUS_ERROR, Span

_KIND = "langsmith.span.kind"
_NAME = "langsmith.trace.name"
_METADATA = "langsmith.metadata."

_OTHER_KINDS = ("embedding", "parser", "prompt", "retriever")
_KINDS = Words({"tool": "tool", "llm": "chat", "chain": "agent", **dict.fromkeys(_OTHER_KINDS, "other")})
_AI_CALL_ID = "toolCallId"
_AGENT_OF = _METADATA + s.LANGCHAIN_AGENT


def _classify(span: Span) -> SpanKind | None:
    word = span.attributes.get(_KIND)
    if type(word) is not str:
        return None
    kind = _KINDS[word]
    if kind == "agent":
        # There is no kind for agents: the outermost chain, and the one that LangChain names as the agent.
        name = _name(span)
        return kind if span.is_local_root or name == span.attributes.get(_AGENT_OF) else "other"
    return kind


def _name(span: Span) -> str:
    return first_text(span, (_NAME,)) or span.name


def _arguments(span: Span) -> JsonValue:
    """The inputs; LangChain's callbacks give a tool's as text, recorded as ``{"input": text}``, and none as null."""
    value = decode(span.attributes.get(s.PROMPT_CONTENT)).value
    if (called := _called_by_ai_sdk(value)) is not None:
        return called[0]
    if isinstance(value, dict) and value.keys() == {"input"}:
        if value["input"] is None:
            return {}
        if isinstance(decode(value["input"]).value, dict):
            return value["input"]
    return value


def _called_by_ai_sdk(value: JsonValue) -> tuple[JsonValue, str | None] | None:
    """The arguments and the call id of a tool that the AI SDK called, with options that hold the id; None elsewhere."""
    given = value.get("args") if isinstance(value, dict) and value.keys() == {"args"} else None
    if not isinstance(given, list) or len(given) != 2 or not isinstance(options := given[1], dict):
        return None
    return (given[0], call_id(options[_AI_CALL_ID])) if _AI_CALL_ID in options else None


def _call_id(span: Span) -> str:
    called = _called_by_ai_sdk(decode(span.attributes.get(s.PROMPT_CONTENT)).value)
    return (called[1] if called is not None else None) or ""


def _read_output(span: Span, raw: JsonValue) -> Output:
    """The result; one that is no object is recorded as ``{"output": result}``, and none as that or as ``{}``."""
    decoded = decode(raw)
    value = decoded.value
    if span.status_code == STATUS_ERROR and value in ({}, {"output": None}):
        return Output(ABSENT)
    if isinstance(value, dict) and len(value) == 1:
        for name in ("output", "outputs"):  # the latter in JavaScript
            if name in value:
                decoded = Decoded(value[name], decoded.status)
    return unwrap_output(decoded)


DIALECT: Dialect = Dialect(
    name="langsmith",
    marks=frozenset({_KIND}),
    classify=_classify,
    keys=Keys(
        tool_name=(s.TOOL_NAME, _NAME),
        output=(s.COMPLETION_CONTENT,),
        agent=(_AGENT_OF,),
        session=under(_METADATA, SESSION_WORDS),
        user=under(_METADATA, USER_WORDS),
        prompt=(s.PROMPT_CONTENT,),
        answer=(s.COMPLETION_CONTENT,),
    ),
    holds=Holds(structure=(_KIND,)),
    outputs=turn_at(s.COMPLETION_CONTENT),
    inputs=messages_at(s.PROMPT_CONTENT),
    read_output=_read_output,
    tool_name=_name,
    call_id=_call_id,
    arguments=_arguments,
    agent_name=_name,
)
