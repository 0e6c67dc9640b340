"""All signs of several detectors, looked for in one pass over bytes."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import re2

from tracegrade.sensitive.detector import Detector

_MOST_COMPILED = 512  # a scanner of all detectors needs 150
_MAX_BYTES = 1 << 27  # of a compiled expression and what it learns of texts


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


class Signs:
    """Which of many signs are in some bytes; each sign stands for a number."""

    def __init__(self, signs: Sequence[tuple[str, int]]) -> None:
        """`signs` are expressions, each with the number of what it is a sign of."""
        self._any = expression("|".join(f"(?:{sign})" for sign, _ in signs) or "[^\\x00-\\xff]")
        self._numbers = [number for _, number in signs]
        self._of_number = {
            number: expression("|".join(f"(?:{sign})" for sign, other in signs if other == number))
            for number in set(self._numbers)
        }
        self._each = _all_of(tuple(sign for sign, _ in signs))

    def any_in(self, data: bytes) -> bool:
        """Whether one of them is there."""
        return self._any.search(data) is not None

    def first_in(self, data: bytes, start: int) -> Any:
        """The first match of any of them, from `start` on; None where there is none."""
        return self._any.search(data, start)

    def matches(self, number: int, data: bytes) -> Iterator[Any]:
        """Where the signs of one are, in the same way."""
        return iter(self._of_number[number].finditer(data))

    def numbers_in(self, data: bytes) -> set[int]:
        """Of what there are signs."""
        if len(self._of_number) == 1 and self.any_in(data):
            return set(self._of_number)
        if found := self._each.Match(data):
            return {self._numbers[number] for number in found}
        # RE2 gives none as well when its memory for so many at once is used up: then any of them may be there.
        return set(self._numbers) if self.any_in(data) else set()


@lru_cache(maxsize=_MOST_COMPILED)
def _all_of(signs: tuple[str, ...]) -> Any:
    """A set of expressions that says by their places which of them match."""
    found = re2.Set.SearchSet(options())
    for sign in signs:
        found.Add(sign.encode("ascii"))
    if signs:
        found.Compile()
    return found


DISGUISED = -1
"""The number of signs of what is written in another form."""


def signs_of(detectors: Sequence[Detector], disguises: Sequence[str] = ()) -> Signs:
    """The signs of detectors, by the number of the detector, and of disguises."""
    return Signs(
        [
            *((sign, number) for number, detector in enumerate(detectors) for sign in detector.signs),
            *((sign, DISGUISED) for sign in disguises),
        ]
    )
