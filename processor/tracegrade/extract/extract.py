"""From a trace to its agent runs and tool calls, through the dialects in force."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

from tracegrade import semconv as s
from tracegrade.extract.decode.values import first_text
from tracegrade.extract.dialect_set import CONVENTIONS, DialectSet, Form
from tracegrade.extract.folding import fold, without_requests, without_server_side
from tracegrade.extract.joining import join
from tracegrade.extract.key_sets import ByKeys
from tracegrade.extract.messages import ASSISTANT_ROLES
from tracegrade.extract.nodes import Node, by_kind, enclose
from tracegrade.extract.pairing import PairedCall, named_by_requests, pair
from tracegrade.extract.reading import Dialect, Keys, SpanKind
from tracegrade.extract.registry import OURS, in_force, read_safely
from tracegrade.extract.runs import describe_runs, find_runs, prepares, root_of
from tracegrade.extract.shape.dialect import SHAPE
from tracegrade.extract.shape.filling import fill
from tracegrade.extract.shape.keys import function_key
from tracegrade.extract.shape.messages import WholeNode
from tracegrade.extract.shape.names import may_be_class, sentence_name
from tracegrade.extract.shape.reader import read_by_shape
from tracegrade.extract.subagents import agents_within_tools
from tracegrade.extract.tool_calls import build_calls
from tracegrade.extract.tool_requests import find_tool_requests, restore_overwritten
from tracegrade.extract.tool_spans import drop_carried_errors, read_execution, read_outcomes
from tracegrade.extract.turns import Turns
from tracegrade.extract.unread import looks_like_a_tool, looks_like_gen_ai, unread_work, without_steps_of_calls
from tracegrade.extract.withheld import say_stored_elsewhere
from tracegrade.model.extraction import Extraction
from tracegrade.model.span import Span
from tracegrade.model.trace import SPAN_ORDER, Trace

_REDACTED = attrgetter("redacted")
_REFERS = attrgetter("refers")


def extract(trace: Trace, tool_name: Callable[[str], str] | None = None) -> Extraction:
    """The agent runs and tool calls of a trace.

    Pure and total: the same spans in any order give the same extraction, and nothing in them raises.

    Args:
        trace: a closed trace.
        tool_name: gives the name that rules use for a tool that comes under several; calls keep theirs as raw name.
    """
    try:
        return _extract(trace, tool_name, in_force())
    except Exception as error:
        if in_force() is OURS:
            raise
        # A mistake in an installed dialect must not take the trace along: it is read without them, and says so.
        extraction = _extract(trace, tool_name, OURS)
        extraction.dialect_error = _place_of(error)
        return extraction


def _extract(trace: Trace, tool_name: Callable[[str], str] | None, dialects: DialectSet) -> Extraction:
    spans = trace.spans
    if not spans:
        return Extraction(trace, [], [])
    if trace.log_records:
        spans = join(spans, trace.log_records, dialects.events)
    nodes, by_content, unread, seen, left, functions = _scan(spans, dialects.forms)
    nameless: list[Span] = []
    models: list[tuple[Span, bool]] = []
    unasked: list[Span] = []
    if left or functions:
        shaped = read_by_shape(spans, nodes, left, functions)
        if shaped.nodes:
            nodes = sorted([*nodes, *shaped.nodes], key=lambda node: SPAN_ORDER(node.span))
            replaced = {node.span.span_id: node.span for node in shaped.nodes}
            spans = [replaced.get(span.span_id, span) for span in spans]
            unread = [span for span in unread if span.span_id not in replaced]
        nameless += shaped.nameless
        unread += [span for span in shaped.outside if span.unread_keys is None]
        models = shaped.models
        unasked = shaped.unasked
    top_down = enclose(nodes, spans)
    if by_content and _make_agents(by_content, nodes):
        top_down = enclose(nodes, spans)
    of_kind = by_kind(nodes)
    around_tools = {node.parent for node in of_kind["tool"]}
    if agents := agents_within_tools(around_tools, nodes, spans):
        nodes = sorted([*nodes, *agents], key=lambda node: SPAN_ORDER(node.span))
        top_down = enclose(nodes, spans)
        of_kind = by_kind(nodes)
        around_tools = {node.parent for node in of_kind["tool"]}
    find_runs(top_down, of_kind)
    turns = Turns(of_kind["chat"])
    tools = of_kind["tool"]
    is_within_chat = any(above is not None and above.kind == "chat" for above in around_tools)
    executions = [execution for node in tools if (execution := read_execution(node)) is not None]
    for execution in executions:
        node = execution.node
        if execution.name == node.span.name:
            execution.name = execution.raw_name = sentence_name(execution.name) or execution.name
        if node.span.is_whole and node.dialect is not SHAPE:
            fill(execution)
    if is_within_chat:
        restore_overwritten(executions, turns)
    requests = find_tool_requests(of_kind["agent"], turns, executions)
    if len(executions) < len(tools) or (requests and any(may_be_class(execution.name) for execution in executions)):
        executions, unnamed = named_by_requests(tools, executions, requests)
        nameless += [node.span for node in unnamed]
    drop_carried_errors(executions)
    read_outcomes(executions, [*of_kind["outcome"], *of_kind["agent"]])
    if is_within_chat:
        executions = without_requests(executions, requests)
    kept = fold(without_server_side(executions, nodes, top_down), requests, turns.chats, spans)
    paired = pair(kept, requests, nodes, of_kind, turns)
    if any(call.node.run is None for call in paired):
        _give_runs_of_requests(paired, spans)
    stray = any(call.node.run is None for call in paired)
    session_keys = _among(dialects.session_keys, {key for form in seen for key in form.session})
    user_keys = _among(dialects.user_keys, {key for form in seen for key in form.user})
    works = bool(of_kind["chat"] or tools or nameless or models or unasked or unread)
    whose = session_keys, user_keys, lambda span: _keys_of(span, dialects)
    runs = describe_runs(spans, nodes, of_kind, *whose, stray=stray, works=works)
    redacted = _was_redacted(trace, seen)
    calls = build_calls(paired, runs, top_down, of_kind, spans, tool_name, redacted=redacted)
    unread = [*{span.span_id: span for span in (*without_steps_of_calls(unread, spans, calls), *nameless)}.values()]
    if any(map(_REFERS, seen)):
        say_stored_elsewhere(calls, paired, turns.chats)
    for node in of_kind["agent"]:
        if node.run is node:
            node.run = None  # else a cycle would keep all nodes until the next garbage collection
    return Extraction(
        trace=trace,
        runs=runs,
        calls=calls,
        session=next((run.session for run in runs if run.session), None),
        release=release_of(spans),
        silent_scopes=[] if calls else _silent_scopes(spans, [*of_kind["chat"], *of_kind["agent"]]),
        unread_tool_spans=[span.span_id.hex() for span in sorted(unread, key=SPAN_ORDER)],
        unread=unread_work(turns.chats, nameless, models, unasked, calls),
        redacted=redacted,
    )


def _give_runs_of_requests(paired: Sequence[PairedCall], spans: Sequence[Span]) -> None:
    """Give each call whose span's parent never came, so that no agent is above it, the run of the model that asked."""
    known = {span.span_id for span in spans}
    for call in paired:
        node, request = call.node, call.request
        is_lost = node.span.parent_span_id and node.span.parent_span_id not in known
        if node.run is None and request is not None and is_lost:
            node.run = request.node.run


def _was_redacted(trace: Trace, forms: Iterable[Form]) -> bool:
    """Whether anything of a trace, whose spans have these forms, was redacted by us."""
    return any(map(_REDACTED, forms)) or any(s.REDACTED in record.event.attributes for record in trace.log_records)


def _among(keys: tuple[str, ...], found: set[str]) -> tuple[str, ...]:
    """The members of `keys` that were found, in their order; usually one."""
    return tuple(found) if len(found) < 2 else tuple(key for key in keys if key in found)


def _silent_scopes(spans: Sequence[Span], nodes: Sequence[Node]) -> list[str]:
    """The scopes of models and agents, whose nodes are given, in a trace without calls, and those that look so.

    What prepares an agent calls nothing: a scope that wrote nothing else is none of them.
    """
    found = {node.span.scope for node in nodes}
    working = {span.scope for span in spans if not prepares(span)}
    return sorted(found.union(filter(looks_like_gen_ai, working)))


def _place_of(error: Exception) -> str:
    """The type of an error, with the file and line of code that raised it."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = f" ({at.tb_frame.f_code.co_filename}:{at.tb_lineno})" if at is not None else ""
    return f"{type(error).__name__}: {error}{place}"


def claim(span: Span, dialects: DialectSet | None = None) -> tuple[Dialect, SpanKind] | None:
    """The dialect that a span is written in, and what it is; None when no dialect reads it.

    Those in force are asked unless `dialects` are given.
    """
    claimed = _claim_safely(span) if dialects is None else _claim(span, dialects)
    return claimed[:2] if claimed is not None else None


def agent_named_by(span: Span) -> str:
    """The agent that a span names, "" when it names none."""
    claimed = _claim_safely(span)
    if claimed is None:
        return first_text(span, CONVENTIONS.agent)
    dialect, kind, keys = claimed
    return dialect.agent_of(span, keys) or (dialect.agent_name(span) if kind == "agent" else "")


def model_named_by(span: Span) -> str:
    """The model that a span names, "" when it names none."""
    claimed = _claim_safely(span)
    if claimed is None:
        return first_text(span, CONVENTIONS.model)
    dialect, kind, keys = claimed
    return first_text(span, keys.model) or (dialect.model(span) if kind == "chat" else "")


def session_outside_keys(span: Span) -> str:
    """The session that a span names elsewhere than under keys of sessions, "" when it names none or is of no kind."""
    claimed = _claim_safely(span)
    return claimed[0].session_of(span) if claimed is not None and claimed[1] != "other" else ""


def _claim_safely(span: Span) -> tuple[Dialect, SpanKind, Keys] | None:
    return read_safely(lambda dialects: _claim(span, dialects))


def _claim(span: Span, dialects: DialectSet) -> tuple[Dialect, SpanKind, Keys] | None:
    for dialect, keys in dialects.forms[tuple(span.attributes)].readers:
        if (kind := dialect.classify(span)) is not None:
            return dialect, kind if kind != "unknown" else _kind_by_content(span, dialect, keys), keys
    return None


def _kind_by_content(span: Span, dialect: Dialect, keys: Keys) -> SpanKind:
    """The kind of a span whose word for it the dialect does not have, by its content; "unknown" when that says nothing.

    A span that put out an assistant's message is a model call, and one that names a tool is a call of it.
    """
    if any(message.role in ASSISTANT_ROLES and (message.text or message.calls) for message in dialect.outputs(span)):
        return "chat"
    return "tool" if first_text(span, keys.tool_name) else "unknown"


def _keys_of(span: Span, dialects: DialectSet) -> Keys:
    """The keys of a span that its dialect reads; the shared keys where no dialect reads the span."""
    claimed = _claim(span, dialects)
    return claimed[2] if claimed is not None else dialects.forms[tuple(span.attributes)].shared


def _scan(
    spans: Iterable[Span], forms: Mapping[tuple[str, ...], Form]
) -> tuple[list[Node], list[Node], list[Span], list[Form], list[Span], list[Span]]:
    """The spans that some dialect takes for part of an agent's work, those that look so and that none takes, and forms.

    Second are those nodes whose dialect does not have the span's word for its kind, so that its content decided. The
    forms are those of all spans, each once. Then come the spans that are left to be read by shape, and those that a
    dialect takes for something else and their sender for functions.
    """
    nodes = []
    by_content = []
    unread = []
    left = []
    functions = []
    seen: dict[int, Form] = {}
    for span in spans:
        form = forms[tuple(span.attributes)]
        seen[id(form)] = form
        for dialect, keys in form.readers:
            kind = dialect.classify(span)
            if kind is None:
                continue
            if kind == "unknown":
                kind = _kind_by_content(span, dialect, keys)
                if kind != "unknown":
                    by_content.append(_node(span, kind, dialect, keys))
                    nodes.append(by_content[-1])
                    break
                if looks_like_a_tool(span.name):
                    unread.append(span)
                if span.is_whole:
                    left.append(span)
            elif span.is_whole and kind == "chat":
                nodes.append(_node(span, kind, dialect, keys))
            elif kind != "other":
                nodes.append(Node(span, kind, dialect, keys))
            elif span.is_whole and _is_function(span):
                functions.append(span)
            break
        else:
            if span.unread_keys is not None:
                unread.append(span)
            if span.is_whole:
                left.append(span)
    return nodes, by_content, unread, list(seen.values()), left, functions


def _is_function(span: Span) -> bool:
    """Whether a sender's own word for the kind of a span is function."""
    key = _FUNCTION_KEYS[tuple(span.attributes)]
    kind = span.attributes[key] if key is not None else None
    return isinstance(kind, str) and kind.lower() == "function"


_FUNCTION_KEYS = ByKeys(lambda keys: function_key(keys, frozenset()))


def _node(span: Span, kind: SpanKind, dialect: Dialect, keys: Keys) -> Node:
    make = WholeNode if kind == "chat" and span.is_whole else Node
    return make(span, kind, dialect, keys)


def _make_agents(by_content: Sequence[Node], nodes: Sequence[Node]) -> bool:
    """Make agents of model calls that only their content shows as such, and that enclose a tool or several model calls.

    Returns:
        Whether there was any.
    """
    below: dict[Node, int] = {}
    for node in nodes:
        if node.parent is not None:
            below[node.parent] = below.get(node.parent, 0) + (2 if node.kind == "tool" else node.kind == "chat")
    around = [node for node in by_content if node.kind == "chat" and below.get(node, 0) > 1]
    for node in around:
        node.kind = "agent"
    return bool(around)


def release_of(spans: Sequence[Span]) -> str | None:
    """The release of a trace of these spans, which are in order of start."""
    version = root_of(spans).resource.attributes.get(s.SERVICE_VERSION)
    return version if isinstance(version, str) and version else None
