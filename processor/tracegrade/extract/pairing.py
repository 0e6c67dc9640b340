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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tracegrade.extract.answers import Answers, CalledAgents, Schemas
from tracegrade.extract.decode.unwrap import Output
from tracegrade.extract.decode.values import ABSENT, Decoded, canonical, decode
from tracegrade.extract.folding import short_name
from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import RequestedCall, ShownResult, SpanKind
from tracegrade.extract.shape.names import is_any_tools_class, may_be_class
from tracegrade.extract.tool_requests import ToolRequest
from tracegrade.extract.tool_spans import Execution, call_id_of, read_arguments, read_execution
from tracegrade.extract.turns import Turns
from tracegrade.extract.witnesses import (
    WRAPPERS,
    begins_with,
    lone_object,
    may_be_printed,
    may_wrap,
    open_arguments,
    open_output,
)
from tracegrade.model.handoff import passes_on
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
    executions: Sequence[Execution],
    requests: Sequence[ToolRequest],
    nodes: Sequence[Node],
    of_kind: Mapping[SpanKind, Sequence[Node]],
    turns: Turns,
) -> list[PairedCall]:
    """Join executions with the requests for them, and both with the results that later messages show.

    A request that no tool span shows is a call of its own, unless its run has tool spans, no later message shows a
    result and no agent of that name ran: then it was requested and never run (the run was aborted, or it was the
    framework's way to end the run). It is a call all the same where the model went on and what it was given then is
    not recorded: models get an answer to each call that they ask for. But not where a span of the run has no request.

    Args:
        executions: one for each call.
        requests: one for each request, in order.
        nodes: all nodes, in order of start.
        of_kind: those of each kind.
        turns: their model calls, one after another.
    """
    if not executions and not requests:
        return []  # most spans of frameworks that make a trace of each
    requested_by = _match(executions, requests)
    _drop_handoffs(requests, of_kind["handoff"])
    results = Answers(turns, of_kind["agent"])
    schemas = Schemas(nodes)
    calls = []
    unrequested = [execution for execution in executions if execution not in requested_by]
    in_place = results.in_place_of(executions) if any(map(_needs_answer, unrequested)) else {}
    for execution in _with_refused_attempts(executions):
        paired = PairedCall(execution, requested_by.get(execution), execution.node)
        _complete(paired, results, schemas, in_place.get(execution))
        calls.append(paired)
    runs_with_spans = {execution.node.run for execution in executions}
    unclear = {execution.node.run for execution in unrequested}  # a span there may be that of any request
    called_agents = CalledAgents(of_kind["agent"])
    for request in requests:
        if request.taken:
            continue
        shown = results.of(request) or called_agents.result_of(request)
        if shown is not None and not shown.failed and results.failed_elsewhere(shown):
            shown = shown._replace(failed=True)
        run = request.node.run
        if shown is None and run in runs_with_spans and (run in unclear or not _was_answered_unseen(request, turns)):
            continue
        calls.append(_from_message(request, shown, schemas))
    calls.sort(key=_order)
    return calls


def _was_answered_unseen(request: ToolRequest, turns: Turns) -> bool:
    """Whether the model was called again after a request, with messages that its span does not show."""
    following = turns.after(request.node)
    return following is not None and not following.inputs()


def named_by_requests(
    tools: Sequence[Node], executions: Sequence[Execution], requests: Sequence[ToolRequest]
) -> tuple[list[Execution], list[Node]]:
    """Read tool spans that do not name their tool, or name a class, by the request that they answer.

    That is the one with their call id; where they have no name, or that of a class of any tool, also one of a tool that
    has their span's name, or the first that nothing answers with their arguments.

    Args:
        tools: the tool spans, in order of start.
        executions: those that name a tool.
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
    classes = {
        execution.node
        for execution in executions
        if may_be_class(execution.name) and (execution.name not in names or is_any_tools_class(execution.name))
    }
    answered = {call_id_of(node) for node in tools}
    waiting = [request for request in requests if request.call.call_id not in answered]
    read: list[Execution] = []
    unnamed: list[Node] = []
    for node in tools:
        execution = known.get(node)
        if execution is None or node in classes:
            asked = by_id.get(call_id_of(node) or "", set())
            name = next(iter(asked)) if len(asked) == 1 else node.span.name if node.span.name in names else ""
            execution = execution or read_execution(node, name or node.span.name)
            if not name and (node not in classes or (execution is not None and is_any_tools_class(execution.name))):
                name = _asked_with(execution, waiting)
            if execution is not None and name:
                execution.name = execution.raw_name = name
            elif node not in classes:
                execution = None
        if execution is None:
            unnamed.append(node)
        else:
            read.append(execution)
    return read, unnamed


def _asked_with(execution: Execution | None, waiting: list[ToolRequest]) -> str:
    """The tool of the first request in `waiting` with the arguments of an execution, "" for none; it is taken out."""
    if execution is None or not isinstance(execution.arguments.value, dict):
        return ""
    wanted = canonical(execution.arguments.value)
    for request in waiting:
        if request.node.span.end_ns <= execution.node.span.end_ns and _requested_arguments(request) == wanted:
            waiting.remove(request)
            return request.call.name
    return ""


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
    """Which request each execution answers: by call id, else by name and arguments in order, else by name in order.

    A sender may write the value of a tool's only argument without its name.
    """
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
    """The requests without an execution, by key and whether they have an id of their own; in reverse order."""
    waiting: dict[tuple[object, bool], list[ToolRequest]] = {}
    for request in reversed(requests):
        if not request.taken:
            waiting.setdefault((key_of_request(request), _has_id(request.call)), []).append(request)
    return waiting


def _has_id(call: RequestedCall) -> bool:
    """Whether a call has an id of its own: Gemini gives none, and what numbers the calls of a tool is made up."""
    if call.call_id is None:
        return False
    name, _, number = call.call_id.rpartition("_")
    return name != call.name or not number.isdecimal()


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


def _bare_text(execution: Execution) -> object:
    """The value that a sender wrote in place of arguments, without its name, as text; what equals nothing for none."""
    value = execution.arguments.value
    return execution if value is None or type(value) is dict else _as_text(value)


def _only_value(request: ToolRequest) -> object:
    """The value of the only argument of a request as text; what equals nothing where it has several, or none."""
    asked = read_arguments(request.call.arguments, None).value
    return _as_text(next(iter(asked.values()))) if type(asked) is dict and len(asked) == 1 else request


def _as_text(value: JsonValue) -> str:
    return value if type(value) is str else canonical(value)


def _requested_arguments(request: ToolRequest) -> str:
    return canonical(read_arguments(request.call.arguments, None).value)


_PASSES: tuple[tuple[Callable[[Execution], object], Callable[[ToolRequest], object]], ...] = (
    (
        lambda e: (e.node.run, short_name(e.name), canonical(e.arguments.value)),
        lambda r: (r.node.run, short_name(r.call.name), _requested_arguments(r)),
    ),
    (
        lambda e: (e.node.run, short_name(e.name), _bare_text(e)),
        lambda r: (r.node.run, short_name(r.call.name), _only_value(r)),
    ),
    (lambda e: (e.node.run, short_name(e.name)), lambda r: (r.node.run, short_name(r.call.name))),
    (lambda e: short_name(e.name), lambda r: short_name(r.call.name)),
)


def _drop_handoffs(requests: Sequence[ToolRequest], handoffs: Sequence[Node]) -> None:
    """Mark the requests that handoff spans answer, which are no tool calls: the latest open request before each.

    Of several, the latest that is named as a handoff: a model may ask for other tools in the same message.
    """
    waiting: dict[Node | None, list[ToolRequest]] = {}
    known = 0
    for node in handoffs:
        while known < len(requests) and requests[known].node.span.start_ns <= node.span.start_ns:
            waiting.setdefault(requests[known].node.run, []).append(requests[known])
            known += 1
        before = waiting.get(node.run, [])
        while before and before[-1].taken:
            before.pop()
        latest = [request for request in reversed(before[-_MAX_SAME_ID:]) if not request.taken]
        for request in latest[:1]:
            next((each for each in latest if passes_on(each.call.name)), request).taken = True


def _needs_answer(execution: Execution) -> bool:
    return execution.error is None and (execution.is_part or execution.output.status == "absent")


def _complete(paired: PairedCall, results: Answers, schemas: Schemas, in_place: ShownResult | None) -> None:
    """Fill in arguments, output and error from messages where the tool span does not hold them.

    ``in_place`` is the result that only its place among others shows to be the call's.
    """
    execution, request = paired.execution, paired.request
    if execution is None:
        return
    asked = None if request is None else request.call.arguments
    arguments = paired.arguments
    if execution.is_opened or type(arguments.value) is not dict:
        arguments = paired.arguments = _arguments_by_others(execution, asked, schemas)
    if asked is not None and type(arguments.value) is dict and _may_differ(asked, arguments.value, execution):
        paired.arguments = open_arguments(arguments, read_arguments(asked, None))
    if paired.error is not None:
        return
    returned = paired.output.value
    if type(returned) is dict and WRAPPERS.isdisjoint(returned) and not execution.is_part:
        return  # nearly all
    is_missing = paired.output.status in ("absent", "redacted", "truncated")
    is_blank = returned == ""
    if is_missing or is_blank or execution.is_part or may_wrap(returned):
        shown = (
            results.of(request)
            if request is not None
            else results.by_id(execution.call_id, execution.name, paired.node) or in_place
        )
        if shown is not None:
            output = paired.node.dialect.read_output(paired.node.span, shown.output)
            if is_missing and output.result.status != "absent":
                paired.output = output.result
                paired.error = message_error(output, shown)
            elif is_blank:
                # Some senders write what is false in Python as no text; what a model is told of no text is a sentence.
                if not output.result.value and output.result.is_readable:
                    paired.output = output.result
            elif execution.is_part and begins_with(output.result.value, paired.output.value):
                paired.output = output.result
            elif output.result.status not in ("absent", "redacted", "truncated"):
                paired.output = open_output(paired.output, output.result)


def _arguments_by_others(execution: Execution, asked: JsonValue, schemas: Schemas) -> Decoded:
    """The arguments of an execution that shows none, or something that may be an envelope or stand for none.

    They are what the model asked for, if that is what the span shows or the span shows no object; else what the tool
    takes decides.
    """
    raw, found = execution.raw_arguments, execution.arguments
    requested = decode(asked)
    wanted = requested.value
    if isinstance(wanted, dict) and wanted and (wanted == decode(raw).value or list(wanted.values()) == [raw]):
        return requested
    requested = ABSENT if asked is None else read_arguments(asked, None)
    if found.value == {} == requested.value:
        return found  # the model asked for none
    if (type(found.value) is not dict or found.status == "text") and isinstance(requested.value, dict):
        return requested
    schema = schemas.of(execution.name) if execution.is_opened and execution.parameters is None else None
    return found if schema is None else read_arguments(raw, schema)


def _may_differ(asked: JsonValue, arguments: dict[str, JsonValue], execution: Execution) -> bool:
    """Whether what a model asked for may be within an execution's arguments, or be printed or left out there."""
    if asked == arguments or asked == execution.raw_arguments:
        return False  # nearly all
    if not WRAPPERS.isdisjoint(arguments) or lone_object(arguments) is not None:
        return True
    if execution.node.span.is_whole and may_be_printed(arguments):
        return True
    return "null" in asked if type(asked) is str else isinstance(asked, dict) and None in asked.values()


def _from_message(request: ToolRequest, shown: ShownResult | None, schemas: Schemas) -> PairedCall:
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
