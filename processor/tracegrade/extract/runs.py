"""Agent runs: which agent spans of a trace are runs, and what was asked and answered in each run.

Not every agent span is a run: frameworks wrap a run in further spans that are called "agent". A worked example, which
`tests/extract/gen_ai/worked_example_of_runs.yaml` repeats::

    1  agent planner                   0-100   user message "Plan a trip."
       2  agent planner                1-99
          3  tool find_train           10-20
          4  tool ask_hotels           30-80
             5  agent, without a name  31-79
                6  agent hotels        32-78
                   7  tool find_room   40-50

1. Span 1 has a name and no agent above it: it is a run, with the prompt "Plan a trip.".
2. Span 2 lies directly below an agent of the same name: it is the same run, shown twice.
3. Span 5 has no name and no calls of its own, and it encloses span 6, which is certainly a run: it is a wrapper.
4. Span 6 has a name: it is a run, and its parent run is planner's.
5. Each call belongs to the nearest run around it: find_train and ask_hotels to planner, find_room to hotels, at depth 1
   because ask_hotels encloses it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import TypeVar

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import MAX_ENVELOPES
from tracegrade.extract.decode.values import canonical, decode, first_text, is_masked, parse_object
from tracegrade.extract.messages import ASSISTANT_ROLES, USER_ROLES, last_text, read_messages
from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import Keys, RequestedCall, SpanKind
from tracegrade.extract.shape.dialect import SHAPE
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

AnySpan = TypeVar("AnySpan", bound=Span)

# Members that hold the text where a framework records its whole call or result object.
_PROMPT_MEMBERS = ("task", "input", "prompt", "query", "question", "message", "user_prompt", "user_input", "user_msg")
# Members that hold the rest: LangGraph's callbacks, a bound Python call.
_STATE_MEMBERS = ("inputs", "outputs", "kwargs", "args")
_DIALECT = attrgetter("dialect")
_AROUND_AGENTS = ("invoke_workflow", "handle_conversation_turn")
_CREATE_AGENT = "create_agent"
_CREATE_WORKFLOW = "workflow.build"  # Agent Framework's
_CALL_TOOL = "tools/call"  # the only method of MCP that is work of an agent
_RUNTIMES = ("autogen ", "agent_runtime ")  # AutoGen's and Semantic Kernel's, which write a trace for each message
PREPARING = (_CREATE_AGENT, _CREATE_WORKFLOW, s.MCP_METHOD, *_RUNTIMES)
"""Texts of which one stands in every span that only prepares an agent's work."""
_ANSWER_MEMBERS = ("raw", "final_output", "output", "answer", "response", "result", "content", "text", "_value")


def find_runs(top_down: Sequence[Node], of_kind: Mapping[SpanKind, Sequence[Node]]) -> None:
    """Decide which agent nodes are runs, name them, and set the run of every node.

    An agent span that no attribute names is a run only if it is outermost or has tool calls of its own: some
    instrumentations tag every graph node called "agent". One that only shape takes for an agent is none where it does
    nothing and other agents work. One without calls and chats of its own that encloses such a
    run is a wrapper, and one directly below or beside an agent of the same name is the same agent, shown twice: the
    outermost of them is the run. One that goes on where the one before it asked for calls is the next turn of its run.

    Args:
        top_down: the nodes of the trace, every one after its parent.
        of_kind: those of each kind.
    """
    agents = of_kind["agent"]
    if not agents:
        return
    if len(agents) > 1:
        agents = [node for node in top_down if node.kind == "agent"]
    named = set()
    says: dict[Node, str] = {}  # those that say their name themselves
    for node in agents:
        name = node.named_agent()
        if name:
            named.add(node)
            says[node] = name
        node.agent = name or node.dialect.agent_name(node.span)
        if not node.agent and node.parent is not None:
            if node.parent.kind == "agent":
                node.agent = node.parent.agent  # without a name directly below an agent: that one, shown twice
            elif name := node.dialect.agent_name(node.parent.span):  # a tool may say which agent it calls
                node.agent = name
                named.add(node)
    beside = _shown_beside(agents, top_down)
    routing = _routing(agents, top_down)
    goes_on = _going_on(agents, of_kind["chat"])
    named |= set(beside.values())
    busy = {node.agent_above for node in of_kind["tool"]}
    chatty = {node.agent_above for node in of_kind["chat"]}
    enclosing: set[Node] = set()  # agents around one that is certainly a run
    for node in agents:
        if node in named or node in busy:
            above = node.agent_above
            while above is not None and above not in enclosing:
                enclosing.add(above)
                above = above.agent_above
            outer = node.parent
            while outer is not None and outer.kind == "agent" and outer not in named and outer.agent == says.get(node):
                says[outer] = outer.agent
                named.add(outer)
                outer = outer.parent
    working = named | busy | chatty
    idle: set[Node] = set()  # called agents by a word of a key, and without work: parts of a framework, beside agents
    if working.intersection(agents):
        idle = {node for node in agents if node.dialect is SHAPE and node not in working}
    for node in top_down:
        above = node.parent
        node.run = above.run if above is not None else None
        if node.kind != "agent" or node in beside or node in routing or node in idle:
            continue
        if node in goes_on:
            node.run = goes_on[node].run
            continue
        is_below_agent = above is not None and above.kind == "agent" and above.agent == node.agent
        if is_below_agent and node.run is not None and node.run.agent == node.agent:
            continue
        if node.run is not None and node.span.attributes.get(s.OPERATION_NAME) in _AROUND_AGENTS:
            continue  # inside an agent: none itself
        if node in enclosing and node not in named and node not in busy and node not in chatty:
            continue
        if node in named or node in busy or node.run is None:
            node.run = node


def _shown_beside(agents: Sequence[Node], nodes: Sequence[Node]) -> dict[Node, Node]:
    """Agent nodes without anything below them, each with the agent node of the same name and time beside it."""
    if len(agents) < 2:
        return {}
    enclosing = {node.parent for node in nodes}
    places: dict[tuple[Node | None, str], list[Node]] = {}
    for node in agents:
        places.setdefault((node.parent, node.agent), []).append(node)
    beside = {}
    for same in places.values():
        if len(same) > 1:
            working = [node for node in same if node in enclosing]
            for node in same:
                span = node.span
                twin = next((w for w in working if span.start_ns <= w.span.start_ns < span.end_ns), None)
                if node not in enclosing and twin is not None:
                    beside[node] = twin
    return beside


def _going_on(agents: Sequence[Node], chats: Sequence[Node]) -> dict[Node, Node]:
    """Agent nodes that go on with a run, each with the node of its turn before: some senders write a span a turn.

    Such a span is the next one below the same span, of the same name, and its first model call is given the calls that
    the last one of the turn before asked for.
    """
    places: dict[bytes, list[Node]] = {}
    for node in agents:
        if node.agent and node.span.parent_span_id:
            places.setdefault(node.span.parent_span_id, []).append(node)
    pairs = [
        (before, node)
        for turns in places.values()
        for before, node in pairwise(turns)
        if before.agent == node.agent and before.span.end_ns <= node.span.start_ns
    ]
    if not pairs:
        return {}  # nearly always
    models: dict[Node | None, list[Node]] = {}
    for chat in chats:
        models.setdefault(chat.agent_above, []).append(chat)
    return {
        node: before
        for before, node in pairs
        if before in models and node in models and _is_given_calls_of(models[before][-1], models[node][0])
    }


def _is_given_calls_of(before: Node, chat: Node) -> bool:
    """Whether a model call is given all calls, each with an id, that the one before it asked for.

    In a history without ids a call is known by its name and arguments.
    """
    asked = [call for message in before.outputs() for call in message.calls]
    if not asked or any(call.call_id is None for call in asked):
        return False
    given = [call for message in chat.inputs() for call in message.calls]
    known_by = _by_name if all(call.call_id is None for call in given) else _CALL_ID
    return set(map(known_by, asked)) <= set(map(known_by, given))


_CALL_ID = attrgetter("call_id")


def _by_name(call: RequestedCall) -> tuple[str, str]:
    return call.name, canonical(decode(call.arguments).value)


def _routing(agents: Sequence[Node], nodes: Sequence[Node]) -> set[Node]:
    """Functions of graph nodes that a tracer reports as agents: in a node of another name, with nothing below them."""
    found = {
        node
        for node in agents
        if node.span.parent_span_id and (place := node.dialect.graph_node(node.span)) and place != node.agent
    }
    return found.difference(node.parent for node in nodes if node.parent is not None) if found else found


def prepares(span: Span) -> bool:
    """Whether a span makes an agent or a workflow, passes a message on to one, or asks MCP for no tool.

    None of it is a run of an agent.
    """
    if span.attributes.get(s.OPERATION_NAME) == _CREATE_AGENT or span.name == _CREATE_WORKFLOW:
        return True
    if span.name.startswith(_RUNTIMES):
        return True
    return span.attributes.get(s.MCP_METHOD, _CALL_TOOL) != _CALL_TOOL


def root_of(spans: Sequence[AnySpan]) -> AnySpan:
    """The earliest local root, else the earliest span; `spans` in order of start."""
    return next((span for span in spans if span.is_local_root), spans[0])


def describe_runs(
    spans: Sequence[Span],
    nodes: Sequence[Node],
    of_kind: Mapping[SpanKind, Sequence[Node]],
    session_keys: tuple[str, ...],
    user_keys: tuple[str, ...],
    keys_of: Callable[[Span], Keys],
    *,
    stray: bool,
    works: bool,
) -> list[AgentRun]:
    """The trace's runs in order of start, still without their calls.

    Args:
        spans: all spans, in order of start.
        nodes: the nodes of the trace in order of start, with their runs settled.
        of_kind: those of each kind.
        session_keys: attribute keys of all dialects that hold a session and that some span has.
        user_keys: the same of users.
        keys_of: the keys that its dialect reads of a span.
        stray: whether some call belongs to no run known; the local root is then a run as well, if it is not one.
        works: whether a model or a tool worked, be it that what it did cannot be read.

    Returns:
        The runs. Without an agent span the local root is one, unless it `prepares` and nothing `works`.
    """
    members: dict[Node | None, list[Node]] = {}
    for node in nodes:
        members.setdefault(node.run, []).append(node)
    read_by = [*map(_DIALECT, nodes)]
    dialects = dict(zip(map(id, read_by), read_by, strict=True))
    sessions = {key: each.session_of for key, each in dialects.items() if each.reads_sessions}
    users = {key: each.user_of for key, each in dialects.items() if each.reads_users}
    whose = (
        _Whose(spans, nodes, session_keys, lambda node: node.keys.session, sessions),
        _Whose(spans, nodes, user_keys, lambda node: node.keys.user, users),
    )
    leading = [node for node in of_kind["agent"] if node.run is node]
    runs = [_describe(node.span, node, members[node], node.keys, whose) for node in leading]
    root = root_of(spans)
    is_run = any(node.span is root for node in leading)
    if (stray and not is_run) or (not runs and (works or not prepares(root))):
        # A tool span that is the root: what the tool got and gave is no prompt and no answer.
        is_tool = any(node.span is root for node in of_kind["tool"])
        keys = keys_of(root)
        own = keys._replace(prompt=(), answer=()) if is_tool else keys
        runs.append(_describe(root, None, members.get(None, []), own, whose))
    runs.sort(key=lambda run: (run.start_ns, run.end_ns, run.span_id))
    return runs


class _Whose:
    """A session or a user of spans: own, else the first found in the trace (older tool spans have none)."""

    def __init__(
        self,
        spans: Sequence[Span],
        nodes: Sequence[Node],
        keys: tuple[str, ...],
        own_keys: Callable[[Node], tuple[str, ...]],
        elsewhere: Mapping[int, Callable[[Span], str]],
    ) -> None:
        """Look for the first of the trace.

        Args:
            spans: all spans of the trace.
            nodes: its nodes.
            keys: attribute keys, in order of preference.
            own_keys: those that a node's dialect reads.
            elsewhere: what reads it elsewhere, by the `id` of the dialects that do.
        """
        self._keys = keys
        self._own_keys = own_keys  # what a dialect means by a shared key may be narrower (Claude Code)
        self._else_of = elsewhere
        # By key first: a conversation id anywhere beats a weaker key on an earlier span.
        found = (text for key in keys for span in spans if (text := _unmasked_text(span, (key,))))
        self._first = next(found, None) or self._first_elsewhere(nodes)

    def of(self, span: Span, members: Sequence[Node]) -> str | None:
        if self._first is None:
            return None
        return (
            next((text for node in members if node.span is span and (text := self._of_node(node))), None)
            or _unmasked_text(span, self._keys)
            or next((text for node in members if (text := self._of_node(node))), None)
            or self._first_elsewhere(members)
            or self._first
        )

    def _of_node(self, node: Node) -> str:
        return _unmasked_text(node.span, self._own_keys(node)) or _unmasked_text(node.span, self._keys)

    def _first_elsewhere(self, nodes: Sequence[Node]) -> str | None:
        if not self._else_of:
            return None
        for node in nodes:
            read = self._else_of.get(id(node.dialect))
            if read is not None and (text := read(node.span)) and not is_masked(text):
                return text
        return None


def _unmasked_text(span: Span, keys: tuple[str, ...]) -> str:
    """As `first_text`, without what senders write in place of a hidden text: that is everybody's, and names nobody."""
    text = first_text(span, keys)
    if not text or not is_masked(text):
        return text
    return next((text for key in keys if (text := first_text(span, (key,))) and not is_masked(text)), "")


def _describe(
    span: Span, node: Node | None, members: Sequence[Node], keys: Keys, whose: tuple[_Whose, _Whose]
) -> AgentRun:
    sessions, users = whose
    chats = [member for member in members if member.kind == "chat"]
    agents = [
        member for member in members if node is not None and member.kind == "agent" and member.agent == node.agent
    ]
    further = [
        each
        for each in agents
        if node is not None and each.parent is node.parent and each.span.start_ns >= span.end_ns  # its later turns
    ]
    parent = node.parent.run if node is not None and node.parent is not None else None
    agent = node.agent if node is not None else first_text(span, keys.agent)
    if not agent:
        agent = next((name for member in members if (name := member.named_agent())), "")
    return AgentRun(
        span_id=span.span_id.hex(),
        agent=agent,
        parent_span_id=parent.span.span_id.hex() if parent is not None else None,
        prompt=_prompt(span, agents, chats, keys),
        final_answer=_answer(span, [*further[-1:], *agents], chats, keys),
        session=sessions.of(span, members),
        user=users.of(span, members),
        model=next((model for chat in chats if (model := _model(chat))), None) or first_text(span, keys.model) or None,
        start_ns=span.start_ns,
        end_ns=max([span.end_ns, *(each.span.end_ns for each in further)]),
    )


def _model(chat: Node) -> str:
    return first_text(chat.span, chat.keys.model) or chat.dialect.model(chat.span)


def _prompt(span: Span, agents: Sequence[Node], chats: Sequence[Node], keys: Keys) -> str | None:
    """The prompt: an agent span's input, else the user's message of its first model call, else the root's input."""
    for agent in agents:
        text = last_text(agent.inputs(), USER_ROLES)
        text = text or _plain_text(agent.span, agent.keys.prompt, _PROMPT_MEMBERS)
        if text is not None:
            return text
    for chat in chats:
        if (text := last_text(chat.inputs(), USER_ROLES)) is not None:
            return text
    shown = [(agent.span, agent.keys.prompt) for agent in agents] or [(span, keys.prompt)]
    return _first(_plain_text(*one, _PROMPT_MEMBERS) for one in shown) or _first(
        _state_text(*one, _PROMPT_MEMBERS, USER_ROLES) for one in shown
    )


def _answer(span: Span, agents: Sequence[Node], chats: Sequence[Node], keys: Keys) -> str | None:
    """The final answer: the output of an agent span, else the text of its last model call, else the root's output."""
    for agent in agents:
        if known := agent.dialect.answer(agent.span):
            return known
        outputs = agent.outputs()
        if outputs and (text := last_text(outputs[-1:], ASSISTANT_ROLES)) is not None:
            return text
        if (text := _plain_text(agent.span, agent.keys.answer, _ANSWER_MEMBERS)) is not None:
            return text
    for chat in reversed(chats):
        if outputs := chat.outputs():
            # A run that stopped while it was asking for tools gave no answer, whatever it said beside.
            return None if any(message.calls for message in outputs) else last_text(outputs, ASSISTANT_ROLES)
    shown = [(agent.span, agent.keys.answer) for agent in agents] or [(span, keys.answer)]
    return _first(_plain_text(*one, _ANSWER_MEMBERS) for one in shown) or _first(
        _state_text(*one, _ANSWER_MEMBERS, ASSISTANT_ROLES) for one in shown
    )


def _first(texts: Iterable[str | None]) -> str | None:
    return next((text for text in texts if text), None)


def _plain_text(span: Span, keys: tuple[str, ...], members: tuple[str, ...]) -> str | None:
    """A text, or the text member of a recorded object that is known to hold it."""
    for key in keys:
        raw = span.attributes.get(key)
        if raw is None:
            continue
        value = parse_object(raw)  # a whole state is often recorded: only a text of it is wanted
        if value is None:
            decoded = decode(raw)
            value = decoded.value if decoded.status != "truncated" else None
        if isinstance(value, dict):
            value = next((value[name] for name in members if isinstance(value.get(name), str)), None)
        if isinstance(value, str) and (text := value.strip()):
            return text
    return None


def _state_text(span: Span, keys: tuple[str, ...], members: tuple[str, ...], roles: tuple[str, ...]) -> str | None:
    """The text in the state of a graph or in the record of a Python call, inside any envelopes."""
    for key in keys:
        value = decode(span.attributes.get(key)).value
        for _ in range(MAX_ENVELOPES):
            if not isinstance(value, dict):
                break
            inner: JsonValue = next((value[name] for name in members if isinstance(value.get(name), str)), None)
            if isinstance(messages := value.get("messages"), list):
                inner = last_text(read_messages(messages), roles)
            if inner is None and roles is USER_ROLES and len(value) == 1:  # whatever an agent calls its only argument
                inner = next((text for text in value.values() if isinstance(text, str)), None)
            value = inner or next((value[name] for name in _STATE_MEMBERS if value.get(name)), None)
        if isinstance(value, list):  # positional arguments; a method's first one is its object
            value = next((item for item in reversed(value) if isinstance(item, str)), None)
        if isinstance(value, str) and (text := value.strip()):
            return text
    return None
