"""Pairing: the requests, executions and results of one trace are joined, one `PairedCall` for each real call.

A model *requests* a call in an assistant message, a tool span shows its *execution*, and a later message shows its
*result* to the model. Senders record any of the three, or none of the ids by which they belong together. A worked
example, which `tests/extract/gen_ai/worked_example_of_pairing.yaml` repeats::

    agent shop          0-100
      chat              5-20    asks for: a find_order {id: 7}, b refund {id: 7}
      tool find_order   21-30   call id a, no arguments recorded, result {total: 40}
      chat              40-60   is given: a -> {total: 40}, b -> "done"; asks for: c send_mail {}

1. Requests, in order: a, b, c.
2. The tool span has call id a, so it is the execution of request a. (Without ids: the request of the same run, name
   and arguments; else of the same run and name; else of the same name.)
3. The span lacks the arguments: they are taken from the request, {id: 7}. It has a result, which stays.
4. Request b has no tool span, but the next model call is given its result: it was executed, and is a call read from
   messages, with output "done". Request c has neither, in a run that has tool spans: it was never executed, and is no
   call.
5. Calls by start: refund (the start of the message that requests it, 5), find_order (21).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tracegrade.extract.decode.unwrap import Output, properties
from tracegrade.extract.decode.values import ABSENT, Decoded, canonical, decode, first_text
from tracegrade.extract.folding import short_name
from tracegrade.extract.histories import beyond
from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import Message, RequestedCall, ShownResult, SpanKind
from tracegrade.extract.tool_requests import ToolRequest
from tracegrade.extract.tool_spans import Execution, call_id_of, read_arguments, read_execution
from tracegrade.extract.turns import Turns
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolError

# Calls without a known place among the requests come after those that have one, at the same start.
_UNREQUESTED = 1 << 60
_MAX_SAME_ID = 32
_UUID_LENGTH = 36


class PairedCall:
    """One real call, before it becomes a `ToolCall`: an execution, a request, or both."""

    __slots__ = ("arguments", "error", "execution", "node", "output", "request")

    def __init__(self, execution: Execution | None, request: ToolRequest | None, node: Node) -> None:
        self.execution = execution
        self.request = request
        self.node = node
        self.arguments: Decoded = execution.arguments if execution is not None else ABSENT
        self.output: Decoded = execution.output if execution is not None else ABSENT
        self.error: ToolError | None = execution.error if execution is not None else None


def _order(paired: PairedCall) -> tuple[int, int, int, bytes]:
    """The one total order: start, position in the requesting message, end, span id."""
    span = paired.node.span
    return (
        span.start_ns,
        paired.request.order if paired.request is not None else _UNREQUESTED,
        span.end_ns,
        span.span_id,
    )


def pair(
    executions: Sequence[Execution], requests: Sequence[ToolRequest], nodes: Sequence[Node], turns: Turns
) -> list[PairedCall]:
    """Join executions with the requests for them, and both with the results that later messages show.

    A request that no tool span shows is a call of its own, unless its run has tool spans, no later message shows a
    result and no agent of that name ran: then it was requested and never run (the run was aborted, or it was the
    framework's way to end the run).

    Args:
        executions: one for each call.
        requests: one for each request, in order.
        nodes: all nodes, in order of start.
        turns: their model calls, one after another.
    """
    requested_by = _match(executions, requests)
    _drop_handoffs(requests, nodes)
    results = _Results(nodes, turns)
    schemas = _Schemas(nodes)
    calls = []
    for execution in _with_refused_attempts(executions):
        paired = PairedCall(execution, requested_by.get(execution), execution.node)
        _complete(paired, results, schemas)
        calls.append(paired)
    runs_with_spans = {execution.node.run for execution in executions}
    called_agents = _CalledAgents(nodes)
    for request in requests:
        if request.taken:
            continue
        shown = results.of(request) or called_agents.result_of(request)
        if shown is not None and not shown.failed and results.failed_elsewhere(shown):
            shown = shown._replace(failed=True)
        if shown is None and request.node.run in runs_with_spans:
            continue
        calls.append(_from_message(request, shown, schemas))
    calls.sort(key=_order)
    return calls


def named_by_requests(
    tools: Sequence[Node], executions: Sequence[Execution], requests: Sequence[ToolRequest]
) -> tuple[list[Execution], list[Node]]:
    """Read tool spans that do not name their tool by the request that has their call id, or their span's name.

    Args:
        tools: the tool spans, in order of start.
        executions: those that name their tool.
        requests: the requests of the trace, in order.

    Returns:
        The executions of all spans whose tool is known, in order of start, and the spans whose tool is not.
    """
    by_id: dict[str, set[str]] = {}
    for request in requests:
        if request.call.call_id is not None:
            by_id.setdefault(request.call.call_id, set()).add(request.call.name)
    names = {request.call.name for request in requests}
    known = {execution.node: execution for execution in executions}
    read: list[Execution] = []
    unnamed: list[Node] = []
    for node in tools:
        execution = known.get(node)
        if execution is None:
            asked = by_id.get(call_id_of(node) or "", set())
            name = next(iter(asked)) if len(asked) == 1 else node.span.name if node.span.name in names else ""
            execution = read_execution(node, name)
        if execution is None:
            unnamed.append(node)
        else:
            read.append(execution)
    return read, unnamed


def _with_refused_attempts(executions: Sequence[Execution]) -> list[Execution]:
    """Count a call that was refused before its tool ran as an attempt of the next call of that tool in the run."""
    if all(execution.error is None for execution in executions):
        return list(executions)  # nearly always: whoever refuses a call says so
    kept: list[Execution] = []
    following: dict[tuple[Node | None, str], Execution] = {}
    for execution in reversed(executions):
        place = (execution.node.run, execution.name)
        retry = following.get(place)
        if execution.is_refused and retry is not None:
            retry.refused_before += 1 + execution.refused_before
            retry.also += (execution.node, *execution.also)
        else:
            following[place] = execution
            kept.append(execution)
    kept.reverse()
    return kept


def _match(executions: Sequence[Execution], requests: Sequence[ToolRequest]) -> dict[Execution, ToolRequest]:
    """Which request each execution answers: by call id, else by name and arguments in order, else by name in order."""
    matched: dict[Execution, ToolRequest] = {}
    if not requests:
        return matched
    by_id: dict[str, list[ToolRequest]] = {}
    for request in requests:
        if request.call.call_id is not None:
            by_id.setdefault(request.call.call_id, []).append(request)
    rest: list[Execution] = []
    for execution in executions:
        found = _by_id(execution, by_id)
        if found is not None:
            found.taken = True
            matched[execution] = found
        else:
            rest.append(execution)
    for key_of_execution, key_of_request in _PASSES:
        if rest:
            waiting = _waiting(requests, key_of_request)
            rest = [
                execution for execution in rest if not _take(execution, key_of_execution(execution), waiting, matched)
            ]
    return matched


def _waiting(
    requests: Sequence[ToolRequest], key_of_request: Callable[[ToolRequest], object]
) -> dict[tuple[object, bool], list[ToolRequest]]:
    """The requests without an execution, by key and whether they have an id; in reverse order."""
    waiting: dict[tuple[object, bool], list[ToolRequest]] = {}
    for request in reversed(requests):
        if not request.taken:
            waiting.setdefault((key_of_request(request), request.call.call_id is not None), []).append(request)
    return waiting


def _take(
    execution: Execution,
    key: object,
    waiting: dict[tuple[object, bool], list[ToolRequest]],
    matched: dict[Execution, ToolRequest],
) -> bool:
    # Two ids that differ are two calls, but some senders record a run's UUID where they know no id.
    is_certain = execution.call_id is not None and len(execution.call_id) != _UUID_LENGTH
    candidates = waiting.get((key, False)) or (None if is_certain else waiting.get((key, True)))
    if not candidates:
        return False
    request = candidates.pop(_latest_before(execution.node.span.start_ns, candidates))
    request.taken = True
    matched[execution] = request
    return True


def _latest_before(start_ns: int, candidates: Sequence[ToolRequest]) -> int:
    """The index of the first request of the latest model call before `start_ns`, else of the first request.

    Requests of earlier model calls are passed over: the spans of their calls are missing.
    """
    last = len(candidates) - 1
    found = last
    for place in range(last - 1, max(last - _MAX_SAME_ID, -1), -1):
        node = candidates[place].node
        if node.span.start_ns > start_ns:
            break
        if node is not candidates[found].node:
            found = place
    return found


def _by_id(execution: Execution, by_id: dict[str, list[ToolRequest]]) -> ToolRequest | None:
    if execution.call_id is None:
        return None
    candidates = by_id.get(execution.call_id)
    if candidates is None:
        return None
    if len(candidates) == 1 and candidates[0].call.name == execution.name and not candidates[0].taken:
        return candidates[0]  # nearly all
    candidates = [request for request in candidates[:_MAX_SAME_ID] if not request.taken]
    same_name = [request for request in candidates if short_name(request.call.name) == short_name(execution.name)]
    # Some frameworks name a tool's class; another run's call of another name is one that has the same id by chance.
    same_run = [request for request in same_name or candidates if request.node.run is execution.node.run]
    return next(iter(same_run or same_name), None)


def _requested_arguments(request: ToolRequest) -> str:
    return canonical(read_arguments(request.call.arguments, None).value)


_PASSES: tuple[tuple[Callable[[Execution], object], Callable[[ToolRequest], object]], ...] = (
    (
        lambda e: (e.node.run, short_name(e.name), canonical(e.arguments.value)),
        lambda r: (r.node.run, short_name(r.call.name), _requested_arguments(r)),
    ),
    (lambda e: (e.node.run, short_name(e.name)), lambda r: (r.node.run, short_name(r.call.name))),
    (lambda e: short_name(e.name), lambda r: short_name(r.call.name)),
)


def _drop_handoffs(requests: Sequence[ToolRequest], nodes: Sequence[Node]) -> None:
    """Mark the requests that handoff spans answer, which are no tool calls: the latest open request before each."""
    handoffs = [node for node in nodes if node.kind == "handoff"]
    waiting: dict[Node | None, list[ToolRequest]] = {}
    known = 0
    for node in handoffs:
        while known < len(requests) and requests[known].node.span.start_ns <= node.span.start_ns:
            waiting.setdefault(requests[known].node.run, []).append(requests[known])
            known += 1
        before = waiting.get(node.run, [])
        while before:
            request = before.pop()
            if not request.taken:
                request.taken = True
                break


def _complete(paired: PairedCall, results: "_Results", schemas: "_Schemas") -> None:
    """Fill in arguments, output and error from messages where the tool span does not hold them."""
    execution, request = paired.execution, paired.request
    if execution is None:
        return
    if type(paired.arguments.value) is not dict or paired.arguments.status == "text":
        if request is not None:
            requested = read_arguments(request.call.arguments, None)
            if isinstance(requested.value, dict):
                paired.arguments = requested
        if paired.arguments.status == "text" and execution.parameters is None:
            paired.arguments = read_arguments(execution.raw_arguments, schemas.of(execution.name))
    if paired.error is None and paired.output.status in ("absent", "redacted", "truncated"):
        shown = (
            results.of(request)
            if request is not None
            else results.by_id(execution.call_id, execution.name, paired.node)
        )
        if shown is not None:
            output = paired.node.dialect.read_output(paired.node.span, shown.output)
            if output.result.status != "absent":
                paired.output = output.result
                paired.error = message_error(output, shown)


def _from_message(request: ToolRequest, shown: ShownResult | None, schemas: "_Schemas") -> PairedCall:
    paired = PairedCall(None, request, request.node)
    paired.arguments = decode(request.call.arguments)
    if type(paired.arguments.value) is not dict or "kwargs" in paired.arguments.value:
        paired.arguments = read_arguments(request.call.arguments, schemas.of(request.call.name))
    if shown is not None:
        output = request.node.dialect.read_output(request.node.span, shown.output)
        paired.output = output.result
        paired.error = message_error(output, shown)
        if request.call.call_id is None and shown.call_id is not None:
            request.call = request.call._replace(call_id=shown.call_id)
    return paired


def message_error(output: Output, shown: ShownResult) -> ToolError | None:
    """The error that a result in a message reports; None where it reports none."""
    return replace(output, failed=output.failed or shown.failed).said_error()


class _CalledAgents:
    """Agents that are called as tools: some frameworks write the agent's span alone, without a tool span."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._waiting: list[Node] | None = None

    def result_of(self, request: ToolRequest) -> ShownResult | None:
        """The answer of the next agent run of the requested name within the requesting run; each run answers once."""
        if self._waiting is None:
            self._waiting = [node for node in self._nodes if node.run is node and node.parent is not None]
        for node in self._waiting:
            is_within = node.parent is not None and node.parent.run is request.node.run
            if is_within and node.agent == request.call.name and node.span.start_ns >= request.node.span.start_ns:
                self._waiting.remove(node)
                outputs = node.outputs()
                text = outputs[-1].text if outputs else first_text(node.span, node.keys.answer)
                return ShownResult(request.call.call_id, text or None)
        return None


class _Results:
    """The results of calls that later messages show. Messages are read only when they are needed."""

    def __init__(self, nodes: Sequence[Node], turns: Turns) -> None:
        self._nodes = nodes
        self._turns = turns
        self._trailing: dict[Node, tuple[list[RequestedCall], list[ShownResult]]] = {}
        self._by_id: dict[tuple[str, str], dict[Node | None, ShownResult]] | None = None
        self._failures: set[tuple[str, str]] | None = None

    def failed_elsewhere(self, shown: ShownResult) -> bool:
        """Whether an agent's output shows the same result as failed; inputs of model calls often cannot say so."""
        if self._failures is None:
            self._failures = {
                (result.call_id, result.output)
                for agent in self._of_kind("agent")
                for message in agent.outputs()
                for result in message.results
                if result.failed and result.call_id is not None and isinstance(result.output, str)
            }
        return isinstance(shown.output, str) and (shown.call_id, shown.output) in self._failures

    def of(self, request: ToolRequest) -> ShownResult | None:
        """The result of a requested call: in the next model call of the same run, else anywhere by its id."""
        following = self._turns.after(request.node)
        call_id = request.call.call_id
        if following is None:
            return self.by_id(call_id, request.call.name, request.node)
        requested, trailing = self._trailing_of(following)
        if call_id is None:
            is_requested = not requested or any(call.name == request.call.name for call in requested)
            return trailing[request.position] if is_requested and request.position < len(trailing) else None
        found = next((result for result in trailing if result.call_id == call_id), None)
        return (
            found or _at_its_place(request, requested, trailing) or self.by_id(call_id, request.call.name, request.node)
        )

    def by_id(self, call_id: str | None, name: str, node: Node) -> ShownResult | None:
        """The first result shown for a call id, in the order of model calls, else in what an agent put out.

        Ids may be used again: where the history names the tool, it is this one; a result in the run of `node` is
        preferred to one in another's history.
        """
        if call_id is None:
            return None
        if self._by_id is None:
            self._by_id = {}
            for chat in self._of_kind("chat"):
                self._note(chat.run, (*self._turns.new_inputs(chat), *chat.outputs()))
            for agent in self._of_kind("agent"):
                self._note(agent.run, agent.outputs())
        for named in (short_name(name), ""):
            if (shown := self._by_id.get((call_id, named))) is not None:
                return shown.get(node.run) or next(iter(shown.values()))
        return None

    def _note(self, run: Node | None, messages: Sequence[Message]) -> None:
        """Keep the results in some messages, by call id and name ("" where no message shows the request)."""
        assert self._by_id is not None
        names: dict[str | None, str] = {}
        results: dict[tuple[str, str], ShownResult] = {}
        for message in messages:
            for call in message.calls:
                names[call.call_id] = short_name(call.name)
            for result in message.results:
                if result.call_id is not None:
                    key = (result.call_id, names.get(result.call_id, ""))
                    if key not in results or _says_more(result, results[key]):
                        results[key] = result
        for key, result in results.items():
            self._by_id.setdefault(key, {}).setdefault(run, result)

    def _of_kind(self, kind: SpanKind) -> list[Node]:
        return [node for node in self._nodes if node.kind == kind]

    def _trailing_of(self, chat: Node) -> tuple[list[RequestedCall], list[ShownResult]]:
        """The results at the end of the history that a model call was given, and the calls that they are of.

        They are those of the model call before it, unless that one's span is missing. No calls: no message shows them.
        """
        if chat not in self._trailing:
            requested: list[RequestedCall] = []
            found: list[ShownResult] = []
            for message in self._turns.new_inputs(chat):
                if message.calls:
                    if found:  # else one turn, a message for each of its calls
                        requested, found = [], []
                    requested += message.calls
                for result in message.results:
                    _add_result(found, result)
            self._trailing[chat] = requested, found
        return self._trailing[chat]


def _at_its_place(
    request: ToolRequest, requested: Sequence[RequestedCall], results: Sequence[ShownResult]
) -> ShownResult | None:
    """The result at the same position as the call, where no result has the id of any call: some senders invent ids."""
    if (
        len(requested) != len(results)
        or request.position >= len(requested)
        or requested[request.position].call_id != request.call.call_id
    ):
        return None
    known = {call.call_id for call in requested}
    return results[request.position] if all(result.call_id not in known for result in results) else None


def _add_result(found: list[ShownResult], result: ShownResult) -> None:
    """Append a result unless it is there already; of two records of one result, the one that says it failed stays."""
    for place, seen in enumerate(found):
        if result.call_id is not None and seen.call_id == result.call_id:
            if _says_more(result, seen):
                found[place] = result
            return
    found.append(result)


def _says_more(result: ShownResult, seen: ShownResult) -> bool:
    """Whether `result`, of the same call in the same request, says that it failed and `seen` does not."""
    return result.failed and not seen.failed


class _Schemas:
    """The tool definitions that model calls were given; read when first needed."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._found: dict[str, JsonValue] | None = None

    def of(self, name: str) -> dict[str, JsonValue] | None:
        """The parameters of a tool in their order, None where no definition is shown."""
        if self._found is None:
            self._found = {}
            before: Node | None = None
            for node in self._nodes:
                if node.kind != "tool":
                    dialect, span = node.dialect, node.span
                    if before is not None and before.dialect is dialect:  # most model calls are given the same tools
                        span = beyond(span, before.span, dialect.prefixes).span
                    for tool, schema in dialect.schemas(span).items():
                        self._found.setdefault(tool, schema)
                    before = node
        return properties(self._found.get(name))
