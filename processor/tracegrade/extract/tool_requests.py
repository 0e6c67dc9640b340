"""Tool requests: the calls that assistant messages ask for, each listed once however often it is shown."""

from collections.abc import Collection, Sequence, Set
from dataclasses import replace
from itertools import takewhile

from tracegrade.extract.decode.values import canonical, decode
from tracegrade.extract.messages import ASSISTANT_ROLES, since_last_user
from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import Message, RequestedCall
from tracegrade.extract.tool_spans import Execution
from tracegrade.extract.turns import Turns
from tracegrade.model.trace import SPAN_ORDER

# How many model calls at the same time are compared with each other: more are not one call shown twice.
MAX_OPEN_TURNS = 32


class ToolRequest:
    """One tool call that a model requested.

    ``order`` numbers the requests of the trace, ``turn`` the answers of models that make them, ``position`` those in an
    answer, which has ``siblings`` of them, this one included.
    """

    __slots__ = ("call", "node", "order", "position", "siblings", "taken", "turn")

    def __init__(
        self, node: Node, call: RequestedCall, order: int, turn: int, position: int, siblings: int = 1
    ) -> None:
        self.node = node
        self.call = call
        self.order = order
        self.turn = turn
        self.position = position
        self.siblings = siblings
        self.taken = False  # shown by a tool span, or not a call


def find_tool_requests(agents: Sequence[Node], turns: Turns, executions: Sequence[Execution]) -> list[ToolRequest]:
    """All requested calls, in order of (model call's start, message, part).

    Only output messages count: input messages repeat the history, that of earlier traces as well, and are asked only
    for what they add to the one before. Agent spans repeat what their model calls put out,
    so they count only in a run whose model calls show no messages. Two spans that show one model call (an SDK's and a
    framework's, one inside the other or at the same time) are one request.

    Args:
        agents: the agents of the trace.
        turns: its model calls, one after another.
        executions: what tool spans show, in order of start.
    """
    executing = {execution.node.run for execution in executions}
    looping = {execution.node.parent for execution in executions}  # a model call among them is a loop of several
    chats = _with_outputs(turns.chats, turns, executing)
    covered = {node.run for node in chats} | {node.agent_above for node in chats}
    repeated = [agent for agent in agents if agent not in covered and agent.run not in covered]
    asked = sorted([*chats, *repeated], key=lambda node: SPAN_ORDER(node.span)) if repeated else chats
    requests: list[ToolRequest] = []
    turn = 0
    latest: list[list[ToolRequest]] = []  # turns that may still be shown by another span
    for node in asked:
        asking = [message for message in node.outputs() if message.calls]
        if asking and latest:
            start_ns = node.span.start_ns
            latest = [seen for seen in latest if seen[0].node.span.end_ns > start_ns][-MAX_OPEN_TURNS:]
        if len(asking) > 1:
            asking = _each_once(asking)
        own: list[list[ToolRequest]] = []
        for calls in _of_each_turn(node, asking, is_loop=node in looping):
            if latest and _is_shown_again(node, calls, latest):
                continue
            known = len(requests)
            turn_requests = [
                ToolRequest(node, call, known + place, turn, place, len(calls)) for place, call in enumerate(calls)
            ]
            turn += 1
            requests += turn_requests
            own.append(turn_requests)
        latest += own
    lacking = [request for request in requests if request.call.arguments is None and request.call.call_id is not None]
    if lacking:
        _complete_arguments(lacking, agents)
    return _without_repeated(requests)


def _of_each_turn(node: Node, asking: Sequence[Message], *, is_loop: bool) -> list[tuple[RequestedCall, ...]]:
    """The calls of each turn: those that a model call puts out in several messages on end, it asks for at once.

    What other spans show of it may be of several turns.
    """
    if len(asking) < 2 or node.kind != "chat" or is_loop or node.shows_others:
        return [message.calls for message in asking]
    turns: list[tuple[RequestedCall, ...]] = []
    waiting = list(asking)
    goes_on = False
    for message in node.outputs():
        if message.results or message.role not in ASSISTANT_ROLES:
            goes_on = False
        elif waiting and message is waiting[0]:
            del waiting[0]
            if goes_on:
                turns[-1] += message.calls
            else:
                turns.append(message.calls)
            goes_on = True
    return [*turns, *(message.calls for message in waiting)]


def _each_once(asking: Sequence[Message]) -> list[Message]:
    """The messages of one span without those whose calls one before has: another instrumentation's event repeats them.

    Calls are the same where their ids, names and arguments are.
    """
    known: set[tuple[str, str, str]] = set()
    kept = []
    for message in asking:
        calls = {
            (call.call_id, call.name, canonical(decode(call.arguments).value))
            for call in message.calls
            if call.call_id is not None
        }
        if len(calls) < len(message.calls) or not calls <= known:
            kept.append(message)
        known |= calls
    return kept


def _complete_arguments(requests: Sequence[ToolRequest], agents: Sequence[Node]) -> None:
    """Give requests without arguments those that an agent's span shows of the same calls."""
    shown = {
        (call.call_id, call.name): call.arguments
        for agent in agents
        for message in agent.outputs()
        for call in message.calls
    }
    for request in requests:
        arguments = shown.get((request.call.call_id, request.call.name))
        if arguments is not None:
            request.call = request.call._replace(arguments=arguments)


def _without_repeated(requests: list[ToolRequest]) -> list[ToolRequest]:
    """Leave out requests that an agent span repeats from model calls not linked to it because spans are missing."""
    repeating = [request for request in requests if request.node.kind == "agent"]
    if not repeating or len(repeating) == len(requests):
        return requests
    shown = {(request.call.call_id, request.call.name) for request in requests if request.node.kind != "agent"}
    return [
        request
        for request in requests
        if request.node.kind != "agent"
        or request.call.call_id is None
        or (request.call.call_id, request.call.name) not in shown
    ]


def restore_overwritten(executions: Sequence[Execution], turns: Turns) -> None:
    """Give spans that several model calls were written on what these asked for.

    Tools ran inside such a span, its input is that of the last model call, and its output a mixture of all. What was
    asked for stands in the input, where this shows the calls that ran; it is looked at where one of them has no
    arguments.
    """
    inside: dict[Node, list[Execution]] = {}
    for execution in executions:
        above = execution.node.parent
        if above is not None and above.kind == "chat":
            inside.setdefault(above, []).append(execution)
    for chat, ran in inside.items():
        if turns.before(chat) is not None or all(execution.arguments.status != "absent" for execution in ran):
            continue
        asked = [message for message in since_last_user(chat.inputs()) if message.calls]
        calls = [call for message in asked for call in message.calls]
        if len(calls) == len(ran) and all(map(_ran_as_asked, ran, calls)):
            said = [replace(message, calls=()) for message in chat.outputs()]
            chat.show_outputs([*(_placed(message, place) for place, message in enumerate(asked)), *said])


def _ran_as_asked(execution: Execution, call: RequestedCall) -> bool:
    ids = {execution.call_id, call.call_id} - {None}
    arguments = execution.arguments
    is_same = arguments.status == "absent" or canonical(arguments.value) == canonical(decode(call.arguments).value)
    return execution.name == call.name and is_same and len(ids) < 2


def _with_outputs(chats: Sequence[Node], turns: Turns, executing: Collection[Node | None]) -> list[Node]:
    """The model calls that show an output: their own, or what the next one's history adds.

    That is asked for where they show nothing (many streamed ones), and where no tool spans say what was called: what
    an application gave back to the model is what it read from the answer, while some instrumentations keep the last of
    parallel calls only, or run the pieces of several together.
    """
    ids: set[str | None] = set()
    alone = not executing  # a tool span may be of the call that an answer is for, and say another name
    asks_for_ids = any([chat.run not in executing for chat in chats])  # hardly ever
    for chat in chats:
        before = turns.before(chat)
        if before is not None and (chat.run not in executing or not _shows_output(before)):
            _complete_output(before, turns.added(chat), ids if chat.run not in executing else None, by_answers=alone)
        if asks_for_ids:
            ids.update(call.call_id for message in chat.outputs() for call in message.calls)
    return [chat for chat in chats if chat.outputs()]


def _shows_output(chat: Node) -> bool:
    for message in chat.outputs():  # noqa: SIM110  # asked for every model call; any() takes twice as long
        if message.text or message.calls:
            return True
    return False


def _complete_output(chat: Node, added: Sequence[Message], ids: Set[str | None] | None, *, by_answers: bool) -> None:
    """Add to a model call's output the calls that the history of the next model call shows.

    Where `ids`, the ids of all known calls, are given, calls of model calls in between whose spans are lost are added,
    too. With `by_answers`, so are calls of which the history shows nothing but the answers.
    """
    said = list(takewhile(lambda message: message.role in ASSISTANT_ROLES and not message.results, added))
    outputs = chat.outputs()
    calls = [call for message in said for call in message.calls]
    if calls or (by_answers and (calls := _answered(added, outputs))):
        known = [call for message in outputs for call in message.calls]
        if (better := _as_shown_later(known, calls)) is not None:
            text = next((message.text for message in (*outputs, *said) if message.text), "")
            placed = (call._replace(path=f"0/{place}") for place, call in enumerate(better))
            outputs = [Message("assistant", text, tuple(placed))]
    lost: list[Message] = []
    if ids is not None:
        since = since_last_user(list(added[len(said) :]))
        lost = [
            message for message in since if message.calls and all(call.call_id not in ids for call in message.calls)
        ]
    if lost or outputs is not chat.outputs():
        chat.show_outputs([*outputs, *(_placed(message, place) for place, message in enumerate(lost, len(outputs)))])


def _answered(added: Sequence[Message], outputs: Sequence[Message]) -> list[RequestedCall]:
    """The calls of which a history shows the answers alone, with the tools' names; their arguments are not known.

    Some senders leave out the calls of an assistant's message, and of what the model put out.
    """
    if any(message.calls for message in (*added, *outputs)):
        return []
    answers = [result for message in added for result in message.results]
    return [
        RequestedCall(answer.name, answer.call_id, None, "") for answer in answers if answer.name and answer.call_id
    ]


def _placed(message: Message, position: int) -> Message:
    calls = tuple(call._replace(path=f"{position}/{place}") for place, call in enumerate(message.calls))
    return Message("assistant", message.text, calls)


def _as_shown_later(known: Sequence[RequestedCall], shown: Sequence[RequestedCall]) -> list[RequestedCall] | None:
    """The calls of one turn as a later history shows them; None where it adds nothing to the known ones."""
    by_id: dict[str | None, RequestedCall] = {call.call_id: call for call in shown if call.call_id is not None}
    if len(by_id) == len(shown) and by_id.keys() <= {call.call_id for call in known}:
        better = [by_id[call.call_id] if _is_wrong(call, by_id.get(call.call_id)) else call for call in known]
        return better if better != known else None
    if len(known) == len(shown) and not any(
        one.name != other.name or _is_wrong(one, other) for one, other in zip(known, shown, strict=True)
    ):
        named = [one._replace(call_id=other.call_id or one.call_id) for one, other in zip(known, shown, strict=True)]
        return named if named != known else None
    return list(shown)


def _is_wrong(call: RequestedCall, shown: RequestedCall | None) -> bool:
    """Whether the history shows this call differently, with no less content."""
    if shown is None or call == shown:
        return False
    if call.name != shown.name:
        return True
    if call.arguments == shown.arguments:
        return False
    mine, its = decode(call.arguments), decode(shown.arguments)
    return (
        its.is_readable and (bool(its.value) or not mine.is_readable) and canonical(mine.value) != canonical(its.value)
    )


def _is_shown_again(node: Node, calls: tuple[RequestedCall, ...], latest: list[list[ToolRequest]]) -> bool:
    return any(
        _is_same_turn(seen, node, calls) if len(seen) == len(calls) else _is_part_of_turn(seen, node, calls)
        for seen in latest
    )


def _is_part_of_turn(seen: list[ToolRequest], node: Node, calls: tuple[RequestedCall, ...]) -> bool:
    """Whether a span below a model call's shows some of its calls: requests written as spans of their own."""
    if len(calls) > len(seen) or not node.is_below(seen[0].node):
        return False
    asked = {(request.call.call_id, request.call.name, _canonical_arguments(request.call)) for request in seen}
    ids = {(request.call.call_id, request.call.name) for request in seen if request.call.call_id is not None}
    return all(
        (call.call_id, call.name) in ids
        if call.call_id is not None
        else any((name, text) == (call.name, _canonical_arguments(call)) for _, name, text in asked)
        for call in calls
    )


def _is_same_turn(seen: list[ToolRequest], node: Node, calls: tuple[RequestedCall, ...]) -> bool:
    same_ids = True
    for request, call in zip(seen, calls, strict=True):
        one, other = request.call.call_id, call.call_id
        if one is None or other is None:
            same_ids = False
        elif one != other:
            return False
        if request.call.name != call.name:
            return False
    if same_ids:
        return True
    first = seen[0].node
    if not node.is_below(first) and not first.is_below(node):
        return False
    if all(
        _canonical_arguments(request.call) == _canonical_arguments(call)
        for request, call in zip(seen, calls, strict=True)
    ):
        for request, call in zip(seen, calls, strict=True):
            if request.call.call_id is None:
                request.call = request.call._replace(call_id=call.call_id)
        return True
    return False


def _canonical_arguments(call: RequestedCall) -> str:
    return canonical(decode(call.arguments).value)
