"""Model calls one after another: which one continues which, and the messages that each got in addition."""

from collections.abc import Sequence

from tracegrade.extract.histories import beyond
from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import Message


class Turns:
    """The model calls of a trace. Reads no message before it is asked, and each new one once."""

    def __init__(self, chats: Sequence[Node]) -> None:
        self.chats = chats  # in order of start
        self._before: dict[Node, Node] | None = None
        self._after: dict[Node, Node] = {}
        self._new: dict[Node, tuple[list[Message], bool]] = {}

    def before(self, chat: Node) -> Node | None:
        """The model call before this one in its run."""
        return self._follow().get(chat)

    def after(self, node: Node) -> Node | None:
        """The model call that came after a model call, or after the one that encloses it."""
        self._follow()
        at: Node | None = node
        while at is not None and at.kind == "chat" and at not in self._after:
            at = at.parent
        return self._after.get(at) if at is not None else None

    def new_inputs(self, chat: Node) -> list[Message]:
        """What a model call was given beyond what the one before it was given; all of it where it does not go on."""
        return self._new_messages(chat)[0]

    def added(self, chat: Node) -> list[Message]:
        """What its history has beyond the one of the model call before it; [] where it does not go on from that."""
        new, goes_on = self._new_messages(chat)
        before = self.before(chat)
        if goes_on or before is None:
            return new if goes_on else []
        known = before.inputs() if new else []
        return new[len(known) :] if known and new[: len(known)] == known else []

    def _new_messages(self, chat: Node) -> tuple[list[Message], bool]:
        if chat not in self._new:
            before = self.before(chat)
            if before is None:
                self._new[chat] = chat.inputs(), False
            else:
                part, goes_on = beyond(chat.span, before.span, chat.dialect.prefixes)
                self._new[chat] = chat.inputs_of(part), goes_on
        return self._new[chat]

    def _follow(self) -> dict[Node, Node]:
        if self._before is None:
            self._before = {}
            latest: dict[Node | None, Node] = {}
            for chat in self.chats:
                before = latest.get(chat.run)
                if before is not None:
                    self._before[chat] = before
                    if chat.parent is not before.parent and chat.is_below(before):
                        continue  # the same model call, shown by a second span
                    self._after[before] = chat
                latest[chat.run] = chat
        return self._before
