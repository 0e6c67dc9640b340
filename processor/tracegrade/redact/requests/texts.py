"""The texts of an item as they stand, JSON undecoded, for a close look at them."""

from collections.abc import Callable, Collection
from typing import Any

from tracegrade.redact.json_text import Leaf
from tracegrade.redact.requests.walk import Place, Walk, Where, text_of

_SHORTEST_NUMBER = 10**8  # shorter numbers are nobody's


class Texts(Walk):
    """Collects ``texts``, but for empty ones; ``has_key``: a key asks for a closer look, at itself or at its value."""

    def __init__(self, plain_keys: Collection[str], asks: Callable[[str], bool]) -> None:
        """`asks` says of a key that is none of `plain_keys` whether it asks for a look."""
        super().__init__(self._take)
        self.texts: list[str] = []
        self.has_key = False
        self._plain_keys = plain_keys
        self._asks = asks

    def attributes(self, attributes: Any, where: Where) -> None:
        """As in `Walk`, without places and names, which take three quarters of its time."""
        add, plain_keys = self.texts.append, self._plain_keys
        for attribute in attributes:
            if (key := attribute.key) not in plain_keys and self._asks(key):
                self.has_key = True
            value = attribute.value
            if text := value.string_value:
                add(text)
            else:
                self._other(value)

    def any_value(self, value: Any, place: Place, name: str, depth: int = 0) -> bool:
        """As in `Walk`."""
        if text := value.string_value:
            self.texts.append(text)
        else:
            self._other(value)
        return False

    def text(self, text: str, name: str, place: Place, encodings: int = 0) -> str:
        """A text, whether it is JSON or not."""
        self.texts.append(text)
        return text

    def _other(self, value: Any) -> None:
        """A value that is no text, or an empty one."""
        kind = value.WhichOneof("value")
        if kind == "int_value":
            if value.int_value >= _SHORTEST_NUMBER:
                self.texts.append(str(value.int_value))
        elif kind == "array_value":
            for item in value.array_value.values:
                self.any_value(item, ("attributes", "", ()), "")
        elif kind == "kvlist_value":
            self.attributes(value.kvlist_value.values, "attributes")
        elif kind == "bytes_value" and value.bytes_value:
            self.texts.append(text_of(value.bytes_value))

    def _take(self, text: str, name: str, leaf: Leaf, place: Place) -> str:
        self.texts.append(text)
        return text
