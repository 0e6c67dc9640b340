"""The signs of several detectors, looked for in bytes: those that are cheap to look for first, several in one pass.

A pass of RE2 costs 1.3 ns a byte however many signs it knows, as long as its states stay few: so what begins with a
digit is looked for apart from what begins with a letter, and what begins with a mark, such as ``@``, by itself, which
is ten times as fast.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import re2

from tracegrade.sensitive.detector import Detector

_MOST_COMPILED = 512  # a scanner of all detectors needs 150
_MAX_BYTES = 1 << 27  # of a compiled expression and what it learns of texts
_MARK = re.compile(r"[@:%&=/]|\\\\")
_WORD = re.compile(r"\(\?i:(?:\(\?:)?[a-z]|\(\?:[A-Za-z\[0]|\[?[A-Za-z]|\\x")

_BEFORE, _BEHIND = 64, 96  # bytes from a cheap sign to the begin of the whole one, and to its end
_NUMBER = "number"

DISGUISED = -1
"""The number of signs of what is written in another form."""


@lru_cache(maxsize=_MOST_COMPILED)
def expression(written: str, *, is_utf_8: bool = False) -> Any:
    """`written` for RE2, over bytes; compiled once for all scanners of a process, which look for much the same."""
    return re2.compile(written.encode("utf-8" if is_utf_8 else "ascii"), options(is_utf_8=is_utf_8))


def options(*, is_utf_8: bool = False) -> Any:
    """How expressions are compiled: each byte is a character, but where texts of UTF-8 are sought."""
    found = re2.Options()
    found.log_errors = False
    found.max_mem = _MAX_BYTES
    if not is_utf_8:
        found.encoding = re2.Options.Encoding.LATIN1
    return found


def any_of(signs: Iterable[str]) -> Any:
    """One expression for all `signs`."""
    return expression("|".join(map("(?:{})".format, signs)) or "[^\\x00-\\xff]")


def group_of(sign: str) -> str:
    """The pass in which a sign is looked for: its mark, ``word`` or ``number``."""
    mark = _MARK.match(sign)
    return mark[0] if mark else "word" if _WORD.match(sign) else _NUMBER


def grouped(signs: Iterable[str]) -> dict[str, Any]:
    """The expressions for `signs`, one a pass."""
    groups: dict[str, list[str]] = {}
    for sign in signs:
        groups.setdefault(group_of(sign), []).append(sign)
    return {group: any_of(some) for group, some in groups.items()}


class Signs:
    """Which of many signs are in some bytes; each sign stands for a number."""

    def __init__(self, signs: Sequence[tuple[str, str, int]]) -> None:
        """`signs` are expressions, each behind a cheaper one for it, with the number of what it is a sign of."""
        self._first = grouped(first for first, _, _ in signs)
        of_group: dict[str, dict[int, list[str]]] = {}
        for first, sign, number in signs:
            of_group.setdefault(group_of(first), {}).setdefault(number, []).append(sign)
        self._of_group = {
            group: {number: any_of(some) for number, some in numbers.items()} for group, numbers in of_group.items()
        }

    def any_in(self, data: bytes) -> bool:
        """Whether one of them may be there."""
        return any(first.search(data) is not None for first in self._first.values())

    def places(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where one of them may be; of several that overlap, the place of one."""
        for first in self._first.values():
            yield from (match.span() for match in first.finditer(data))

    def matches(self, data: bytes, edges: Sequence[int] = ()) -> Iterator[tuple[int, int, int]]:
        """The number of each sign that is there, and from where to where it is; one may come twice.

        Of numbers, only those near one of `edges`, where there are any: all are short.
        """
        for group, numbers in self._of_group.items():
            for begin, stop in self._surroundings(group, data):
                if edges and group == _NUMBER and bisect_right(edges, begin) == bisect_right(edges, stop):
                    continue
                for number, sign in numbers.items():
                    for match in sign.finditer(data[begin:stop]):
                        start, end = begin + match.start(), begin + match.end()
                        yield number, start, end if end < stop else sign.match(data, start).end()

    def numbers_in(self, data: bytes) -> set[int]:
        """Of what there are signs."""
        found: set[int] = set()
        for group, numbers in self._of_group.items():
            for begin, stop in self._surroundings(group, data):
                missing = numbers.keys() - found
                if not missing:
                    break
                part = data[begin:stop]
                found.update(number for number in missing if numbers[number].search(part) is not None)
        return found

    def _surroundings(self, group: str, data: bytes) -> Iterator[tuple[int, int]]:
        for start, end in joined_places(self._first[group], _BEFORE + _BEHIND, data):
            yield max(0, start - _BEFORE), min(end + _BEHIND, len(data))


def joined_places(signs: Any, near: int, data: bytes) -> Iterator[tuple[int, int]]:
    """Where signs are, from the first to the last of those that have not so many bytes between them."""
    begin = stop = -1
    for start, end in (match.span() for match in signs.finditer(data)):
        if stop >= 0 and start - stop > near:
            yield begin, stop
            stop = -1
        begin = start if stop < 0 else begin
        stop = end
    if stop >= 0:
        yield begin, stop


def signs_of(detectors: Sequence[Detector], disguises: Sequence[str] = ()) -> Signs:
    """The signs of detectors, by the number of the detector, and of disguises."""
    return Signs(
        [
            *(
                (first, sign, number)
                for number, detector in enumerate(detectors)
                for first, sign in zip(detector.first or detector.signs, detector.signs, strict=False)
            ),
            *((sign, sign, DISGUISED) for sign in disguises),
        ]
    )
