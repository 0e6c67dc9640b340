"""LangSmith's exporter: `langsmith.span.kind`; what went in and out is JSON in `gen_ai.prompt`, `gen_ai.completion`."""

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import Output, unwrap_output
from tracegrade.extract.decode.values import ABSENT, Decoded, decode, first_text
from tracegrade.extract.messages import read_messages, since_last_user
from tracegrade.extract.reading import SESSION_WORDS, USER_WORDS, Dialect, Keys, Message, SpanKind, Words, under
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import STATUS_ERROR, Span

_OTHER_KINDS = ("embedding", "parser", "prompt", "retriever")
_KINDS = Words({"tool": "tool", "llm": "chat", "chain": "agent", **dict.fromkeys(_OTHER_KINDS, "other")})
_AGENT_OF = s.LANGSMITH_METADATA + "lc_agent_name"


def _classify(span: Span) -> SpanKind | None:
    word = span.attributes.get(s.LANGSMITH_KIND)
    if type(word) is not str:
        return None
    kind = _KINDS[word]
    if kind == "agent":
        # There is no kind for agents: the outermost chain, and the one that LangChain names as the agent.
        name = _name(span)
        return kind if span.is_local_root or name == span.attributes.get(_AGENT_OF) else "other"
    return kind


def _name(span: Span) -> str:
    return first_text(span, (s.LANGSMITH_NAME,)) or span.name


def _outputs(span: Span) -> list[Message]:
    return since_last_user(read_messages(span.attributes.get(s.COMPLETION_CONTENT)))


def _inputs(span: Span) -> list[Message]:
    return read_messages(span.attributes.get(s.PROMPT_CONTENT))


def _arguments(span: Span) -> JsonValue:
    """The inputs; LangChain's callbacks give a tool's as text, recorded as ``{"input": text}``."""
    value = decode(span.attributes.get(s.PROMPT_CONTENT)).value
    if isinstance(value, dict) and value.keys() == {"input"} and isinstance(decode(value["input"]).value, dict):
        return value["input"]
    return value


def _read_output(span: Span, raw: JsonValue) -> Output:
    """The result; one that is no object is recorded as ``{"output": result}``, and none as that or as ``{}``."""
    decoded = decode(raw)
    value = decoded.value
    if span.status_code == STATUS_ERROR and value in ({}, {"output": None}):
        return Output(ABSENT)
    if isinstance(value, dict) and value.keys() == {"output"}:
        decoded = Decoded(value["output"], decoded.status)
    return unwrap_output(decoded)


DIALECT: Dialect = Dialect(
    name="langsmith",
    marks=frozenset({s.LANGSMITH_KIND}),
    classify=_classify,
    keys=Keys(
        tool_name=(s.TOOL_NAME, s.LANGSMITH_NAME),
        output=(s.COMPLETION_CONTENT,),
        session=under(s.LANGSMITH_METADATA, SESSION_WORDS),
        user=under(s.LANGSMITH_METADATA, USER_WORDS),
        prompt=(s.PROMPT_CONTENT,),
        answer=(s.COMPLETION_CONTENT,),
    ),
    attributes=frozenset({_AGENT_OF}),
    outputs=_outputs,
    inputs=_inputs,
    read_output=_read_output,
    tool_name=_name,
    arguments=_arguments,
    agent_name=_name,
)
