"""The texts, keys and numbers of an item, collected for a scanner in the order they stand."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from tracegrade.redact.json_text import Leaf, documents
from tracegrade.redact.requests.walk import MAX_ENCODINGS, Place, Walk
from tracegrade.sensitive.json_inside import BEGINS

_NUMBER_DIGITS = 9  # shorter numbers are nobody's


class Found(Protocol):
    """A part of a text that is to be replaced."""

    @property
    def text(self) -> int:
        """The number of the text."""

    @property
    def start(self) -> int:
        """Where the part begins."""

    @property
    def end(self) -> int:
        """Where it ends."""

    @property
    def detector(self) -> str:
        """The name of what found it."""


class Scanner(Protocol):
    """Searches for personal data and secrets; see `redact.scan`."""

    def places(self, wire: bytes) -> Iterable[tuple[int, int]]:
        """Where in a request something may be found, from and up to."""

    def find(self, texts: Sequence[str], keys: Sequence[str]) -> Sequence[Found]:
        """What is found in neighbouring texts, which stand under `keys`."""


FindInKey: TypeAlias = Callable[[str], Sequence[Found]]
"""What is found in a key; it may remember that, as there are few keys."""


class Collected(Walk):
    """A walk that changes nothing; the second one, which replaces, meets the same texts in the same order."""

    def __init__(self, keeps: Callable[[Place], bool] | None) -> None:
        """`keeps` says of places whether what stands there is left alone; None: nothing is."""
        super().__init__(self._take)
        self._keeps = keeps
        self._texts: dict[Leaf, list[str]] = {"text": [], "key": [], "number": []}
        self._names: dict[Leaf, list[str]] = {"text": [], "key": [], "number": []}

    def text(self, text: str, name: str, place: Place, encodings: int = 0) -> str:
        """As in `Walk`. Read by the machine, which takes a third of the time; paths are not known then."""
        if self._keeps is not None:
            return super().text(text, name, place, encodings)
        if encodings < MAX_ENCODINGS and text.lstrip().startswith(BEGINS):
            sizes = [len(texts) for texts in self._texts.values()]
            try:
                self._leaves(_DECODER.decode(text), name, place, encodings)
            except (ValueError, RecursionError):
                # No JSON, or too deep to be read like this.
                for texts, names, size in zip(self._texts.values(), self._names.values(), sizes, strict=True):
                    del texts[size:], names[size:]
                return super().text(text, name, place, encodings)
            return text
        if encodings < MAX_ENCODINGS and (found := documents(text)):
            return self._lines(text, found, name, place, encodings)
        self._texts["text"].append(text)
        self._names["text"].append(name)
        return text

    def find(self, scanner: Scanner, find_in_key: FindInKey) -> dict[tuple[Leaf, int], list[Found]]:
        """What is found, by kind of text and number in it; keys are looked at one by one."""
        found: dict[tuple[Leaf, int], list[Found]] = defaultdict(list)
        for part in scanner.find(self._texts["text"], self._names["text"]):
            found["text", part.text].append(part)
        for number, key in enumerate(self._texts["key"]):
            found["key", number].extend(find_in_key(key))
        for number, written in enumerate(self._texts["number"]):
            if written:
                found["number", number].extend(scanner.find([written], [self._names["number"][number]]))
        return {at: parts for at, parts in found.items() if parts}

    def expects(self, leaf: Leaf, number: int) -> str:
        """The text of this kind and number, as it was looked at."""
        return self._texts[leaf][number]

    def names(self, leaf: Leaf) -> Sequence[str]:
        """The names under which the texts of this kind stand."""
        return self._names[leaf]

    def _take(self, text: str, name: str, leaf: Leaf, place: Place) -> str:
        if self._keeps is None or not self._keeps(place):
            self._texts[leaf].append(text if leaf != "number" else _looked_at(text))
            self._names[leaf].append(name)
        return text

    def _leaves(self, value: Any, name: str, place: Place, encodings: int) -> None:
        kind = type(value)
        if kind is str:
            self.text(value, name, place, encodings + 1)
        elif kind is _Number:
            self._texts["number"].append(_looked_at(value))
            self._names["number"].append(name)
        elif kind is _Members:
            for key, member in value:
                self._texts["key"].append(key)
                self._names["key"].append("")
                self._leaves(member, key, place, encodings)
        elif kind is list:
            for item in value:
                self._leaves(item, name, place, encodings)


def _looked_at(number: str) -> str:
    """A number as it is looked at; "" for others, which keep their place in the order."""
    return str(number) if len(number) >= _NUMBER_DIGITS and number.isdigit() else ""


class _Members(list[Any]):
    """The members of an object, those that come twice, too."""


class _Number(str):
    __slots__ = ()


def _constant(word: str) -> _Number | None:
    """As `rewritten` reads it, which knows a number by its first sign."""
    return _Number(word) if word.startswith("-") else None


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Members, parse_int=_Number, parse_float=_Number, parse_constant=_constant
)
