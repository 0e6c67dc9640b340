"""What dialects read from spans: raw values and their keys, before anything is decoded or paired."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import Output, unwrap_output
from tracegrade.extract.decode.values import Decoded, decode, first_text, text_among
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolError

# What a span is. `handoff` passes control to another agent and is no call. `other`: claimed by the dialect, and none
# of these. `mcp_list`-like spans that look like tool calls but are none are `other` too. `outcome`: a part of the tool
# span above it, which says how that call ended. `unknown`: written in the dialect, under a word that it does not have;
# the span's content then says what it is (`span_kind`).
SpanKind: TypeAlias = Literal["tool", "chat", "agent", "handoff", "outcome", "other", "unknown"]


class Words(dict[str, SpanKind]):
    """The words that a dialect has for kinds of span, in any case and with any separators; "unknown" for all others.

    A word that the dialect has for something else is "other": its spans are then never read as calls.
    """

    def __init__(self, words: Mapping[str, SpanKind]) -> None:
        super().__init__(words)
        self._spelled = {_bare(word): kind for word, kind in words.items()}

    def __missing__(self, word: str) -> SpanKind:
        return self._spelled.get(_bare(word), "unknown")


_LONGEST_WORD = 64


def _bare(word: str) -> str:
    return "".join(filter(str.isalnum, word[:_LONGEST_WORD])).lower()


class RequestedCall(NamedTuple):
    """A tool call that an assistant message asks for; ``path`` is "message/part" within the turn's output."""

    name: str
    call_id: str | None
    arguments: JsonValue
    path: str


class ShownResult(NamedTuple):
    """A tool's result in a message to the model; ``failed``: the message says that the call failed.

    ``name`` is the tool's where the message says it, else "".
    """

    call_id: str | None
    output: JsonValue
    failed: bool = False
    name: str = ""


@dataclass(slots=True)
class Message:
    """One chat message: its role, its text ("" when it has none), the calls it requests and the results it holds.

    ``media``: its images and other files, each by type and size.
    """

    role: str
    text: str = ""
    calls: tuple[RequestedCall, ...] = ()
    results: tuple[ShownResult, ...] = ()
    media: tuple[str, ...] = ()


class Keys(NamedTuple):
    """Attribute keys of one dialect by what they hold, each in order of preference."""

    tool_name: tuple[str, ...] = ()
    call_id: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    schema: tuple[str, ...] = ()  # a tool's own JSON Schema, on its span
    agent: tuple[str, ...] = ()
    session: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    prompt: tuple[str, ...] = ()  # on an agent span: what was asked, as text
    answer: tuple[str, ...] = ()  # on an agent span: what was answered, as text
    failed: tuple[str, ...] = ()  # on a tool span: true, or a word for failure, where the call failed
    error_message: tuple[str, ...] = ()


def join_keys(keys: Iterable[Keys]) -> Keys:
    """Join several `Keys`, field by field, each key once; earlier ones are preferred."""
    return Keys(*(tuple(dict.fromkeys(key for part in parts for key in part)) for parts in zip(*keys, strict=True)))


def keys_among(keys: Keys, names: Collection[str]) -> Keys:
    """Those of `keys` that are among `names`."""
    return Keys(*(tuple(key for key in part if key in names) for part in keys))


class Holds(NamedTuple):
    """Attributes beside a dialect's `Keys` that it knows spans by or that its functions read, by what they hold.

    Redaction and the page go by this and by the keys: what is declared nowhere is content, which an allow list removes
    and which nobody sees without the right to read values.
    """

    structure: tuple[str, ...] = ()  # kinds of spans, ids and names: what traces are put together from
    definitions: tuple[str, ...] = ()  # the tools that a model may call
    arguments: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class HandedOver(NamedTuple):
    """The agents of a handoff, as its span names them; "" where it does not."""

    from_agent: str
    to_agent: str


class ToolEvents(NamedTuple):
    """What the events of a tool span say."""

    arguments: JsonValue = None
    output: JsonValue = None


_LANGCHAIN_AGENT = re.compile(rf'"{s.LANGCHAIN_AGENT}": ?"([^"\\]+)"')
_GRAPH_NODE = re.compile(rf'"{s.GRAPH_NODE}": ?"([^"\\]+)"')


def _no_messages(span: Span) -> list[Message]:
    return []


def _no_tool_events(span: Span) -> ToolEvents:
    return ToolEvents()


def _nothing(span: Span) -> JsonValue:
    return None


def no_schemas(span: Span) -> dict[str, JsonValue]:
    """The tool definitions of spans that hold none."""
    return {}


# Of Google's model client and ADK as others instrument them: results are what Gemini's functions respond.
_FUNCTION_RESPONSES = frozenset(
    {
        "openinference.instrumentation.google_genai",
        "openinference.instrumentation.google_adk",
        "openinference.instrumentation.vertexai",
        "opentelemetry.instrumentation.google_genai",
        "opentelemetry.instrumentation.google_generativeai",
        "opentelemetry.instrumentation.vertexai",
        "openlit.instrumentation.google_ai_studio",
    }
)


def unwrap_result(span: Span, decoded: Decoded) -> Output:
    """The result in a decoded value, where a dialect does not say otherwise."""
    return unwrap_output(decoded, function_response=span.scope in _FUNCTION_RESPONSES)


def _read_result(span: Span, raw: JsonValue) -> Output:
    return unwrap_output(decode(raw), function_response=span.scope in _FUNCTION_RESPONSES)


def _no_handoff(span: Span) -> HandedOver | None:
    return None


def _no_failure(span: Span) -> ToolError | None:
    return None


def _never(span: Span) -> bool:
    return False


def span_name(span: Span) -> str:
    """For dialects whose spans are named after what they are of."""
    return span.name


def no_name(span: Span) -> str:
    """For dialects that read a name of keys alone."""
    return ""


class Dialect(NamedTuple):
    """One way in which instrumentations write agent runs, model calls and tool calls.

    A span without any of the attributes in ``marks`` is not written in this dialect; one without marks goes by names.

    Installed packages add theirs by the entry-point group ``tracegrade.dialects``; docs/extend/dialect.md shows one.

    All functions are total: whatever a span holds, they return. ``classify`` answers None for a span that is not
    written in this dialect. ``outputs`` and ``inputs`` are the messages of a chat or agent span. ``schemas`` are the
    tool definitions that a chat span was given: tool name to its JSON Schema. ``schemas_in`` are the attribute keys, or
    beginnings of such, of which a span without events has one where ``schemas`` finds something; empty: any span may.
    """

    name: str
    marks: frozenset[str]
    classify: Callable[[Span], SpanKind | None]
    keys: Keys
    reads_names: bool = False  # it also knows spans by their names, whatever attributes they have
    holds: Holds = Holds()  # further attributes that the functions read
    prefixes: tuple[str, ...] = ()
    events: frozenset[str] = frozenset()
    # Spans with names that begin so, and log events of these scopes and names, are known whole: shape looks at neither.
    own_names: tuple[str, ...] = ()
    passed_over: frozenset[tuple[str, str]] = frozenset()
    outputs: Callable[[Span], list[Message]] = _no_messages
    inputs: Callable[[Span], list[Message]] = _no_messages
    tool_events: Callable[[Span], ToolEvents] = _no_tool_events
    read_output: Callable[[Span, JsonValue], Output] = _read_result  # the result in a raw value
    schemas: Callable[[Span], dict[str, JsonValue]] = no_schemas
    schemas_in: tuple[str, ...] = ()
    handed_over: Callable[[Span], HandedOver | None] = _no_handoff  # None: the span is no handoff
    failure: Callable[[Span], ToolError | None] = _no_failure  # what an outcome says, or a tool span
    is_hidden: Callable[[Span], bool] = _never  # whether a tool span's values stand in for what is left out
    is_refused: Callable[[Span], bool] = _never  # whether its arguments were not valid, so that the tool never ran
    tool_name: Callable[[Span], str] = no_name  # these: where no key (and no event) holds it
    call_id: Callable[[Span], str] = no_name
    arguments: Callable[[Span], JsonValue] = _nothing
    output: Callable[[Span], JsonValue] = _nothing
    agent_name: Callable[[Span], str] = no_name
    answer: Callable[[Span], str] = no_name  # of an agent span, where it is known without reading messages
    model: Callable[[Span], str] = no_name  # of a chat span
    session: Callable[[Span], str] = no_name
    user: Callable[[Span], str] = no_name
    metadata: tuple[str, ...] = ()  # attributes with a JSON object in which applications pass a session and a user
    agent_metadata: tuple[str, ...] = ()  # and those in which LangChain passes the agent's name

    def session_of(self, span: Span) -> str:
        """The session that a span of this dialect names elsewhere than under its keys, "" when it names none."""
        return self.session(span) or (_text_in(span, self.metadata, SESSION_WORDS) if self.metadata else "")

    @property
    def reads_sessions(self) -> bool:
        """Whether it reads sessions elsewhere than under keys of them."""
        return bool(self.metadata) or self.session is not no_name

    @property
    def reads_users(self) -> bool:
        """The same of users."""
        return bool(self.metadata) or self.user is not no_name

    def agent_of(self, span: Span, keys: Keys) -> str:
        """The agent that a span names in LangChain's metadata, else under `keys`; "" when it names none."""
        if not self.agent_metadata and len(keys.agent) < 2:  # nearly always
            return first_text(span, keys.agent) if keys.agent else ""
        return self.langchain_agent(span, keys) or (first_text(span, keys.agent) if keys.agent else "")

    def langchain_agent(self, span: Span, keys: Keys) -> str:
        """The agent in whose run a span is by LangChain's metadata, in an object or flat; "" when these name none."""
        for key in self.agent_metadata:
            if found := langchain_agent_in(span.attributes.get(key)):
                return found
        for key in keys.agent:
            if key.endswith(s.LANGCHAIN_AGENT):
                return first_text(span, (key,))
        return ""

    def graph_node(self, span: Span) -> str:
        """The node of a graph of LangGraph's in which a span ran, by LangChain's metadata; "" when these name none."""
        if place := first_text(span, (s.LANGGRAPH_NODE,)):
            return place
        texts = [raw for key in self.agent_metadata if isinstance(raw := span.attributes.get(key), str)]
        return next((found[1] for text in texts if (found := _GRAPH_NODE.search(text))), "")

    def user_of(self, span: Span) -> str:
        """The same of its user."""
        return self.user(span) or (_text_in(span, self.metadata, USER_WORDS) if self.metadata else "")


def langchain_agent_in(metadata: JsonValue) -> str:
    """The agent that LangChain's metadata name, which are JSON text; "" when they name none."""
    # On every span: the name is looked for first, as searching for the pattern costs ten times as much, and reading all
    # of the metadata a hundred times.
    if isinstance(metadata, str) and s.LANGCHAIN_AGENT in metadata and (found := _LANGCHAIN_AGENT.search(metadata)):
        return found[1]
    return ""


def _text_in(span: Span, metadata: tuple[str, ...], words: tuple[str, ...]) -> str:
    for key in metadata:
        raw = span.attributes.get(key)
        if raw is None or (isinstance(raw, str) and "\\" not in raw and not any([word in raw for word in words])):
            continue
        if text := text_among(raw, words):
            return text
    return ""


# Words by which applications pass a session and a user in metadata of their own.
SESSION_WORDS = ("session_id", "sessionId", "conversation_id", "conversationId", "thread_id", "threadId")
USER_WORDS = ("user_id", "userId")


def under(prefix: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """Attribute keys of metadata that is written flat below a prefix."""
    return tuple(prefix + word for word in words)
