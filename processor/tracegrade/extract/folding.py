"""Folding: several spans of one call are made one execution.

An agent, an MCP client and an MCP server each write a span of the same call, and so does a second instrumentation. A
worked example, which `tests/extract/gen_ai/worked_example_of_folding.yaml` repeats::

    agent shop                                       0-100
      2  tool search        by the agent             10-40   arguments {q: tea}
         3  tools/call search  by the MCP client     12-38   result ["green tea"]
            4  tools/call search  by the MCP server  14-36
      5  tool search        by the agent             50-70   arguments {q: tea}

1. `_fold_same_id`: no span has a call id, so nothing is folded here.
2. `_fold_nested`: span 3 lies directly within span 2, has the same name, and its arguments are not known to differ: it
   is the same call. So is span 4 within span 3. The outermost span, 2, stays and absorbs the other two: it takes over
   the result, and lists them in ``also``.
3. `_fold_near`: spans of different scopes that start and end within `NEAR_NS` of each other, with equal arguments, are
   one call shown twice. Span 5 is of the same scope as span 2 and starts 40 later: it stays a second call.

What is left: span 2 with arguments {q: tea} and result ["green tea"], also seen in 3 and 4; and span 5.
"""

from collections.abc import Mapping, Sequence

from tracegrade import semconv as s
from tracegrade.extract.decode.values import canonical, decode, parse_object
from tracegrade.extract.nodes import MAX_CHAIN, Node
from tracegrade.extract.shape.keys import slot_at
from tracegrade.extract.tool_requests import ToolRequest
from tracegrade.extract.tool_spans import Execution
from tracegrade.extract.witnesses import is_flattened_form
from tracegrade.model.span import Span

# Two instrumentations of one call start and end their spans this close to each other.
NEAR_NS = 5_000_000
# How many executions of one name or id are compared with a further one.
MAX_COMPARED = 32

_QUALIFIERS = ("__", "-", ".", "/", ":")


def fold(
    executions: Sequence[Execution], requests: Sequence[ToolRequest], chats: Sequence[Node], spans: Sequence[Span]
) -> list[Execution]:
    """One execution for each call, in order of start; the others are merged into it and listed in its `also`.

    Args:
        executions: in order of start.
        requests: an id that was requested more than once is an id used again, not one call shown twice.
        chats: all model calls of the trace.
        spans: all spans of the trace.
    """
    if len(executions) < 2:
        return list(executions)
    kept = list(executions)
    ids = [execution.call_id for execution in executions if execution.call_id is not None]
    if len(set(ids)) < len(ids):
        kept = _fold_same_id(executions, requests)
    if any(_may_be_nested(execution) for execution in kept):
        kept = _fold_nested(kept, spans)
    if len({execution.node.span.scope for execution in kept}) > 1:
        kept = _fold_near(kept, {chat.span.scope for chat in chats})
    return kept


def without_server_side(
    executions: Sequence[Execution], nodes: Sequence[Node], top_down: Sequence[Node]
) -> Sequence[Execution]:
    """Leave out an MCP server's side of calls when a trace shows nothing else: the callers' traces show these calls.

    What an agent behind the server calls in turn stays.
    """
    servers = {execution.node for execution in executions if execution.is_mcp_server}
    if not servers:
        return executions
    within: set[Node | None] = set()
    for node in top_down:
        if node in servers or node.parent in within:
            within.add(node)
    if len(within) < len(nodes):
        return executions
    return [execution for execution in executions if execution.node.agent_above is not None]


def without_requests(executions: Sequence[Execution], requests: Sequence[ToolRequest]) -> list[Execution]:
    """Leave out spans that are requests: within a model call, and without any result.

    The model call makes such a request; or it does not show what it asked for, and the call ran after it.
    """
    inner = {one for one in executions if (parent := one.node.parent) is not None and parent.kind == "chat"}
    made: dict[Node, list[ToolRequest]] = {}
    for request in requests:
        made.setdefault(request.node, []).append(request)
    kept = [execution for execution in executions if not _is_request(execution, made)]
    asking = [one for one in kept if one in inner and not _returned(one) and one.arguments.is_readable]
    return _without_asked(kept, asking, made) if asking and len(asking) < len(kept) else kept


def _without_asked(
    executions: Sequence[Execution], asking: Sequence[Execution], made: Mapping[Node, Sequence[ToolRequest]]
) -> list[Execution]:
    """Merge each of `asking` into the execution of the same call that came after the model call around it."""
    running: dict[str, list[Execution]] = {}
    requests = set(asking)
    for execution in executions:
        if execution not in requests:
            running.setdefault(execution.name, []).append(execution)
    dropped: set[Execution] = set()
    for request in asking:
        around = request.node.parent
        if around is None or around in made:
            continue
        for execution in running.get(request.name, ())[:MAX_COMPARED]:
            is_later = execution.node.span.start_ns >= around.span.end_ns
            ids = (request.call_id, execution.call_id)
            if is_later and (None in ids or ids[0] == ids[1]) and _arguments_agree(request, execution):
                execution.absorb(request)
                running[request.name].remove(execution)
                dropped.add(request)
                break
    return [execution for execution in executions if execution not in dropped]


def _is_request(execution: Execution, made: Mapping[Node, Sequence[ToolRequest]]) -> bool:
    around = execution.node.parent
    if around is None or around.kind != "chat" or _returned(execution):
        return False
    for request in made.get(around, ())[:MAX_COMPARED]:
        if request.call.name == execution.name:
            if execution.call_id is not None and request.call.call_id is not None:
                if execution.call_id == request.call.call_id:
                    return True
            elif canonical(decode(request.call.arguments).value) == canonical(execution.arguments.value):
                return True
    return False


def names_match(one: str, other: str) -> bool:
    """Whether two names may name one tool: equal, or one is the other with the prefix of a server or plugin."""
    if one == other:
        return True
    if len(one) < len(other):
        one, other = other, one
    return any(one.endswith(qualifier + other) for qualifier in _QUALIFIERS)


def short_name(name: str) -> str:
    """A tool's name without the prefix that names its MCP server."""
    return name.rpartition("__")[2] or name


def _fold_same_id(executions: Sequence[Execution], requests: Sequence[ToolRequest]) -> list[Execution]:
    request_counts: dict[str, int] = {}
    for request in requests:
        if request.call.call_id is not None:
            request_counts[request.call.call_id] = request_counts.get(request.call.call_id, 0) + 1
    kept: list[Execution] = []
    by_id: dict[str, list[Execution]] = {}
    for execution in executions:
        found = None
        if execution.call_id is not None:
            seen = by_id.setdefault(execution.call_id, [])
            again = request_counts.get(execution.call_id, 0) > 1
            found = next((e for e in seen[-MAX_COMPARED:] if _is_same_id_call(e, execution, again)), None)
        if found is None:
            kept.append(execution)
            if execution.call_id is not None:
                seen.append(execution)
        else:
            outer = _merge(found, execution)
            if outer is not found:
                kept[kept.index(found)] = outer
                seen[seen.index(found)] = outer
    return kept


def _is_same_id_call(first: Execution, second: Execution, again: bool) -> bool:
    if not names_match(first.name, second.name) or not _arguments_agree(first, second):
        return False
    if first.node.is_below(second.node) or second.node.is_below(first.node):
        return True
    one, other = first.node.span, second.node.span
    if one.end_ns > other.start_ns:  # at the same time; `first` started first
        return True
    # One after the other: the id was requested again, or one instrumentation shows that the tool ran again, after a
    # failure or a pause. A span without a result is the request of the other, written as a span of its own.
    ran_twice = one.scope == other.scope and (first.error is not None or _returned(first) == _returned(second))
    return not again and not ran_twice


def _returned(execution: Execution) -> bool:
    """Whether a span shows that its tool returned or failed, or did before its output was redacted."""
    return execution.output.status != "absent" or execution.error is not None or _lost_output(execution)


def _lost_output(execution: Execution) -> bool:
    mark = parse_object(execution.node.span.attributes.get(s.REDACTED))
    return isinstance(mark, dict) and any(slot_at(key) == "result" for key in mark)


def _may_be_nested(execution: Execution) -> bool:
    above = execution.node.parent
    return above.kind == "tool" if above is not None else _has_lost_parent(execution)


def _has_lost_parent(execution: Execution) -> bool:
    """Whether it is an MCP span whose parent span is missing."""
    return execution.node.parent is None and execution.node.span.parent_span_id != b"" and execution.is_mcp


def _fold_nested(executions: list[Execution], spans: Sequence[Span]) -> list[Execution]:
    """Fold an execution into one of the same tool that encloses it, with no agent or model call in between."""
    by_node = {execution.node: execution for execution in executions}
    for execution in executions:
        for other in execution.also:
            by_node[other] = execution
    into: dict[Execution, Execution] = {}
    apart = _Apart(spans)
    callers: dict[object, list[Execution]] = {}
    for place, execution in enumerate(executions):
        if execution.request_id is not None and not execution.is_mcp_server:
            callers.setdefault(execution.request_id, []).append(execution)
        above = execution.node.parent
        if _has_lost_parent(execution):
            above = _around_in_time(execution, executions[max(0, place - MAX_COMPARED) : place], apart)
        for _ in range(MAX_CHAIN):
            if above is None or above.kind != "tool":
                break
            outer = by_node.get(above)
            if outer is not None and outer is not execution and _is_nested_call(outer, execution):
                while outer in into:
                    outer = into[outer]
                if outer is not execution:
                    into[execution] = outer
                break
            above = above.parent
    for execution in executions:
        if execution.is_mcp_server and execution not in into:
            seen = callers.get(execution.request_id, [])
            caller = next((e for e in seen[-MAX_COMPARED:] if e not in into and _is_nested_call(e, execution)), None)
            if caller is not None:
                seen.remove(caller)  # one to one
                into[execution] = caller
    for execution in executions:
        outer = execution
        while outer in into:
            outer = into[outer]
        if outer is not execution:
            outer.absorb(execution)
    return [execution for execution in executions if execution not in into]


class _Apart:
    """Which spans are in separate trees because a span between them is missing: one of them may enclose the other."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._parents: dict[bytes, bytes] = {}
        self._tops: dict[bytes, bytes] = {}

    def are_apart(self, one: Node, other: Node) -> bool:
        """Whether the two are in separate trees; siblings are in one tree even when their parent is missing."""
        return self._top(one.span.span_id) != self._top(other.span.span_id)

    def _top(self, span_id: bytes) -> bytes:
        """The id of the outermost span around a span, as far as parent ids go; that span itself may be missing."""
        if not self._parents:
            self._parents = {span.span_id: span.parent_span_id for span in self._spans}
        at = span_id
        passed = [at]
        while at not in self._tops and (above := self._parents.get(at)):
            self._tops[at] = at  # a cycle ends here
            passed.append(at := above)
        top = self._tops.get(at, at)
        self._tops.update(dict.fromkeys(passed, top))
        return top


def _around_in_time(execution: Execution, before: Sequence[Execution], apart: _Apart) -> Node | None:
    """The innermost earlier execution that encloses this one in time and may be the same call."""
    end_ns = execution.node.span.end_ns
    around = (e for e in reversed(before) if end_ns <= e.node.span.end_ns and _is_nested_call(e, execution))
    return next((outer.node for outer in around if apart.are_apart(outer.node, execution.node)), None)


def _is_nested_call(outer: Execution, inner: Execution) -> bool:
    mounted = outer.node.span.attributes.get(s.FASTMCP_ORIGINAL_NAME)  # what FastMCP hands the call on as
    if not names_match(outer.name, inner.name) and inner.name != mounted:
        return False
    if outer.call_id is not None and inner.call_id is not None and outer.call_id != inner.call_id:
        return False
    if outer.is_mcp or inner.is_mcp:
        requests = (outer.request_id, inner.request_id)
        return (None in requests or requests[0] == requests[1]) and _arguments_agree(outer, inner)
    one, other = outer.node.span, inner.node.span
    if not (one.start_ns <= other.start_ns and other.end_ns <= one.end_ns):
        return False
    if outer.arguments.is_readable and inner.arguments.is_readable:
        return _arguments_agree(outer, inner) or is_flattened_form(inner.arguments.value, outer.arguments.value)
    # What has no arguments shows none where they are written flattened.
    return one.scope != other.scope or (outer.arguments.value == {} and inner.arguments.status == "absent")


def _fold_near(executions: list[Execution], chat_scopes: set[str]) -> list[Execution]:
    """Fold calls that two instrumentations show side by side; the one that also shows the model calls stays."""
    gone: set[Execution] = set()
    by_name: dict[str, list[Execution]] = {}
    for execution in executions:
        seen = by_name.setdefault(execution.name, [])
        start_ns = execution.node.span.start_ns
        seen[:] = [other for other in seen if start_ns - other.node.span.start_ns <= NEAR_NS][-MAX_COMPARED:]
        twin = next((other for other in seen if _is_twin(other, execution)), None)
        if twin is None:
            seen.append(execution)
            continue
        seen.remove(twin)  # one to one
        keep, drop = sorted((twin, execution), key=lambda e: (e.node.span.scope not in chat_scopes, e is execution))
        keep.absorb(drop)
        gone.add(drop)
    return [execution for execution in executions if execution not in gone]


def _is_twin(one: Execution, other: Execution) -> bool:
    if one.node.span.scope == other.node.span.scope:
        return False
    if one.call_id is not None and other.call_id is not None and one.call_id != other.call_id:
        return False
    if one.is_mcp and other.is_mcp and not (one.arguments.is_readable and other.arguments.is_readable):
        return False  # calls at one time look the same without their arguments
    return abs(one.node.span.end_ns - other.node.span.end_ns) <= NEAR_NS and _arguments_agree(one, other)


def _arguments_agree(one: Execution, other: Execution) -> bool:
    """Whether the arguments are equal; true where one of them is not readable."""
    if not one.arguments.is_readable or not other.arguments.is_readable:
        return True
    return one.arguments.value == other.arguments.value or canonical(one.arguments.value) == canonical(
        other.arguments.value
    )


def _merge(first: Execution, second: Execution) -> Execution:
    """Merge two executions of one call into the outer one, or the one that started first; returns it."""
    if first.node.is_below(second.node):
        first, second = second, first
    first.absorb(second)
    return first
