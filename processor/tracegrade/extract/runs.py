"""Which agent runs a trace holds, and what was asked and answered in each."""

from collections.abc import Sequence

from tracegrade.extract.messages import last_text
from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import Keys
from tracegrade.extract.values import decode
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_ASSISTANT = ("assistant", "model", "ai", "")
_USER = ("user", "human")
# Members that hold the text where a framework records its whole call or result object.
_PROMPT_MEMBERS = ("task", "input", "prompt", "query", "question", "message", "user_prompt", "user_input", "user_msg")
_ANSWER_MEMBERS = ("raw", "final_output", "output", "answer", "response", "result", "content", "text")


def find_runs(top_down: Sequence[Node], keys: Keys) -> None:
    """Settle which agent nodes are runs, name them, and set every node's run.

    An agent span that no attribute names is a run only if it is outermost or has tool calls of its own: some
    instrumentations tag every graph node called "agent". One without calls and chats of its own that encloses such a
    run is a wrapper, and one directly below an agent of the same name is the same agent, shown twice.
    """
    agents = [node for node in top_down if node.kind == "agent"]
    if not agents:
        return
    named = set()
    for node in agents:
        name = first_text(node.span, keys.agent)
        if name:
            named.add(node)
        node.agent = name or node.dialect.agent_name(node.span)
    busy = {node.agent_above for node in top_down if node.kind == "tool"}
    chatty = {node.agent_above for node in top_down if node.kind == "chat"}
    enclosing: set[Node] = set()  # agents around one that is certainly a run
    for node in agents:
        if node in named or node in busy:
            above = node.agent_above
            while above is not None and above not in enclosing:
                enclosing.add(above)
                above = above.agent_above
    for node in top_down:
        above = node.parent
        node.run = above.run if above is not None else None
        if node.kind != "agent":
            continue
        if above is not None and above.kind == "agent" and above.run is above and above.agent == node.agent:
            continue
        if node in enclosing and node not in named and node not in busy and node not in chatty:
            continue
        if node in named or node in busy or node.run is None:
            node.run = node


def first_text(span: Span, keys: tuple[str, ...]) -> str:
    """The first non-empty text under one of `keys`, "" when there is none."""
    attributes = span.attributes
    for key in keys:
        value = attributes.get(key)
        if type(value) is str and value:
            return value
        if type(value) is int:
            return str(value)
    return ""


def root_of(spans: Sequence[Span]) -> Span:
    """The earliest local root, else the earliest span; `spans` in order of start."""
    return next((span for span in spans if span.is_local_root), spans[0])


def describe_runs(spans: Sequence[Span], nodes: Sequence[Node], keys: Keys, stray: bool) -> list[AgentRun]:
    """The trace's runs in order of start, still without their calls.

    Args:
        spans: all spans, in order of start.
        nodes: the nodes of the trace in order of start, with their runs settled.
        keys: attribute keys of all dialects.
        stray: whether some call belongs to no run; the local root is then a run as well.
    """
    members: dict[Node | None, list[Node]] = {}
    for node in nodes:
        members.setdefault(node.run, []).append(node)
    sessions = _Sessions(spans, keys)
    runs = [_describe(node.span, node, members[node], keys, sessions) for node in nodes if node.run is node]
    if stray or not runs:
        root = root_of(spans)
        # A tool span that is the root: what the tool got and gave is no prompt and no answer.
        is_tool = any(node.kind == "tool" and node.span is root for node in nodes)
        own = keys._replace(prompt=(), answer=()) if is_tool else keys
        runs.append(_describe(root, None, members.get(None, []), own, sessions))
    runs.sort(key=lambda run: (run.start_ns, run.end_ns, run.span_id))
    return runs


class _Sessions:
    """Session and user of spans: own, else the first found in the trace (older tool spans have none)."""

    def __init__(self, spans: Sequence[Span], keys: Keys) -> None:
        self._spans = spans
        self._keys = keys
        self._first: dict[tuple[str, ...], str | None] = {}

    def of(self, span: Span, keys: tuple[str, ...], members: Sequence[Node]) -> str | None:
        first = self._first_in_trace(keys)
        if first is None:
            return None
        return (
            first_text(span, keys)
            or next((text for node in members if (text := first_text(node.span, keys))), None)
            or first
        )

    def _first_in_trace(self, keys: tuple[str, ...]) -> str | None:
        if keys not in self._first:
            # By key first: a conversation id anywhere beats a weaker key on an earlier span.
            self._first[keys] = next((text for key in keys if (text := self._first_of(key))), None)
        return self._first[keys]

    def _first_of(self, key: str) -> str | None:
        for span in self._spans:
            if key in span.attributes and (text := first_text(span, (key,))):
                return text
        return None


def _describe(span: Span, node: Node | None, members: Sequence[Node], keys: Keys, sessions: _Sessions) -> AgentRun:
    chats = [member for member in members if member.kind == "chat"]
    parent = node.parent.run if node is not None and node.parent is not None else None
    agent = node.agent if node is not None else first_text(span, keys.agent)
    if not agent:
        agent = next((name for member in members if (name := first_text(member.span, keys.agent))), "")
    return AgentRun(
        span_id=span.span_id.hex(),
        agent=agent,
        parent_span_id=parent.span.span_id.hex() if parent is not None else None,
        prompt=_prompt(span, node, chats, keys),
        final_answer=_answer(span, node, chats, keys),
        session=sessions.of(span, keys.session, members),
        user=sessions.of(span, keys.user, members),
        model=next((model for chat in chats if (model := first_text(chat.span, keys.model))), None)
        or first_text(span, keys.model)
        or None,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
    )


def _prompt(span: Span, node: Node | None, chats: Sequence[Node], keys: Keys) -> str | None:
    """What an agent span says that it was asked, else what its first model call was, else what the root took in."""
    if node is not None:
        text = last_text(node.dialect.inputs(span), _USER) or _plain_text(span, keys.prompt, _PROMPT_MEMBERS)
        if text is not None:
            return text
    for chat in chats:
        if (text := last_text(chat.dialect.inputs(chat.span), _USER)) is not None:
            return text
    return _plain_text(span, keys.prompt, _PROMPT_MEMBERS)


def _answer(span: Span, node: Node | None, chats: Sequence[Node], keys: Keys) -> str | None:
    """What an agent span says that it answered, else what its last model call said, else what the root gave out."""
    if node is not None:
        outputs = node.outputs()
        if outputs and (text := last_text(outputs[-1:], _ASSISTANT)) is not None:
            return text
        if (text := _plain_text(span, keys.answer, _ANSWER_MEMBERS)) is not None:
            return text
    for chat in reversed(chats):
        if outputs := chat.outputs():
            # A run that stopped while it was asking for tools gave no answer, whatever it said beside.
            return None if any(message.calls for message in outputs) else last_text(outputs, _ASSISTANT)
    return _plain_text(span, keys.answer, _ANSWER_MEMBERS)


def _plain_text(span: Span, keys: tuple[str, ...], members: tuple[str, ...]) -> str | None:
    """A text, or the text member of a recorded object that is known to hold it."""
    for key in keys:
        decoded = decode(span.attributes.get(key))
        value: JsonValue = decoded.value
        if isinstance(value, dict):
            value = next((value[name] for name in members if isinstance(value.get(name), str)), None)
        if isinstance(value, str) and decoded.status != "truncated" and (text := value.strip()):
            return text
    return None
