"""The dialects, and the way from a trace to its calls through them."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tracegrade import semconv as s
from tracegrade.extract.asks import find_asks
from tracegrade.extract.calls import build_calls
from tracegrade.extract.custom import custom_dialects
from tracegrade.extract.dialects import (
    agentops,
    agno_openllmetry,
    anthropic,
    claude_code,
    crewai,
    crewai_openllmetry,
    flue,
    gemini_cli,
    gen_ai,
    genkit,
    google_adk,
    google_genai,
    haystack,
    laminar,
    langchain4j,
    langfuse,
    langsmith,
    langwatch,
    livekit,
    llama_index,
    mastra,
    mlflow,
    openinference,
    openinference_haystack,
    openlit,
    openllmetry,
    pydantic_ai,
    spring_ai,
    tool_name,
    vercel_ai,
    voltagent,
)
from tracegrade.extract.folding import fold, without_server_side
from tracegrade.extract.joining import join
from tracegrade.extract.nodes import Node, enclose
from tracegrade.extract.pairing import pair
from tracegrade.extract.reading import Dialect, Keys, SpanKind, join_keys, keys_among
from tracegrade.extract.runs import describe_runs, find_runs, root_of
from tracegrade.extract.tool_spans import drop_carried_errors, read_execution, read_outcomes
from tracegrade.extract.turns import Turns
from tracegrade.extract.unread import UNREAD_KEYS, looks_like_gen_ai
from tracegrade.extract.values import first_text
from tracegrade.model.extraction import Extraction
from tracegrade.model.span import Span
from tracegrade.model.trace import SPAN_ORDER, Trace

# In order of preference where they disagree on what a span is.
DIALECTS: dict[str, Dialect] = {
    module.DIALECT.name: module.DIALECT
    for module in (
        langfuse,
        google_genai,
        openinference_haystack,
        openinference,
        crewai_openllmetry,
        crewai,  # from here to mlflow: all may write GenAI's operation name as well
        spring_ai,
        livekit,
        voltagent,
        claude_code,
        anthropic,
        langsmith,
        mastra,
        gemini_cli,
        pydantic_ai,
        google_adk,
        flue,
        openlit,
        agno_openllmetry,
        openllmetry,
        mlflow,
        gen_ai,
        vercel_ai,
        haystack,
        genkit,
        laminar,
        langwatch,
        agentops,
        llama_index,
        tool_name,
        langchain4j,
    )
}

# Those of installed packages come before ours, as whoever installs one wants it asked.
CUSTOM = custom_dialects(DIALECTS)
_OURS = tuple(DIALECTS.values())
DIALECTS = {**{plugin.name: plugin.member for plugin in CUSTOM}, **DIALECTS}

# What all dialects share, in order of preference: each reads its own keys first and then these.
CONVENTIONS = join_keys((gen_ai.DIALECT.keys, openinference.DIALECT.keys))
# Where the trace as a whole is asked for its session or user. An MCP session is a connection rather than a
# conversation: better than nothing.
_ALL_KEYS = join_keys((CONVENTIONS, *(dialect.keys for dialect in DIALECTS.values())))
SESSION_KEYS = (*_ALL_KEYS.session, s.MCP_SESSION_ID)
USER_KEYS = _ALL_KEYS.user

# What assembly keeps of a span.
READ_ATTRIBUTES: frozenset[str] = frozenset(
    {
        *(key for keys in _ALL_KEYS for key in keys),
        *(key for dialect in DIALECTS.values() for key in dialect.marks | dialect.attributes),
        s.ERROR_TYPE,
        s.JSONRPC_REQUEST_ID,
        s.MCP_METHOD,
        s.MCP_SESSION_ID,
        s.FASTMCP_ORIGINAL_NAME,
    }
)
READ_PREFIXES: tuple[str, ...] = tuple(sorted({prefix for d in DIALECTS.values() for prefix in d.prefixes}))
READ_EVENTS: frozenset[str] = frozenset({s.EXCEPTION_EVENT, *(e for d in DIALECTS.values() for e in d.events)})

MARKS: frozenset[str] = frozenset().union(*(dialect.marks for dialect in DIALECTS.values()))

# Senders repeat few sets of attribute keys; one that invents them without end must not grow the memo for ever.
_MAX_LEARNT_SETS = 4096
_MAX_LEARNT_CHARS = 4096
# Sets with more keys than this are of flattened messages, and do not repeat.
_MAX_LEARNT_KEYS = 64
_FORM_KEYS = MARKS.union(*_ALL_KEYS, SESSION_KEYS)


class _Form(NamedTuple):
    """What spans with one set of attribute keys may be: the dialects to ask, each with those of its keys they have.

    ``shared`` are those of `CONVENTIONS`, for a span that no dialect takes; ``session`` and ``user`` those of any.
    """

    readers: tuple[tuple[Dialect, Keys], ...]
    shared: Keys
    session: tuple[str, ...]
    user: tuple[str, ...]


class _Forms(dict[tuple[str, ...], _Form]):
    """Forms by attribute keys, learnt as they come, so that a further dialect costs nothing for the spans of others.

    Those that go by a span's name are asked about spans that have no other's marks.
    """

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        self._keys = {dialect: join_keys((dialect.keys, CONVENTIONS)) for dialect in dialects}
        self._by_name = tuple(d for d in self._keys if d.reads_names or not d.marks)

    def __missing__(self, names: tuple[str, ...]) -> _Form:
        if len(names) > _MAX_LEARNT_KEYS and not _FORM_KEYS.issuperset(names):
            return self[tuple(sorted(_FORM_KEYS.intersection(names)))]
        dialects = tuple(d for d in self._keys if not d.marks.isdisjoint(names)) or self._by_name
        found = _Form(
            tuple((dialect, keys_among(self._keys[dialect], names)) for dialect in dialects),
            keys_among(CONVENTIONS, names),
            tuple(key for key in SESSION_KEYS if key in names),
            tuple(key for key in _ALL_KEYS.user if key in names),
        )
        if len(self) >= _MAX_LEARNT_SETS:
            self.clear()
        if sum(map(len, names)) <= _MAX_LEARNT_CHARS:
            self[names] = found
        return found


_FORMS = _Forms(DIALECTS.values())
_OURS_FORMS = _Forms(_OURS)


def extract(trace: Trace, tool_name: Callable[[str], str] | None = None) -> Extraction:
    """The agent runs and tool calls of a trace.

    Pure and total: the same spans in any order give the same extraction, and nothing in them raises.

    Args:
        trace: a closed trace.
        tool_name: gives the name that rules use for a tool that comes under several; calls keep theirs as raw name.
    """
    try:
        return _extract(trace, tool_name, _FORMS)
    except Exception as error:
        if not CUSTOM:
            raise
        # A mistake in an installed dialect must not take the trace along: it is read without them, and says so.
        extraction = _extract(trace, tool_name, _OURS_FORMS)
        extraction.dialect_error = _place_of(error)
        return extraction


def _extract(trace: Trace, tool_name: Callable[[str], str] | None, forms: _Forms) -> Extraction:
    spans = trace.spans
    if not spans:
        return Extraction(trace, [], [])
    if trace.log_records:
        spans = join(spans, trace.log_records)
    nodes, unread, seen = _scan(spans, forms)
    top_down = enclose(nodes, spans)
    find_runs(top_down)
    executions = []
    for node in nodes:
        if node.kind == "tool":
            execution = read_execution(node)
            if execution is None:
                unread.append(node.span)
            else:
                executions.append(execution)
    drop_carried_errors(executions)
    read_outcomes(executions, nodes)
    turns = Turns(nodes)
    asks = find_asks(nodes, turns, {execution.node.run for execution in executions})
    kept = fold(without_server_side(executions, nodes, top_down), asks, nodes, spans)
    paired = pair(kept, asks, nodes, turns)
    stray = any(call.node.run is None for call in paired)
    session_keys = _among(SESSION_KEYS, {key for form in seen for key in form.session})
    user_keys = _among(_ALL_KEYS.user, {key for form in seen for key in form.user})
    runs = describe_runs(spans, nodes, session_keys, user_keys, lambda span: _keys_of(span, forms), stray)
    calls = build_calls(paired, runs, top_down, tool_name)
    for node in nodes:
        if node.run is node:
            node.run = None  # else a cycle would keep all nodes until the next garbage collection
    return Extraction(
        trace=trace,
        runs=runs,
        calls=calls,
        session=next((run.session for run in runs if run.session), None),
        release=_release(spans),
        silent_scopes=[] if calls else _silent_scopes(spans, nodes),
        unread_tool_spans=[span.span_id.hex() for span in sorted(unread, key=SPAN_ORDER)] if unread else [],
    )


def _among(keys: tuple[str, ...], found: set[str]) -> tuple[str, ...]:
    """Those of `keys` that were found, in their order; one is the usual case."""
    return tuple(found) if len(found) < 2 else tuple(key for key in keys if key in found)


def _silent_scopes(spans: Sequence[Span], nodes: Sequence[Node]) -> list[str]:
    """The scopes of models and agents in a trace without calls: by what their spans are, or by their name."""
    found = {node.span.scope for node in nodes if node.kind in ("chat", "agent")}
    return sorted(found.union(filter(looks_like_gen_ai, {span.scope for span in spans})))


def _place_of(error: Exception) -> str:
    """What was raised, and in which line of whose code."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = f" ({at.tb_frame.f_code.co_filename}:{at.tb_lineno})" if at is not None else ""
    return f"{type(error).__name__}: {error}{place}"


def claim(span: Span) -> tuple[Dialect, SpanKind] | None:
    """The dialect that a span is written in, and what it is; None when no dialect reads it."""
    claimed = _claim_with_all(span)
    return claimed[:2] if claimed is not None else None


def agent_named_by(span: Span) -> str:
    """The agent that a span names, "" when it names none."""
    claimed = _claim_with_all(span)
    if claimed is None:
        return first_text(span, CONVENTIONS.agent)
    dialect, kind, keys = claimed
    return first_text(span, keys.agent) or (dialect.agent_name(span) if kind == "agent" else "")


def _claim_with_all(span: Span) -> tuple[Dialect, SpanKind, Keys] | None:
    try:
        return _claim(span, _FORMS)
    except Exception:
        if not CUSTOM:
            raise
        return _claim(span, _OURS_FORMS)


def _claim(span: Span, forms: _Forms) -> tuple[Dialect, SpanKind, Keys] | None:
    for dialect, keys in forms[tuple(span.attributes)].readers:
        if (kind := dialect.classify(span)) is not None:
            return dialect, kind, keys
    return None


def _keys_of(span: Span, forms: _Forms) -> Keys:
    """Those keys of a span that its dialect reads; the shared ones where none takes it."""
    claimed = _claim(span, forms)
    return claimed[2] if claimed is not None else forms[tuple(span.attributes)].shared


def _scan(spans: Iterable[Span], forms: _Forms) -> tuple[list[Node], list[Span], list[_Form]]:
    """The spans that some dialect takes for part of an agent's work, those that look so and that none takes, and forms.

    The forms are those of all spans, each once.
    """
    nodes = []
    unread = []
    seen: dict[int, _Form] = {}
    for span in spans:
        form = forms[tuple(span.attributes)]
        seen[id(form)] = form
        for dialect, keys in form.readers:
            kind = dialect.classify(span)
            if kind is not None:
                if kind != "other":
                    nodes.append(Node(span, kind, dialect, keys))
                break
        else:
            if UNREAD_KEYS in span.attributes:
                unread.append(span)
    return nodes, unread, list(seen.values())


def _release(spans: Sequence[Span]) -> str | None:
    version = root_of(spans).resource.attributes.get(s.SERVICE_VERSION)
    return version if isinstance(version, str) and version else None
