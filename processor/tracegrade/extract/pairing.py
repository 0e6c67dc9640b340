"""Requests, executions and results of one trace, joined: one `ToolCall` for each real call."""

from collections.abc import Callable, Sequence

from tracegrade.extract.asks import Ask
from tracegrade.extract.folding import short_name
from tracegrade.extract.histories import beyond
from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import Message, RequestedCall, ShownResult, SpanKind
from tracegrade.extract.tool_spans import Execution, read_arguments
from tracegrade.extract.turns import Turns
from tracegrade.extract.unwrap import Output, properties
from tracegrade.extract.values import ABSENT, Decoded, canonical, decode, first_text
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolError

# Calls without a known place among the requests come after those that have one, at the same start.
_UNASKED = 1 << 60
_MAX_SAME_ID = 32
_UUID_LENGTH = 36


class PairedCall:
    """A call on its way to becoming a `ToolCall`: an execution, a request, or both."""

    __slots__ = ("arguments", "ask", "error", "execution", "node", "output")

    def __init__(self, execution: Execution | None, ask: Ask | None, node: Node) -> None:
        self.execution = execution
        self.ask = ask
        self.node = node
        self.arguments: Decoded = execution.arguments if execution is not None else ABSENT
        self.output: Decoded = execution.output if execution is not None else ABSENT
        self.error: ToolError | None = execution.error if execution is not None else None


def _order(paired: PairedCall) -> tuple[int, int, int, bytes]:
    """The one total order: start, position in the asking message, end, span id."""
    span = paired.node.span
    return span.start_ns, paired.ask.order if paired.ask is not None else _UNASKED, span.end_ns, span.span_id


def pair(executions: Sequence[Execution], asks: Sequence[Ask], nodes: Sequence[Node], turns: Turns) -> list[PairedCall]:
    """Join executions with the requests for them, and both with the results that later messages show.

    A request that no tool span shows is a call of its own, unless its run has tool spans, no later message shows a
    result and no agent of that name ran: then it was asked for and never run (the run was aborted, or it was the
    framework's way to end the run).

    Args:
        executions: one for each call.
        asks: one for each request, in order.
        nodes: all nodes, in order of start.
        turns: their model calls, one after another.
    """
    asked_by = _match(executions, asks)
    _drop_handoffs(asks, nodes)
    results = _Results(nodes, turns)
    schemas = _Schemas(nodes)
    calls = []
    for execution in _with_refused_attempts(executions):
        paired = PairedCall(execution, asked_by.get(execution), execution.node)
        _complete(paired, results, schemas)
        calls.append(paired)
    runs_with_spans = {execution.node.run for execution in executions}
    called_agents = _CalledAgents(nodes)
    for ask in asks:
        if ask.taken:
            continue
        shown = results.of(ask) or called_agents.result_of(ask)
        if shown is not None and not shown.failed and results.failed_elsewhere(shown):
            shown = shown._replace(failed=True)
        if shown is None and ask.node.run in runs_with_spans:
            continue
        calls.append(_from_message(ask, shown, schemas))
    calls.sort(key=_order)
    return calls


def _with_refused_attempts(executions: Sequence[Execution]) -> list[Execution]:
    """A call that was refused before its tool ran is an attempt at the next one of that tool in the run, if any."""
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


def _match(executions: Sequence[Execution], asks: Sequence[Ask]) -> dict[Execution, Ask]:
    """Which request each execution answers: by call id, else by name and arguments in order, else by name in order."""
    matched: dict[Execution, Ask] = {}
    if not asks:
        return matched
    by_id: dict[str, list[Ask]] = {}
    for ask in asks:
        if ask.call.call_id is not None:
            by_id.setdefault(ask.call.call_id, []).append(ask)
    rest: list[Execution] = []
    for execution in executions:
        found = _by_id(execution, by_id)
        if found is not None:
            found.taken = True
            matched[execution] = found
        else:
            rest.append(execution)
    for key_of_execution, key_of_ask in _PASSES:
        if rest:
            waiting = _waiting(asks, key_of_ask)
            rest = [
                execution for execution in rest if not _take(execution, key_of_execution(execution), waiting, matched)
            ]
    return matched


def _waiting(asks: Sequence[Ask], key_of_ask: Callable[[Ask], object]) -> dict[tuple[object, bool], list[Ask]]:
    """The requests not yet answered by key and whether they have an id, the first one last."""
    waiting: dict[tuple[object, bool], list[Ask]] = {}
    for ask in reversed(asks):
        if not ask.taken:
            waiting.setdefault((key_of_ask(ask), ask.call.call_id is not None), []).append(ask)
    return waiting


def _take(
    execution: Execution,
    key: object,
    waiting: dict[tuple[object, bool], list[Ask]],
    matched: dict[Execution, Ask],
) -> bool:
    # Two ids that differ are two calls, but some senders record a run's UUID where they know no id.
    is_certain = execution.call_id is not None and len(execution.call_id) != _UUID_LENGTH
    candidates = waiting.get((key, False)) or (None if is_certain else waiting.get((key, True)))
    if not candidates:
        return False
    ask = candidates.pop(_latest_before(execution.node.span.start_ns, candidates))
    ask.taken = True
    matched[execution] = ask
    return True


def _latest_before(start_ns: int, candidates: Sequence[Ask]) -> int:
    """The place of the first request that the latest model call before `start_ns` made, else of the very first one.

    An earlier model call's is left then: the span of what it asked for is missing.
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


def _by_id(execution: Execution, by_id: dict[str, list[Ask]]) -> Ask | None:
    if execution.call_id is None:
        return None
    candidates = by_id.get(execution.call_id)
    if candidates is None:
        return None
    if len(candidates) == 1 and candidates[0].call.name == execution.name and not candidates[0].taken:
        return candidates[0]  # nearly all
    candidates = [ask for ask in candidates[:_MAX_SAME_ID] if not ask.taken]
    same_name = [ask for ask in candidates if short_name(ask.call.name) == short_name(execution.name)]
    # Some frameworks name a tool's class; another run's call of another name is one that has the same id by chance.
    same_run = [ask for ask in same_name or candidates if ask.node.run is execution.node.run]
    return next(iter(same_run or same_name), None)


def _ask_arguments(ask: Ask) -> str:
    return canonical(read_arguments(ask.call.arguments, None).value)


_PASSES: tuple[tuple[Callable[[Execution], object], Callable[[Ask], object]], ...] = (
    (
        lambda e: (e.node.run, short_name(e.name), canonical(e.arguments.value)),
        lambda a: (a.node.run, short_name(a.call.name), _ask_arguments(a)),
    ),
    (lambda e: (e.node.run, short_name(e.name)), lambda a: (a.node.run, short_name(a.call.name))),
    (lambda e: short_name(e.name), lambda a: short_name(a.call.name)),
)


def _drop_handoffs(asks: Sequence[Ask], nodes: Sequence[Node]) -> None:
    """The request that a handoff span answers is no tool call: take the latest one before it that nothing answers."""
    handoffs = [node for node in nodes if node.kind == "handoff"]
    waiting: dict[Node | None, list[Ask]] = {}
    known = 0
    for node in handoffs:
        while known < len(asks) and asks[known].node.span.start_ns <= node.span.start_ns:
            waiting.setdefault(asks[known].node.run, []).append(asks[known])
            known += 1
        before = waiting.get(node.run, [])
        while before:
            ask = before.pop()
            if not ask.taken:
                ask.taken = True
                break


def _complete(paired: PairedCall, results: "_Results", schemas: "_Schemas") -> None:
    """Fill in from messages what the tool span does not hold."""
    execution, ask = paired.execution, paired.ask
    if execution is None:
        return
    if type(paired.arguments.value) is not dict or paired.arguments.status == "text":
        if ask is not None:
            asked = read_arguments(ask.call.arguments, None)
            if isinstance(asked.value, dict):
                paired.arguments = asked
        if paired.arguments.status == "text" and execution.parameters is None:
            paired.arguments = read_arguments(execution.raw_arguments, schemas.of(execution.name))
    if paired.error is None and paired.output.status in ("absent", "redacted", "truncated"):
        shown = results.of(ask) if ask is not None else results.by_id(execution.call_id, execution.name, paired.node)
        if shown is not None:
            output = paired.node.dialect.read_output(paired.node.span, shown.output)
            if output.result.status != "absent":
                paired.output = output.result
                paired.error = message_error(output, shown)


def _from_message(ask: Ask, shown: ShownResult | None, schemas: "_Schemas") -> PairedCall:
    paired = PairedCall(None, ask, ask.node)
    paired.arguments = decode(ask.call.arguments)
    if type(paired.arguments.value) is not dict or "kwargs" in paired.arguments.value:
        paired.arguments = read_arguments(ask.call.arguments, schemas.of(ask.call.name))
    if shown is not None:
        output = ask.node.dialect.read_output(ask.node.span, shown.output)
        paired.output = output.result
        paired.error = message_error(output, shown)
        if ask.call.call_id is None and shown.call_id is not None:
            ask.call = ask.call._replace(call_id=shown.call_id)
    return paired


def message_error(output: Output, shown: ShownResult) -> ToolError | None:
    """The failure that a result in a message is; None for one that is none."""
    if not output.failed and not shown.failed:
        return None
    value = output.result.value
    return ToolError("", value if isinstance(value, str) else "")


class _CalledAgents:
    """Runs within runs: some frameworks show an agent that is called as a tool by its own span alone."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._waiting: list[Node] | None = None

    def result_of(self, ask: Ask) -> ShownResult | None:
        """What the next agent answered that has the name asked for and ran within the asking run; each answers once."""
        if self._waiting is None:
            self._waiting = [node for node in self._nodes if node.run is node and node.parent is not None]
        for node in self._waiting:
            is_within = node.parent is not None and node.parent.run is ask.node.run
            if is_within and node.agent == ask.call.name and node.span.start_ns >= ask.node.span.start_ns:
                self._waiting.remove(node)
                outputs = node.outputs()
                text = outputs[-1].text if outputs else first_text(node.span, node.keys.answer)
                return ShownResult(ask.call.call_id, text or None)
        return None


class _Results:
    """What later messages tell the model about calls. Reads no message before it is asked."""

    def __init__(self, nodes: Sequence[Node], turns: Turns) -> None:
        self._nodes = nodes
        self._turns = turns
        self._trailing: dict[Node, tuple[list[RequestedCall], list[ShownResult]]] = {}
        self._by_id: dict[tuple[str, str], dict[Node | None, ShownResult]] | None = None
        self._failures: set[tuple[str, str]] | None = None

    def failed_elsewhere(self, shown: ShownResult) -> bool:
        """Whether an agent put out the same text of the same call as a failure, which many clients cannot say."""
        if self._failures is None:
            self._failures = {
                (result.call_id, result.output)
                for agent in self._of_kind("agent")
                for message in agent.outputs()
                for result in message.results
                if result.failed and result.call_id is not None and isinstance(result.output, str)
            }
        return isinstance(shown.output, str) and (shown.call_id, shown.output) in self._failures

    def of(self, ask: Ask) -> ShownResult | None:
        """The result of a requested call: in the asking run's next model call, else anywhere by its id."""
        following = self._turns.after(ask.node)
        wanted = ask.call.call_id
        if following is None:
            return self.by_id(wanted, ask.call.name, ask.node)
        asked, trailing = self._trailing_of(following)
        if wanted is None:
            is_asked = not asked or any(call.name == ask.call.name for call in asked)
            return trailing[ask.position] if is_asked and ask.position < len(trailing) else None
        found = next((result for result in trailing if result.call_id == wanted), None)
        return found or _at_its_place(ask, asked, trailing) or self.by_id(wanted, ask.call.name, ask.node)

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
        """Keep the results in some messages, by call id and name ("" where no message asks for the call)."""
        assert self._by_id is not None
        names: dict[str | None, str] = {}
        told: dict[tuple[str, str], ShownResult] = {}
        for message in messages:
            for call in message.calls:
                names[call.call_id] = short_name(call.name)
            for result in message.results:
                if result.call_id is not None:
                    key = (result.call_id, names.get(result.call_id, ""))
                    if key not in told or _says_more(result, told[key]):
                        told[key] = result
        for key, result in told.items():
            self._by_id.setdefault(key, {}).setdefault(run, result)

    def _of_kind(self, kind: SpanKind) -> list[Node]:
        return [node for node in self._nodes if node.kind == kind]

    def _trailing_of(self, chat: Node) -> tuple[list[RequestedCall], list[ShownResult]]:
        """The results at the end of the history that a model call was given, and the calls that they are of.

        They are those of the model call before it, unless that one's span is missing. No calls: no message shows them.
        """
        if chat not in self._trailing:
            asked: list[RequestedCall] = []
            found: list[ShownResult] = []
            for message in self._turns.new_inputs(chat):
                if message.calls:
                    if found:  # else one turn, a message for each of its calls
                        asked, found = [], []
                    asked += message.calls
                for result in message.results:
                    _add_result(found, result)
            self._trailing[chat] = asked, found
        return self._trailing[chat]


def _at_its_place(ask: Ask, asked: Sequence[RequestedCall], results: Sequence[ShownResult]) -> ShownResult | None:
    """The result at the call's place, where results have ids that no call has, or none: some senders make them up."""
    if len(asked) != len(results) or ask.position >= len(asked) or asked[ask.position].call_id != ask.call.call_id:
        return None
    known = {call.call_id for call in asked}
    return results[ask.position] if all(result.call_id not in known for result in results) else None


def _add_result(found: list[ShownResult], result: ShownResult) -> None:
    """Append a result, unless it is shown already: requests are recorded in two ways, of which one says it failed."""
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
    """The tool definitions that model calls were given; read when first asked for."""

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
