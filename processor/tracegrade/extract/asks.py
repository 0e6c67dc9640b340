"""What models asked for: the tool calls in assistant messages, each asked once however often it is shown."""

from collections.abc import Sequence
from itertools import takewhile

from tracegrade.extract.messages import ASSISTANT_ROLES
from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import Message, RequestedCall
from tracegrade.extract.values import canonical, decode

# How many model calls at the same time are compared with each other: more are not one call shown twice.
MAX_OPEN_TURNS = 32


class Ask:
    """One requested call.

    ``order`` numbers the requests of the trace, ``turn`` its asking messages, ``position`` the calls of one message.
    """

    __slots__ = ("call", "node", "order", "position", "taken", "turn")

    def __init__(self, node: Node, call: RequestedCall, order: int, turn: int, position: int) -> None:
        self.node = node
        self.call = call
        self.order = order
        self.turn = turn
        self.position = position
        self.taken = False  # shown by a tool span, or not a call


def find_asks(nodes: Sequence[Node]) -> list[Ask]:
    """All requested calls, in order of (model call's start, message, part).

    Only output messages count: input messages repeat the history. Agent spans repeat what their model calls put out,
    so they count only in a run whose model calls show no messages. Two spans that show one model call (an SDK's and a
    framework's, one inside the other or at the same time) are one ask.

    Args:
        nodes: in order of start.
    """
    chats = _with_outputs([node for node in nodes if node.kind == "chat"])
    covered = {node.run for node in chats} | {node.agent_above for node in chats}
    asks: list[Ask] = []
    turn = 0
    latest: list[list[Ask]] = []  # turns that may still be shown by another span
    for node in nodes:
        if node.kind == "chat":
            pass
        elif node.kind != "agent" or node in covered or node.run in covered:
            continue
        asking = [message for message in node.outputs() if message.calls]
        if asking and latest:
            start_ns = node.span.start_ns
            latest = [seen for seen in latest if seen[0].node.span.end_ns > start_ns][-MAX_OPEN_TURNS:]
        own: list[list[Ask]] = []
        for message in asking:
            if latest and _is_shown_again(node, message.calls, latest):
                continue
            known = len(asks)
            turn_asks = [Ask(node, call, known + place, turn, place) for place, call in enumerate(message.calls)]
            turn += 1
            asks += turn_asks
            own.append(turn_asks)
        latest += own
    return _without_repeated(asks)


def _without_repeated(asks: list[Ask]) -> list[Ask]:
    """Leave out what an agent span repeats of model calls that are not known as its own: spans between are missing."""
    repeating = [ask for ask in asks if ask.node.kind == "agent"]
    if not repeating or len(repeating) == len(asks):
        return asks
    shown = {(ask.call.call_id, ask.call.name) for ask in asks if ask.node.kind != "agent"}
    return [
        ask
        for ask in asks
        if ask.node.kind != "agent" or ask.call.call_id is None or (ask.call.call_id, ask.call.name) not in shown
    ]


def _with_outputs(chats: Sequence[Node]) -> list[Node]:
    """The model calls that show an output: their own or, where it was streamed, what the next one's history adds."""
    silent: dict[Node | None, Node] = {}
    for chat in chats:
        if silent and (before := silent.pop(chat.run, None)) is not None:
            known = before.inputs()
            history = chat.inputs()
            added = history[len(known) :] if known and history[: len(known)] == known else []
            said = list(takewhile(lambda message: message.role in ASSISTANT_ROLES, added))
            if calls := tuple(call for message in said for call in message.calls):
                before.show_outputs([Message("assistant", said[0].text, calls)])
        for message in chat.outputs():
            if message.text or message.calls:
                break
        else:
            silent[chat.run] = chat
    return [chat for chat in chats if chat.outputs()]


def _is_shown_again(node: Node, calls: tuple[RequestedCall, ...], latest: list[list[Ask]]) -> bool:
    return any(len(seen) == len(calls) and _is_same_turn(seen, node, calls) for seen in latest)


def _is_same_turn(seen: list[Ask], node: Node, calls: tuple[RequestedCall, ...]) -> bool:
    same_ids = True
    for ask, call in zip(seen, calls, strict=True):
        one, other = ask.call.call_id, call.call_id
        if one is None or other is None:
            same_ids = False
        elif one != other:
            return False
        if ask.call.name != call.name:
            return False
    if same_ids:
        return True
    first = seen[0].node
    if not node.is_below(first) and not first.is_below(node):
        return False
    if all(_text(ask.call) == _text(call) for ask, call in zip(seen, calls, strict=True)):
        for ask, call in zip(seen, calls, strict=True):
            if ask.call.call_id is None:
                ask.call = ask.call._replace(call_id=call.call_id)
        return True
    return False


def _text(call: RequestedCall) -> str:
    return canonical(decode(call.arguments).value)
