"""Answers that were recorded as a stream: lines of JSON, with some letters of the answer in each."""

from collections.abc import Iterator, Sequence

from tracegrade.redact.scan.cut import MEMBER
from tracegrade.redact.scan.joining import Joining
from tracegrade.sensitive.detector import Detector

STREAM = -2
"""The number of signs of a stream."""

SIGNS = (r"data: ?\{", r"\}(?:\n|\\+n)\{")

_MAX_DEPTH = 8  # JSON in JSON in JSON ...
_BEFORE = 3  # parts of an address before the one with its @


class Streams:
    """What values look like on the wire that are split over the lines of a stream."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        """`detectors` are those that join."""
        self._joining = Joining(detectors)

    def may_be_in(self, part: bytes) -> bool:
        """Whether one may be in `part`, which holds signs of a stream."""
        by_name: dict[bytes, list[bytes]] = {}
        for name, text in _members(part, 0):
            by_name.setdefault(name, []).append(text)
        return any(len(texts) > 1 and self._joining.may_be_over(texts, _BEFORE) for texts in by_name.values())


def _members(part: bytes, depth: int) -> Iterator[tuple[bytes, bytes]]:
    """The names and texts of members of JSON, those of JSON in texts, too."""
    for member in MEMBER.finditer(part):
        if b'"' in member[3] and depth < _MAX_DEPTH:
            yield from _members(member[3], depth + 1)
        else:
            yield member[2], member[3]
