"""Texts on the wire that are parts of one: whether a value goes over from one into the next."""

from collections.abc import Sequence
from itertools import accumulate

from tracegrade.redact.scan.first import looks_for
from tracegrade.redact.scan.split import split_values
from tracegrade.sensitive.detector import Detector
from tracegrade.sensitive.signs import Signs, signs_of

BEHIND = 96
"""Bytes: no number of a person is longer, nor what a token must have a digit in."""


class Joining:
    """What some detectors, which join, know of values that are split."""

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self._detectors = detectors
        self._signs = signs_of(detectors)
        self._looks = tuple(looks_for(detectors, (), joining=True).values())

    def may_be_over(self, pieces: Sequence[bytes], before: int = 0) -> bool:
        """Whether a value is split over these texts; `before` is that of `split_values`."""
        data = b"".join(pieces)
        ends = list(accumulate(map(len, pieces)))[:-1]
        if not any(look.is_in(data) and self._is_over(look.signs, data, ends) for look in self._looks):
            return False
        texts = [piece.decode("utf-8", "replace") for piece in pieces]
        return next(split_values(texts, self._detectors, self._signs, before), None) is not None

    def _is_over(self, signs: Signs, data: bytes, ends: Sequence[int]) -> bool:
        """Whether what a sign found may be a value that goes over one of these places."""
        for number in signs.numbers_in(data):
            may_be = self._detectors[number].may_be
            behind = BEHIND if may_be is not None else 0
            for start, end in (match.span() for match in signs.matches(number, data)):
                if any(start < place < end + behind for place in ends) and (
                    may_be is None or may_be(data[start : end + behind].decode("latin-1"))
                ):
                    return True
        return False
