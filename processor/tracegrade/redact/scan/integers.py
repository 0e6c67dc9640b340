"""Integers on the wire: they stand there in bits, so that signs, which know digits, do not see them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from tracegrade.redact.scan.first import Place
from tracegrade.sensitive.detector import Detector
from tracegrade.sensitive.signs import expression

# An AnyValue of nine digits or more; that it begins with its tag alone makes it cheap to look for.
_INTEGER = expression(r"\x18[\x80-\xff]{3,9}[\x00-\x7f]")
# The name of an attribute or of a member of an object, which may be that of a list, or of the object around.
_NAME = re.compile(rb"\n[\x00-\x7f]([^\x00-\x1f]{1,127})\x12")
_NAMES_WITHIN = 300


class Integers:
    """Says which integers may be something: by their digits, and by the names that stand before them."""

    def __init__(self, detectors: Sequence[Detector], own: Any) -> None:
        """`own`: the expression for own patterns and names; None where there are none."""
        self._detectors = [one for one in detectors if one.in_numbers or one.is_named is not None]
        self._own = own

    def places(self, wire: bytes) -> Iterator[Place]:
        """Where integers stand that may be something."""
        for start, end in (match.span() for match in _INTEGER.finditer(wire)):
            if self._may_be(str(_varint_value(wire[start + 1 : end])), wire[max(0, start - _NAMES_WITHIN) : start]):
                yield start, end

    def _may_be(self, written: str, before: bytes) -> bool:
        names = ["", *(name.decode("utf-8", "replace") for name in _NAME.findall(before))]
        if self._own is not None and self._own.search(written.encode("ascii")) is not None:
            return True
        return any(
            next(iter(detector.find(written, name)), None) is not None
            for name in names
            for detector in self._detectors
            if not name or (detector.is_named is not None and detector.is_named(name))
        )


def _varint_value(varint: bytes) -> int:
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(varint))
