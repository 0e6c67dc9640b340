"""Where values were seen before, found without reading everything again for each of them.

A place is the number of a call in its run; what is asked is the first place from ``start`` on and before ``end`` at
which a value is seen, and the answer ``end`` says that there is none.

Worked example of `ScalarIndex`: the outputs at the places 0, 1 and 2 are ``{"city": "Rome", "price": 1200.5}``,
``"New York: EUR 1,200.50"`` and ``"York is north of Rome"``.

- "New York" is looked for only where the rarer of its words stands, at place 1, and found there.
- "york" is found at place 1, ignoring letter case; "Yor" nowhere, since it is a part of a word.
- 1200.5 is found at place 0, and from place 1 on at place 1: a number in a text, whatever its commas and zeros.
- ``["Rome", "york"]`` asks for both in one place: "Rome" is first at 0, "york" from there on at 1, "Rome" from there on
  at 2, and "york" is at 2 as well: place 2.
"""

import re
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from typing import TypeAlias, TypeVar

from tracegrade.evaluate.criteria.text_matchers import text_of
from tracegrade.evaluate.criteria.value_matchers import is_number
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.json_values import Identities
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work
from tracegrade.model.json_value import JsonValue

Scalar: TypeAlias = str | int | float | bool | None
Key = TypeVar("Key", bound=Hashable)

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:[.,]\d+)*")
_STEPS_OF_A_VALUE = 20  # that is put into an index under two keys
_STEPS_OF_A_SCALAR = 8  # looked up in three indexes
_STEPS_OF_A_PLACE = 5  # where a text stands, perhaps inside of a word
# Scripts from here on are written without spaces between words.
_FIRST_UNSPACED = "\u0e00"
# What no words begin or end inside of: a run of what `_joined` joins, or any one character besides.
_WORD = re.compile(rf"[^\W_{_FIRST_UNSPACED}-\U0010ffff]+|\S")


class WholeValueIndex:
    """Values, each of which is seen where one stands that is equal; a number and its text are, either way round.

    ``calls`` are the places that were looked at, ascending, and ``values`` those found at each of them.
    """

    __slots__ = ("_identities", "_places", "_steps", "_texts", "calls")

    def __init__(self, calls: Sequence[int], values: Sequence[tuple[int, Sequence[JsonValue]]]) -> None:
        self.calls = calls
        self._identities = Identities()
        self._places: Mapping[int, Sequence[int]] = {}
        self._texts: Mapping[str, Sequence[int]] = {}
        work = Work()
        with suppress(EvaluatorError):
            work.spend(_STEPS_OF_A_VALUE * sum(len(found) for _, found in values))
            self._places = _index(
                (place, [self._identities.of(value, work) for value in found]) for place, found in values
            )
            # Texts of what is no text: models write numbers as texts, and the other way round.
            self._texts = _index((place, _othertexts_in(found)) for place, found in values)
        self._steps = work.limit - work.left

    def first(self, actual: JsonValue, start: int, end: int, work: Work) -> int:
        """The first place at which `actual` stands."""
        work.spend_once(self, self._steps)
        found = _next(self._places.get(self._identities.of(actual, work)), start, end)
        if isinstance(actual, str):
            return _next(self._texts.get(actual), start, found)
        if (text := text_of(actual)) is not None:
            return _next(self._places.get(self._identities.of(text, work)), start, found)
        return found


class ScalarIndex:
    """Values, in any of which a scalar is seen: equal to one at any depth, or in a text as whole words or a number.

    ``calls`` are the places that were looked at, ascending, and ``values`` the one at each of them.
    """

    __slots__ = ("_folded", "_numbers", "_scalars", "_steps", "_values", "_words", "calls")

    def __init__(self, calls: Sequence[int], values: Sequence[tuple[int, JsonValue]]) -> None:
        self.calls = calls
        self._values = values
        # Made when the first text or number is looked for; with the steps that each takes.
        self._steps: dict[str, tuple[object, int]] = {}
        self._folded: dict[int, str] = {}
        self._words: Mapping[str, Sequence[int]] | None = None
        self._numbers: Mapping[Hashable, Sequence[int]] | None = None
        self._scalars: Mapping[Hashable, Sequence[int]] | None = None

    def first(self, actual: JsonValue, start: int, end: int, work: Work) -> int:
        """The first place at which every scalar of `actual` is seen; those of an empty list are nowhere."""
        sought = list(_scalars(actual, work))
        agreed, place = 0, start
        for scalar in cycle(sought):
            found = self._first(scalar, place, end, work)
            if found == end:
                return end
            agreed = agreed + 1 if found == place else 1
            place = found
            if agreed == len(sought):
                return place
        return end

    def _first(self, scalar: Scalar, start: int, end: int, work: Work) -> int:
        work.spend(_STEPS_OF_A_SCALAR)
        if scalar is None or scalar == "" or scalar != scalar:
            return end
        if is_number(scalar):
            end = _next(self._intexts_in(work).get(scalar), start, end)
            return _next(self._notexts_in(work).get((False, scalar)), start, end)
        end = _next(self._notexts_in(work).get(scalar if isinstance(scalar, str) else (True, scalar)), start, end)
        text = text_of(scalar) or ""
        work.spend(len(text))  # which is split into words, at worst one a character, each of which is looked up
        words = folded(text)
        index = self._in_words(work)
        # Where the words stand each of them does: only there, where the rarest is, are they looked for.
        places = min((index.get(word, ()) for word in _WORD.findall(words)), key=len, default=())
        for at in range(bisect_left(places, start), bisect_left(places, end)):
            text = self._folded[places[at]]
            work.spend(1 + len(text) // CHARACTERS_READ_PER_STEP)
            if holds_words(text, words, work):
                return places[at]
        return end

    def _in_words(self, work: Work) -> Mapping[str, Sequence[int]]:
        """The places of each word in texts."""
        if self._words is None:
            self._words = {}
            with self._reading("words") as reading:
                # No folded text holds a line break, so nothing is found across two of them.
                self._folded = {
                    place: "\n".join(map(folded, _read_texts(value, reading))) for place, value in self._values
                }
                self._words = _index((place, _WORD.findall(text)) for place, text in self._folded.items())
        self._spend(work, "words")
        return self._words

    def _intexts_in(self, work: Work) -> Mapping[Hashable, Sequence[int]]:
        """The places of each number in texts."""
        if self._numbers is None:
            self._numbers = {}
            with self._reading("numbers") as reading:
                self._numbers = _index((place, _numbers(_read_texts(value, reading))) for place, value in self._values)
        self._spend(work, "numbers")
        return self._numbers

    def _notexts_in(self, work: Work) -> Mapping[Hashable, Sequence[int]]:
        """The places of each scalar that is no text: by whether it is true or false, and its value; and by its text."""
        if self._scalars is None:
            self._scalars = {}
            with self._reading("scalars") as reading:
                self._scalars = _index(
                    (place, _keys(_scalars(value, reading), reading)) for place, value in self._values
                )
        self._spend(work, "scalars")
        return self._scalars

    @contextmanager
    def _reading(self, index: str) -> Iterator[Work]:
        """Counts the steps in which an index is made; one that takes more than any evaluation has is not made."""
        reading = Work()
        with suppress(EvaluatorError):
            yield reading
        self._steps[index] = object(), reading.limit - reading.left

    def _spend(self, work: Work, index: str) -> None:
        work.spend_once(*self._steps[index])


def _index(found: Iterable[tuple[int, Iterable[Key]]]) -> dict[Key, list[int]]:
    """The places at which each key was found, ascending, as they come."""
    index: dict[Key, list[int]] = {}
    for place, keys in found:
        for key in set(keys):
            index.setdefault(key, []).append(place)
    return index


def _next(places: Sequence[int] | None, start: int, end: int) -> int:
    """The first of `places`, which ascend, from `start` on and before `end`; `end` when there is none."""
    if places is None:
        return end
    at = bisect_left(places, start)
    return min(places[at], end) if at < len(places) else end


def _scalars(value: JsonValue, work: Work | None = None) -> Iterator[Scalar]:
    """Every scalar inside `value`, in order; no recursion. Each value inside is a step of `work`."""
    rest: list[Iterator[JsonValue]] = [iter([value])]
    while rest:
        for item in rest[-1]:
            if work is not None:
                work.spend()
            if isinstance(item, dict | list):
                if work is not None:
                    work.spend()
                rest.append(iter(item.values() if isinstance(item, dict) else item))
                break
            yield item
        else:
            rest.pop()


def may_be_seen(value: JsonValue) -> bool:
    """Whether `value` could be seen anywhere at all: it has scalars, and none is null or an empty text."""
    scalars = list(_scalars(value))
    return bool(scalars) and all(scalar is not None and scalar != "" and scalar == scalar for scalar in scalars)


def texts_in(value: JsonValue, work: Work) -> Iterator[str]:
    """Every text inside `value`, in order; each value inside is a step.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    return (scalar for scalar in _scalars(value, work) if isinstance(scalar, str))


def _read_texts(value: JsonValue, work: Work) -> Iterator[str]:
    """Every text inside `value`, in order, to be split into words or numbers: each character is a step."""
    for text in texts_in(value, work):
        work.spend(len(text))
        yield text


def _keys(scalars: Iterable[Scalar], work: Work) -> Iterator[Hashable]:
    for scalar in scalars:
        if scalar is not None and not isinstance(scalar, str):
            work.spend(_STEPS_OF_A_VALUE)
            yield isinstance(scalar, bool), scalar
            yield text_of(scalar)


def _othertexts_in(values: Iterable[JsonValue]) -> Iterator[str]:
    """The texts of scalars that are no texts."""
    for value in values:
        if not isinstance(value, str) and (text := text_of(value)) is not None:
            yield text


def _numbers(texts: Iterable[str]) -> Iterator[int | float]:
    for text in texts:
        for token in NUMBER.findall(text):
            if (number := number_of(token)) is not None:
                yield number


def number_of(token: str) -> int | float | None:
    """What a token of `NUMBER` says, with commas between digits as they may be; None for what is no number."""
    plain = token.replace(",", "")
    if len(plain) > 1000:
        return None
    return int(plain) if plain.lstrip("-").isdigit() else float(plain) if plain.count(".") == 1 else None


def folded(text: str) -> str:
    """`text` without differences of letter case and white space."""
    return " ".join(text.lower().split())


def holds_words(text: str, words: str, work: Work) -> bool:
    """Whether `words` stand in `text` and do not begin or end inside of a longer word or number.

    Counts the places where they stand; that the text is searched, the caller counts.
    """
    at = text.find(words) if words else -1
    while at >= 0:
        work.spend(_STEPS_OF_A_PLACE)
        end = at + len(words)
        inside = (at > 0 and _joined(text[at - 1], words[0])) or (end < len(text) and _joined(words[-1], text[end]))
        if not inside:
            return True
        at = text.find(words, at + 1)
    return False


def _joined(left: str, right: str) -> bool:
    return left.isalnum() and right.isalnum() and left < _FIRST_UNSPACED and right < _FIRST_UNSPACED
