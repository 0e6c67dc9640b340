"""The first look at a request: signs that are cheap to look for, several in one pass.

A pass costs 1.3 ns a byte however many signs it knows, as long as the states of the machine that RE2 makes of them stay
few: so what numbers begin with is looked for apart from what words do, and what begins with a mark, such as ``@``, by
itself, which is ten times as fast.
"""

import re
from collections.abc import Iterator, Sequence

from tracegrade.redact.scan.lookalikes import is_host_itself
from tracegrade.sensitive.detector import Detector
from tracegrade.sensitive.signs import Signs, expression

_MARK = re.compile(r"[@:%&=/]|\\\\")
_WORD = re.compile(r"\(\?i:(?:\(\?:)?[a-z]|\(\?:[A-Za-z\[0]|\[?[A-Za-z]|\\x")

# How many bytes before and behind a sign a value may stand of which it is one: most where it is spelled otherwise.
_FAR = 300, 300
_NUMBER = "number"
_REACH = {_NUMBER: (64, 128), "@": (64, 128), ":": (64, 128)}

Place = tuple[int, int]


class SignGroup:
    """Signs that are looked for together, and what to look at where one is found.

    Attributes:
        signs: those of values, by the number of the detector, as they are known in full.
    """

    def __init__(self, first: Sequence[str], signs: Sequence[tuple[str, int]], group: str) -> None:
        self.signs = Signs(signs)
        self._first = expression("|".join(map("(?:{})".format, first)))
        self._of_numbers = group == _NUMBER
        self._before, self._behind = _REACH.get(group, _FAR)

    def is_in(self, data: bytes) -> bool:
        """Whether there is a sign."""
        return self._first.search(data) is not None

    def places(self, wire: bytes) -> Iterator[Place]:
        """What to look at around them, from left to right; it may end behind the end."""
        begin = stop = 0
        for start, end in (match.span() for match in self._first.finditer(wire)):
            if self._of_numbers and is_host_itself(wire, start):
                continue
            if start - self._before > stop:
                if stop:
                    yield begin, stop
                begin = start - self._before
            stop = end + self._behind
        if stop:
            yield max(0, begin), stop


def looks_for(
    detectors: Sequence[Detector], disguises: Sequence[tuple[str, int]], *, joining: bool = False
) -> dict[str, SignGroup]:
    """The looks for all signs of these, by what the signs begin with.

    Args:
        detectors: their places are the numbers of the signs.
        disguises: the signs of what is written in another form, each with its number.
        joining: only for the texts of those that join.
    """
    first: dict[str, list[str]] = {}
    signs: dict[str, list[tuple[str, int]]] = {}
    for number, one in enumerate(detectors):
        known = (*one.signs, *one.key_signs)
        if joining:
            known = one.signs if one.joins else ()
        for cheap, sign in zip(one.first or known, known, strict=not joining):
            first.setdefault(_group(cheap), []).append(cheap)
            signs.setdefault(_group(cheap), []).append((sign, number))
    for sign, number in disguises:
        first.setdefault(_group(sign), []).append(sign)
        signs.setdefault(_group(sign), []).append((sign, number))
    return {group: SignGroup(first[group], signs[group], group) for group in first}


def grouped(signs: Sequence[tuple[str, int]]) -> list[Signs]:
    """The same, those together that begin alike."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for sign in signs:
        groups.setdefault(_group(sign[0]), []).append(sign)
    return [Signs(group) for group in groups.values()]


def _group(sign: str) -> str:
    if mark := _MARK.match(sign):
        return mark.group()
    return "word" if _WORD.match(sign) else _NUMBER
