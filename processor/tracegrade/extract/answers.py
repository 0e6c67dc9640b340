"""Answers: the results of calls that later messages show, those of agents called as tools, and the tools' schemas."""

from bisect import bisect_left
from collections.abc import Sequence

from tracegrade.extract.decode.unwrap import properties
from tracegrade.extract.decode.values import canonical, decode, first_text
from tracegrade.extract.folding import short_name
from tracegrade.extract.histories import beyond
from tracegrade.extract.messages import ASSISTANT_ROLES, USER_ROLES
from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import Message, RequestedCall, ShownResult
from tracegrade.extract.tool_requests import ToolRequest
from tracegrade.extract.tool_spans import Execution
from tracegrade.extract.turns import Turns
from tracegrade.model.json_value import JsonValue


class CalledAgents:
    """Agents that are called as tools: some frameworks write the agent's span alone, without a tool span."""

    def __init__(self, agents: Sequence[Node]) -> None:
        self._agents = agents
        self._waiting: list[Node] | None = None

    def result_of(self, request: ToolRequest) -> ShownResult | None:
        """The answer of the next agent run of the requested name within the requesting run; each run answers once."""
        if self._waiting is None:
            self._waiting = [node for node in self._agents if node.run is node and node.parent is not None]
        for node in self._waiting:
            is_within = node.parent is not None and node.parent.run is request.node.run
            if is_within and node.agent == request.call.name and node.span.start_ns >= request.node.span.start_ns:
                self._waiting.remove(node)
                outputs = node.outputs()
                text = outputs[-1].text if outputs else first_text(node.span, node.keys.answer)
                return ShownResult(request.call.call_id, text or None)
        return None


class Answers:
    """The results of calls that later messages show. Messages are read only when they are needed."""

    def __init__(self, turns: Turns, agents: Sequence[Node]) -> None:
        self._turns = turns
        self._agents = agents
        self._trailing: dict[Node, tuple[list[RequestedCall], list[ShownResult]]] = {}
        self._by_id: dict[tuple[str, str], dict[Node | None, ShownResult]] | None = None
        self._failures: set[tuple[str, str]] | None = None

    def failed_elsewhere(self, shown: ShownResult) -> bool:
        """Whether an agent's output shows the same result as failed; inputs of model calls often cannot say so."""
        if self._failures is None:
            self._failures = {
                (result.call_id, result.output)
                for agent in self._agents
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
            found
            or _at_its_place(request, requested, trailing)
            or self.by_id(call_id, request.call.name, request.node)
            or (None if trailing else _told_as_user(request, following.inputs()[-2:]))
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
            for chat in self._turns.chats:
                self._note(chat.run, (*self._turns.new_inputs(chat), *chat.outputs()))
            for agent in self._agents:
                self._note(agent.run, agent.outputs())
        for named in (short_name(name), ""):
            if (shown := self._by_id.get((call_id, named))) is not None:
                return shown.get(node.run) or next(iter(shown.values()))
        return None

    def in_place_of(self, executions: Sequence[Execution]) -> dict[Execution, ShownResult]:
        """The results of executions that are shown without ids: each at its place.

        A model call is then given as many results as tools ran before it, since the model call before that, and calls
        of these tools or none.

        Args:
            executions: in order of start.
        """
        chats = self._turns.chats
        given: dict[Node, list[Execution]] = {}
        for execution in executions:
            following = _next_for(execution.node, chats)
            if following is not None:
                given.setdefault(following, []).append(execution)
        found: dict[Execution, ShownResult] = {}
        for chat, ran in given.items():
            requested, results = self._trailing_of(chat)
            if len(results) != len(ran) or any(result.call_id is not None for result in results):
                continue
            if requested:
                ran = _in_order_of(requested, ran)
            found.update(zip(ran, results, strict=True) if ran else ())
        return found

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

    def _trailing_of(self, chat: Node) -> tuple[list[RequestedCall], list[ShownResult]]:
        """The results at the end of the history that a model call was given, and the calls that they are of.

        They are those of the model call before it, unless that one's span is missing. No calls: no message shows them,
        and what a model said, though it shows no calls, is between the results of one model call and the next.
        """
        if chat not in self._trailing:
            requested: list[RequestedCall] = []
            found: list[ShownResult] = []
            is_between = False
            for message in self._turns.new_inputs(chat):
                is_between = is_between or (message.role in ASSISTANT_ROLES and not message.results)
                if message.calls:
                    if found:  # else one turn, a message for each of its calls
                        requested, found = [], []
                    requested += message.calls
                for result in message.results:
                    if is_between and not requested:
                        found = []
                    is_between = False
                    _add_result(found, result)
            self._trailing[chat] = requested, found
        return self._trailing[chat]


def _next_for(tool: Node, chats: Sequence[Node]) -> Node | None:
    """The first model call after a tool span in its run, or in one around that; `chats` are in order of start."""
    around: set[Node | None] = set()
    run = tool.run
    while run is not None and run not in around:
        around.add(run)
        run = run.parent.run if run.parent is not None else None
    place = bisect_left(chats, tool.span.end_ns, key=_start_ns)
    return next((chat for chat in chats[place : place + _MAX_PASSED] if chat.run in around), None)


def _start_ns(node: Node) -> int:
    return node.span.start_ns


# How many model calls of other runs are passed over in search of the one that follows a tool.
_MAX_PASSED = 64


def _in_order_of(requested: Sequence[RequestedCall], ran: Sequence[Execution]) -> list[Execution]:
    """Executions in the order of the calls that asked for them; [] where they are not of the same tools."""
    waiting = list(ran)
    ordered = []
    for call in requested:
        execution = next((one for one in waiting if short_name(one.name) == short_name(call.name)), None)
        if execution is None:
            return []
        waiting.remove(execution)
        ordered.append(execution)
    return ordered if not waiting else []


def _at_its_place(
    request: ToolRequest, requested: Sequence[RequestedCall], results: Sequence[ShownResult]
) -> ShownResult | None:
    """The result at the same position as the call, where no result has the id of any call.

    Some senders invent ids for results, and some have none for them, or none in the history.
    """
    if request.position >= len(results) or len(results) != (len(requested) or request.siblings):
        return None
    if requested:
        there = requested[request.position]
        if there.name != request.call.name:
            return None
        if there.call_id not in (None, request.call.call_id):
            return _under_its_new_id(request, requested, results)
    elif any(result.call_id is not None for result in results):
        return None  # without the calls in the history, an id may be that of any call
    known = {call.call_id for call in requested if call.call_id is not None}
    return results[request.position] if all(result.call_id not in known for result in results) else None


def _under_its_new_id(
    request: ToolRequest, requested: Sequence[RequestedCall], results: Sequence[ShownResult]
) -> ShownResult | None:
    """The result of a call in a history whose sender gave all calls new ids; None where that is not certain.

    The history then has the same call at the same place, with its arguments, and the id that the model gave nowhere.
    """
    asked = [call.call_id for message in request.node.outputs() for call in message.calls]
    there = requested[request.position]
    if len(asked) != len(requested) or any(call.call_id in asked for call in requested):
        return None
    if canonical(decode(there.arguments).value) != canonical(decode(request.call.arguments).value):
        return None
    return next((result for result in results if result.call_id == there.call_id), None)


def _told_as_user(request: ToolRequest, last: Sequence[Message]) -> ShownResult | None:
    """The result of a call that smolagents tells as the user; None where it cannot be told from those of other calls.

    A model's calls are written as its text, and what they gave as one text, line by line, so that each is known only
    where there was one call. A failed call is named with its arguments.

    Args:
        request: a call that a model asked for.
        last: the last two messages of the model call after it.
    """
    if len(last) < 2 or last[1].role not in USER_ROLES:
        return None
    call, said, told = request.call, last[0].text, last[1].text
    asked = [(each.name, each.arguments) for message in request.node.outputs() for each in message.calls]
    failed = f"{_FAILED}Error executing tool '{call.name}' with arguments {decode(call.arguments).value}: "
    _, names_it, error = told.rpartition(failed)
    if names_it and _FAILED not in error and asked.count((call.name, call.arguments)) == 1:
        return ShownResult(call.call_id, error.partition(_RETRY)[0], True)
    if not told.startswith(_OBSERVED) or _FAILED in told:
        return None
    calls = decode(said.partition(_CALLING)[2]).value
    only = calls[0] if isinstance(calls, list) and len(calls) == 1 else None
    is_it = isinstance(only, dict) and only.get("id") == call.call_id
    return ShownResult(call.call_id, told.removeprefix(_OBSERVED)) if is_it else None


def tells_result(text: str) -> bool:
    """Whether a text that is written as the user's tells a model what a call gave, or that it failed."""
    return text.startswith(_OBSERVED) or f"{_FAILED}Error executing tool '" in text


_CALLING = "Calling tools:\n"
_OBSERVED = "Observation:\n"
_FAILED = "Error:\n"
_RETRY = "\nPlease try again or use another tool"


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


class Schemas:
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
