"""The search for detectors' values in texts."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from tracegrade.redact.scan import encoded
from tracegrade.redact.scan.custom import NAME, names_detector, pattern_detector
from tracegrade.redact.scan.gate import MOST_DISGUISES, Gate
from tracegrade.redact.scan.noise import BLANK, SMALLEST, noise_in, run_around
from tracegrade.redact.scan.one_name import of_one_name
from tracegrade.redact.scan.spelling import Spelling
from tracegrade.redact.scan.split import split_values
from tracegrade.sensitive.detector import Detector
from tracegrade.sensitive.signs import DISGUISED, signs_of

_KNOWN_KEYS = 10_000
_BEFORE = 3  # parts of an address before the one with its @
# In text that is not JSON, or no longer. Not a trigger by itself: every text has it, and it matters only next to one.
_ESCAPE = re.compile(r"\\[nrt\"']")


class Found(NamedTuple):
    """A part of a text: ``texts[text][start:end]``, and the name of the detector that found it."""

    text: int
    start: int
    end: int
    detector: str


class _Part(NamedTuple):
    """The same of a text that is known; ``rank``: the first detector decides what it is."""

    start: int
    end: int
    rank: int


class Scanner:
    """Detectors, names of a dictionary and own patterns, all looked for together."""

    def __init__(self, detectors: Sequence[Detector], names: Collection[str], patterns: Mapping[str, str]) -> None:
        """Compile what is looked for.

        Args:
            detectors: in order of preference: where two find the same text, the first decides what it is.
            names: words of which whole ones are found, in upper and lower case; the detector is ``name``.
            patterns: regular expressions (RE2) by the name of their detector.

        Raises:
            ValueError: a pattern that RE2 refuses, or that finds the empty text or everything; a name of less than two
                characters; a pattern called as a detector is. The message names it.
        """
        taken = {detector.name for detector in detectors} | {NAME}
        if doubled := sorted(taken & set(patterns)):
            raise ValueError(f"pattern {doubled[0]!r} is called as a detector is; give it another name")
        own = [names_detector(names)] if names else []
        own += [pattern_detector(name, pattern) for name, pattern in patterns.items()]
        self._detectors = (*detectors, *own)
        self._always = frozenset(number for number, detector in enumerate(self._detectors) if not detector.signs)
        self._spelling = Spelling(detectors)
        self._signs = signs_of(self._detectors, (*self._spelling.signs, *encoded.SIGNS))
        self._joined_signs = signs_of([one for one in self._detectors if one.joins])
        self._named_by = lru_cache(maxsize=_KNOWN_KEYS)(self._named_by_key)
        self._gate = Gate(detectors, names, patterns)

    def may_hold(self, wire: bytes) -> bool:
        """Whether anything may be found in a request in protobuf: False only where `find` finds nothing.

        Some microseconds a KB, without parsing.
        """
        return self._gate.may_hold(wire)

    def places(self, wire: bytes) -> Iterator[tuple[int, int]]:
        """Where in a request something may be found, from and up to, in no order, so that the rest can be left alone.

        What is split over several texts begins or ends there. It may end behind the end of the request.
        """
        return self._gate.places(wire)

    def find(self, texts: Sequence[str], keys: Sequence[str]) -> list[Found]:
        """What is found in neighbouring texts, in the order they stand.

        Args:
            texts: such as all values of a span; what is split over several that follow each other is found, too.
            keys: the name under which each stands, "" where it has none.

        Returns:
            The parts to replace, by text and start; none within another. Of what was written in another form, the whole
            piece: all of a base64 text that holds an address.
        """
        if not self._detectors:
            return []
        parts: dict[int, list[_Part]] = {}
        texts = [self._without_noise(number, text, parts) for number, text in enumerate(texts)]
        for number in self._to_look_at(texts, keys):
            if found := self._parts(texts[number], keys[number], 0):
                parts[number] = _merged([*parts.get(number, ()), *found])
        wholes = {number for number, found in parts.items() if self._ends_with_whole(texts[number], found)}
        for numbers in of_one_name(texts, keys, wholes):
            # As they stand: what a value ends with may be one by itself.
            of_name = [texts[number] for number in numbers]
            for place, (start, end), rank in split_values(of_name, self._detectors, self._joined_signs, _BEFORE):
                parts.setdefault(numbers[place], []).append(_Part(start, end, rank))
        rest = [_without(text, parts.get(number, ())) for number, text in enumerate(texts)]
        for number, (start, end), rank in split_values(rest, self._detectors, self._joined_signs):
            parts.setdefault(number, []).append(_Part(start, end, rank))
        return [
            Found(number, part.start, part.end, self._detectors[part.rank].name)
            for number in sorted(parts)
            for part in _merged(parts[number])
        ]

    def _without_noise(self, number: int, text: str, parts: dict[int, list[_Part]]) -> str:
        """`text` with blanks in place of base64 of what is no text; what is found within it is added to `parts`."""
        if len(text) < SMALLEST:
            return text
        data = text.encode("latin-1", "replace")  # as long as the text
        if not (noise := noise_in(data)):
            return text
        found = [
            _Part(start + piece.start, start + piece.end, inner.rank)
            for start, end in {run_around(data, part) for part in noise}
            for piece in encoded.pieces(text[start:end])
            for inner in self._parts(piece.text, "", 1)
        ]
        if found:
            parts[number] = found
        for start, end in noise:
            text = text[:start] + BLANK * (end - start) + text[end:]
        return text

    def _ends_with_whole(self, text: str, found: Sequence[_Part]) -> bool:
        """Whether `text` ends with a value that needs no other text."""
        return found[-1].end == len(text) and self._detectors[found[-1].rank].ends_by_itself

    def _to_look_at(self, texts: Sequence[str], keys: Sequence[str]) -> Iterator[int]:
        """The texts that hold a sign, or whose name asks for a look."""
        if self._always:
            yield from range(len(texts))
            return
        written = [text.encode("utf-8", "replace") for text in texts]
        signs_there = self._signs.any_in(b"\n".join(written))
        for number, (data, key) in enumerate(zip(written, keys, strict=True)):
            if (signs_there and self._signs.any_in(data)) or (key and data and self._named_by(key)):
                yield number

    def _named_by_key(self, key: str) -> frozenset[int]:
        """The detectors that look at any value under this name."""
        return frozenset(
            number
            for number, detector in enumerate(self._detectors)
            if detector.is_named is not None and detector.is_named(key)
        )

    def _parts(self, text: str, key: str, depth: int) -> list[_Part]:
        numbers = self._signs.numbers_in(text.encode("utf-8", "replace")).union(self._always)
        if key:
            numbers |= self._named_by(key)
        is_disguised = DISGUISED in numbers or (bool(numbers) and _ESCAPE.search(text) is not None)
        numbers.discard(DISGUISED)
        found = [
            _Part(start, end, number)
            for number in sorted(numbers)
            for start, end in self._detectors[number].find(text, key)
            if start < end
        ]
        if is_disguised and depth < MOST_DISGUISES:
            found += self._disguised(text, key, depth + 1)
        return _merged(found)

    def _disguised(self, text: str, key: str, depth: int) -> Iterator[_Part]:
        for plain in self._spelling.respelled(text):
            for part in self._parts(plain.text, key, depth):
                yield _Part(*plain.part(part.start, part.end), part.rank)
        for piece in encoded.pieces(text):
            if inner := self._parts(piece.text, "", depth):
                yield _Part(piece.start, piece.end, min(part.rank for part in inner))


def _merged(parts: Sequence[_Part]) -> list[_Part]:
    """The same with those that overlap made one, so that nothing of any is left."""
    merged: list[_Part] = []
    for part in sorted(parts):
        if merged and part.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = _Part(last.start, max(last.end, part.end), min(last.rank, part.rank))
        else:
            merged.append(part)
    return merged


def _without(text: str, parts: Sequence[_Part]) -> str:
    """`text` with spaces where something was found."""
    for start, end, _ in parts:
        text = text[:start] + " " * (end - start) + text[end:]
    return text
