"""Which agent runs a trace holds, and what was asked and answered in each."""

from collections.abc import Callable, Sequence

from tracegrade.extract.messages import ASSISTANT_ROLES, USER_ROLES, last_text
from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import Keys
from tracegrade.extract.values import decode, first_text
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

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
    whose = (
        _Whose(spans, nodes, keys.session, lambda node: node.dialect.session(node.span)),
        _Whose(spans, nodes, keys.user, lambda node: node.dialect.user(node.span)),
    )
    runs = [_describe(node.span, node, members[node], keys, whose) for node in nodes if node.run is node]
    if stray or not runs:
        root = root_of(spans)
        # A tool span that is the root: what the tool got and gave is no prompt and no answer.
        is_tool = any(node.kind == "tool" and node.span is root for node in nodes)
        own = keys._replace(prompt=(), answer=()) if is_tool else keys
        runs.append(_describe(root, None, members.get(None, []), own, whose))
    runs.sort(key=lambda run: (run.start_ns, run.end_ns, run.span_id))
    return runs


class _Whose:
    """A session or a user of spans: own, else the first found in the trace (older tool spans have none)."""

    def __init__(
        self, spans: Sequence[Span], nodes: Sequence[Node], keys: tuple[str, ...], else_of: Callable[[Node], str]
    ) -> None:
        wanted = frozenset(keys)
        present = {key for span in spans for key in wanted & span.attributes.keys()}
        self._keys = tuple(key for key in keys if key in present)
        self._else_of = else_of
        # By key first: a conversation id anywhere beats a weaker key on an earlier span.
        found = (text for key in self._keys for span in spans if (text := first_text(span, (key,))))
        self._first = next(found, None) or next((text for node in nodes if (text := else_of(node))), None)

    def of(self, span: Span, members: Sequence[Node]) -> str | None:
        if self._first is None:
            return None
        return (
            first_text(span, self._keys)
            or next((text for node in members if (text := first_text(node.span, self._keys))), None)
            or next((text for node in members if (text := self._else_of(node))), None)
            or self._first
        )


def _describe(
    span: Span, node: Node | None, members: Sequence[Node], keys: Keys, whose: tuple[_Whose, _Whose]
) -> AgentRun:
    sessions, users = whose
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
        session=sessions.of(span, members),
        user=users.of(span, members),
        model=next((model for chat in chats if (model := first_text(chat.span, keys.model))), None)
        or first_text(span, keys.model)
        or None,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
    )


def _prompt(span: Span, node: Node | None, chats: Sequence[Node], keys: Keys) -> str | None:
    """What an agent span says that it was asked, else what its first model call was, else what the root took in."""
    if node is not None:
        text = last_text(node.dialect.inputs(span), USER_ROLES) or _plain_text(span, keys.prompt, _PROMPT_MEMBERS)
        if text is not None:
            return text
    for chat in chats:
        if (text := last_text(chat.dialect.inputs(chat.span), USER_ROLES)) is not None:
            return text
    return _plain_text(span, keys.prompt, _PROMPT_MEMBERS)


def _answer(span: Span, node: Node | None, chats: Sequence[Node], keys: Keys) -> str | None:
    """What an agent span says that it answered, else what its last model call said, else what the root gave out."""
    if node is not None:
        outputs = node.outputs()
        if outputs and (text := last_text(outputs[-1:], ASSISTANT_ROLES)) is not None:
            return text
        if (text := _plain_text(span, keys.answer, _ANSWER_MEMBERS)) is not None:
            return text
    for chat in reversed(chats):
        if outputs := chat.outputs():
            # A run that stopped while it was asking for tools gave no answer, whatever it said beside.
            return None if any(message.calls for message in outputs) else last_text(outputs, ASSISTANT_ROLES)
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
