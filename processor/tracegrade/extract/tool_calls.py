"""Builds the `ToolCall` records from paired calls: with agent, depth, batch and attempt."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from tracegrade.extract.decode.values import canonical
from tracegrade.extract.nodes import MAX_CHAIN, Node
from tracegrade.extract.pairing import PairedCall
from tracegrade.extract.reading import SpanKind
from tracegrade.extract.tool_requests import ToolRequest
from tracegrade.extract.withheld import say_redacted
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolCall


def build_calls(
    paired_calls: Sequence[PairedCall],
    runs: Sequence[AgentRun],
    top_down: Sequence[Node],
    of_kind: Mapping[SpanKind, Sequence[Node]],
    spans: Sequence[Span],
    tool_name: Callable[[str], str] | None = None,
    *,
    redacted: bool = False,
) -> list[ToolCall]:
    """The `ToolCall`s, in the order given; each is appended to its run's calls, too.

    Args:
        paired_calls: in total order.
        runs: the trace's runs; a call outside of any agent belongs to the root's.
        top_down: all nodes, parents first.
        of_kind: those of each kind.
        spans: all spans of the trace.
        tool_name: the name that rules use for a tool; its own when omitted.
        redacted: something of the trace was redacted by us.
    """
    if not paired_calls:
        return []
    by_id = {run.span_id: run for run in runs}
    run_of = {node: by_id[node.span.span_id.hex()] for node in of_kind["agent"] if node.run is node}
    of_agents = {run.span_id for run in run_of.values()}
    stray = next((run for run in runs if run.span_id not in of_agents), runs[0])
    depths = _depths(paired_calls, top_down)
    batches = _batches(paired_calls, _steps(paired_calls, top_down, of_kind["chat"], spans))
    turns = _turns(paired_calls)
    names: set[str] | None = None  # of agents that are known; hardly ever asked for
    calls = []
    for paired, batch in zip(paired_calls, batches, strict=True):
        node = paired.node
        run = run_of[node.run] if node.run is not None else stray
        # A tool span may name the agent that executes it, but some senders name their SDK there.
        own = node.named_agent() if node.keys.agent or node.dialect.agent_metadata else ""
        agent = run.agent or own
        if own and own != agent:
            if names is None:
                names = {run.agent for run in runs} | _speaking(of_kind["chat"])
            if not _is_callers(own, node.run) if own == _agent_in_config(node) else own in names:
                agent = own
        call = _build(paired, run, agent, depths[node], batch)
        if paired.request is not None:
            call.turn = turns[paired.request.turn]
        if tool_name is not None:
            call.name = tool_name(call.name)
        calls.append(call)
        run.calls.append(call)
    if redacted:
        say_redacted(calls, paired_calls)  # before masks that are alike make calls attempts at one
    for run in runs:
        number_attempts(run.calls)
    return calls


def _agent_in_config(node: Node) -> str:
    return node.dialect.langchain_agent(node.span, node.keys)


def _is_callers(agent: str, run: Node | None) -> bool:
    """Whether LangChain's metadata in a run name an agent because the tool that calls the run passed its config on."""
    above = run.parent if run is not None else None
    for _ in range(MAX_CHAIN):
        if above is None or above.kind == "tool":
            break
        above = above.parent
    return above is not None and above.kind == "tool" and _agent_in_config(above) == agent


def _speaking(chats: Sequence[Node]) -> set[str]:
    """The agents that model calls name where they name several: an SDK's name would be the same on all of them."""
    named = {chat.named_agent() for chat in chats if chat.keys.agent} - {""}
    return named if len(named) > 1 else set()


def _build(paired: PairedCall, run: AgentRun, agent: str, depth: int, batch: int | None) -> ToolCall:
    execution, request, span = paired.execution, paired.request, paired.node.span
    arguments, output = paired.arguments, paired.output
    if execution is not None:
        name, raw_name, call_id = execution.name, execution.raw_name, execution.call_id
        start_ns, end_ns = span.start_ns, span.end_ns
        also = [node.span.span_id.hex() for node in execution.also] if execution.also else []
        read_from = execution.read_from
        if call_id is None and request is not None:
            call_id = request.call.call_id
        path = None
        attempt = 1 + execution.refused_before
    else:
        assert request is not None  # a paired call has one of both
        name = raw_name = request.call.name
        call_id, path = request.call.call_id, request.call.path
        start_ns = end_ns = 0
        also, read_from, attempt = [], "message", 1
    # By position, since names cost a third more here.
    return ToolCall(
        name,
        raw_name,
        call_id,
        arguments.value,
        arguments.status,
        output.value,
        output.status,
        paired.error,
        start_ns,
        end_ns,
        span.span_id.hex(),
        agent,
        run.span_id,
        depth,
        batch,
        attempt,  # those at the same arguments are counted when all calls are known
        read_from,
        paired.node.dialect.name,
        path,
        also,
    )


def _depths(paired_calls: Sequence[PairedCall], top_down: Sequence[Node]) -> dict[Node, int]:
    """How many calls enclose each node; further spans of one call count once.

    A call whose parent is one of the same message is not made inside it: some instrumentations chain parallel calls.
    """
    calls = {paired.node: paired for paired in paired_calls if paired.execution is not None}
    depths: dict[Node, int] = {}
    for node in top_down:
        above = node.parent
        if above is None:
            depths[node] = 0
        elif (outer := calls.get(above)) is None:
            depths[node] = depths[above]
        else:
            inner = calls.get(node)
            is_beside = (
                inner is not None and inner.request and outer.request and inner.request.turn == outer.request.turn
            )
            depths[node] = depths[above] + (not is_beside)
    return depths


def _batches(paired_calls: Sequence[PairedCall], steps: Mapping[Node, tuple[int, int]]) -> list[int | None]:
    """The batch of each call: the message that requested it, else the group of calls with which it overlaps in time.

    Overlaps are looked for within one run and one enclosing call, so that a call and those made inside it are apart.
    `steps` overlap where a framework started two threads, of which one was through before the other came to its call.
    """
    groups: list[object] = []
    open_until: dict[tuple[Node | None, Node | None], tuple[int, int, object]] = {}
    step_until: dict[object, int] = {}
    for paired in paired_calls:
        if paired.request is not None:
            groups.append(paired.request.turn)
            continue
        span = paired.node.span
        place = (paired.node.run, _call_above(paired.node))
        start_ns, end_ns, group = open_until.get(place, (-1, -1, None))
        step_start_ns, step_end_ns = steps.get(paired.node, (span.start_ns, span.end_ns))
        overlaps = span.start_ns < end_ns or span.start_ns == start_ns or step_start_ns < step_until.get(group, -1)
        if group is None or not overlaps:
            group = span.span_id  # the first call stands for the group
            end_ns = -1
        open_until[place] = (span.start_ns, max(end_ns, span.end_ns), group)
        step_until[group] = max(step_until.get(group, -1), step_end_ns)
        groups.append(group)
    numbers: dict[object, int] = {}
    return [numbers.setdefault(group, len(numbers)) for group in groups]


def _steps(
    paired_calls: Sequence[PairedCall], top_down: Sequence[Node], chats: Sequence[Node], spans: Sequence[Span]
) -> dict[Node, tuple[int, int]]:
    """Start and end, in ns, of the outermost span in which a call that no message requested is all that happens.

    Such a step ends, too, where a model is asked next.
    """
    alone = [paired.node for paired in paired_calls if paired.request is None]
    if len(alone) < 2 or not any(node.span.parent_span_id != _id_of(node.parent) for node in alone):
        return {}  # nearly all
    by_id = {span.span_id: span for span in spans}
    acting = Counter(step.span_id for node in top_down for step in _spans_between(node, by_id))
    asked_ns = sorted(chat.span.start_ns for chat in chats)
    steps = {}
    for node in alone:
        for step in _spans_between(node, by_id):
            if acting[step.span_id] == 1:
                asked = bisect_left(asked_ns, node.span.end_ns)
                steps[node] = step.start_ns, min([step.end_ns, *asked_ns[asked : asked + 1]])
    return steps


def _spans_between(node: Node, by_id: Mapping[bytes, Span]) -> Iterator[Span]:
    """The spans between a node and the one that encloses it, the nearest first."""
    end, at = _id_of(node.parent), node.span.parent_span_id
    for _ in range(MAX_CHAIN):
        if at == end or (span := by_id.get(at)) is None:
            return
        yield span
        at = span.parent_span_id


def _id_of(node: Node | None) -> bytes:
    return b"" if node is None else node.span.span_id


def _turns(paired_calls: Sequence[PairedCall]) -> dict[int, int]:
    """The number of each requesting message; those of model calls that started at the same time share one number."""
    requests = sorted(
        (paired.request for paired in paired_calls if paired.request is not None), key=lambda request: request.order
    )
    turns: dict[int, int] = {}
    before: ToolRequest | None = None
    for request in requests:
        if request.turn not in turns:
            is_apart = (
                before is None or before.node is request.node or before.node.span.start_ns != request.node.span.start_ns
            )
            turns[request.turn] = request.turn if is_apart or before is None else turns[before.turn]
        before = request
    return turns


def _call_above(node: Node) -> Node | None:
    return node.parent if node.parent is not None and node.parent.kind == "tool" else None


def number_attempts(calls: Sequence[ToolCall]) -> None:
    """Count the calls of the same name and readable arguments within one run."""
    seen: dict[str, list[ToolCall]] = {}
    for call in calls:
        seen.setdefault(call.name, []).append(call)
    for same_name in seen.values():
        if len(same_name) > 1:
            attempts: dict[str, int] = {}
            for call in same_name:
                if call.arguments_status not in ("absent", "elsewhere", "redacted", "truncated"):
                    key = canonical(call.arguments)
                    attempts[key] = call.attempt = attempts.get(key, 0) + call.attempt
