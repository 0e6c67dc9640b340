"""The tools that the models of a trace asked for, and when a call of them may have run."""

from collections.abc import Iterable, Sequence
from math import inf

from tracegrade.extract.decode.unwrap import read_schemas
from tracegrade.extract.decode.values import canonical, decode
from tracegrade.extract.document import own, parsed
from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import RequestedCall
from tracegrade.extract.shape.unclaimed_span import UnclaimedSpan
from tracegrade.extract.shape.words import words_of
from tracegrade.model.json_value import JsonValue

_LISTS = frozenset({("tools",), ("functions",), ("tool", "definitions"), ("function", "declarations")})


class Asked:
    """A call that a model asked for: its tool, its id, and the time in which it may have run, ns."""

    __slots__ = ("arguments", "call_id", "from_ns", "is_taken", "name", "until_ns")

    def __init__(self, call: RequestedCall, from_ns: int) -> None:
        self.name = call.name
        self.call_id = call.call_id
        self.arguments = call.arguments
        self.from_ns = from_ns
        self.until_ns: float = inf
        self.is_taken = False


class Requests:
    """What the models of a trace asked for."""

    def __init__(self, chats: Sequence[Node], looked: Iterable[UnclaimedSpan]) -> None:
        """Read what `chats` put out, in order of start; `looked` may declare tools where they ask for none."""
        self._chats = chats
        self._asked: list[Asked] = []
        self._by_id: dict[str, Asked] = {}
        self._has_read_inputs = False
        for chat in chats:
            for message in chat.outputs():
                for call in message.calls:
                    if call.call_id is None or call.call_id not in self._by_id:
                        self._add(call, chat.span.end_ns)
        if not self._asked:
            self._read_inputs()
        self.names = {asked.name for asked in self._asked}
        self.ids = frozenset(self._by_id)
        self.asks = bool(self.names)
        if not self.asks:
            self.names = _declared(chats, looked)

    def _read_inputs(self) -> None:
        """Read what models were given: it costs most, as each is given all that those before it were."""
        if self._has_read_inputs:
            return
        self._has_read_inputs = True
        before_ns = 0
        for chat in self._chats:
            for message in chat.inputs():
                for call in message.calls:
                    if call.call_id is not None and call.call_id not in self._by_id:
                        self._add(call, before_ns)
                for result in message.results:
                    self._answer(result.call_id, chat.span.start_ns)
            before_ns = chat.span.end_ns

    def _add(self, call: RequestedCall, from_ns: int) -> None:
        asked = Asked(call, from_ns)
        self._asked.append(asked)
        if call.call_id is not None:
            self._by_id[call.call_id] = asked

    def _answer(self, call_id: str | None, at_ns: int) -> None:
        if call_id is not None:
            if (asked := self._by_id.get(call_id)) is not None:
                asked.until_ns = min(asked.until_ns, at_ns)
            return
        for asked in self._asked:
            if asked.call_id is None and asked.from_ns <= at_ns:
                asked.until_ns = min(asked.until_ns, at_ns)

    def open(self, name: str, start_ns: int) -> Asked | None:
        """The first call of this tool that was asked for and not answered at this time, and that no span shows."""
        self._read_inputs()
        found = (asked for asked in self._asked if asked.name == name and not asked.is_taken)
        return next((asked for asked in found if asked.from_ns <= start_ns <= asked.until_ns), None)

    def named_by(self, call_id: str | None, arguments: JsonValue, start_ns: int) -> str:
        """The tool of the call with this id, else of the only calls with these arguments that are open; "" for none."""
        if call_id is not None and (asked := self._by_id.get(call_id)) is not None:
            return asked.name
        if arguments is None:
            return ""
        self._read_inputs()
        wanted = canonical(decode(arguments).value)
        named = {
            asked.name
            for asked in self._asked
            if not asked.is_taken
            and asked.from_ns <= start_ns <= asked.until_ns
            and canonical(decode(asked.arguments).value) == wanted
        }
        return named.pop() if len(named) == 1 else ""

    def take(self, name: str, call_id: str | None, start_ns: int) -> None:
        """Note that a span shows a call of this tool."""
        asked = self._by_id.get(call_id) if call_id else None
        if asked is None or asked.name != name:
            asked = self.open(name, start_ns) if name in self.names else None
        if asked is not None:
            asked.is_taken = True


def _declared(chats: Sequence[Node], looked: Iterable[UnclaimedSpan]) -> set[str]:
    """The tools that are declared to models."""
    found: set[str] = set()
    for chat in chats:
        found.update(chat.dialect.schemas(chat.span))
    for each in looked:
        for path, value in each.fields:
            if words_of(path[-1])[-2:] in _LISTS or words_of(path[-1])[-1:] in _LISTS:
                shown = parsed(own(value))
                found.update(read_schemas(shown) if isinstance(shown, list) else ())
    return found
