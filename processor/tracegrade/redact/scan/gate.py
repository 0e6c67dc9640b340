"""One look at the bytes of a request: whether anything may be found in it.

Nothing is parsed. What stands beside a text on the wire, such as its length, may look like a letter or digit of it: so
signs know nothing of the edges of words, and what only looks like a value is let pass to the precise search.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from tracegrade.redact.detector import Detector
from tracegrade.redact.scan import encoded, spelling
from tracegrade.redact.scan.neighbours import across, around, joined
from tracegrade.redact.scan.own import own_signs
from tracegrade.redact.scan.signs import DISGUISED, Signs, expression, signs_of

MOST_DISGUISES = 5  # of one value: JSON in base64 in JSON ...
_BEHIND = 24  # bytes: no number of a person is longer
_AROUND = 300  # bytes beside a character in another spelling: one value stands within


class Gate:
    """The signs of everything that is looked for."""

    def __init__(self, detectors: Sequence[Detector], names: Collection[str], patterns: Mapping[str, str]) -> None:
        self._detectors = detectors
        self._is_empty = not (detectors or names or patterns)
        # Detectors without signs may find something anywhere.
        self._is_blind = any(not one.signs for one in detectors)
        self._signs = signs_of(detectors, (*spelling.SIGNS, *encoded.SIGNS), with_keys=True)
        self._spelled = Signs([(sign, DISGUISED) for sign in spelling.SIGNS])
        self._encoded = Signs([(sign, DISGUISED) for sign in encoded.SIGNS])
        own = own_signs(names, patterns)
        self._own = expression(own, is_utf_8=True) if own else None
        joining = [one for one in detectors if one.joins]
        begins = {begin for one in joining for begin in one.begins}
        signs = {sign for one in joining for sign in one.across}
        self._across = expression(across(begins, signs)) if joining else None

    def may_hold(self, wire: bytes) -> bool:
        """Whether anything may be found in `wire`."""
        if self._is_empty or not wire:
            return False
        return self._is_blind or self._may(wire, 0) or self._may_across(wire)

    def _may(self, data: bytes, depth: int) -> bool:
        if self._own is not None and self._own.search(data):
            return True
        numbers = self._signs.numbers_in(data)
        if not numbers:
            return False
        if any(self._is_there(number, data) for number in numbers if number != DISGUISED):
            return True
        return DISGUISED in numbers and depth < MOST_DISGUISES and self._may_be_disguised(data, depth + 1)

    def _is_there(self, number: int, data: bytes) -> bool:
        may_be = self._detectors[number].may_be
        if may_be is None:
            return True
        # With what follows, as the value may begin within what only looked like one.
        places = (match.span() for match in self._signs.matches(number, data))
        return any(may_be(data[start : end + _BEHIND].decode("latin-1")) for start, end in places)

    def _may_be_disguised(self, data: bytes, depth: int) -> bool:
        for window in self._windows(data):
            if any(self._may(_bytes(plain.text), depth) for plain in spelling.respelled(window)):
                return True
        return self._encoded.any_in(data) and any(
            self._may(_bytes(piece.text), depth) for piece in encoded.pieces(data.decode("latin-1"))
        )

    def _windows(self, data: bytes) -> Iterator[str]:
        """What stands around characters in another spelling."""
        begin = stop = 0
        for start, end in (match.span() for match in self._spelled.matches(DISGUISED, data)):
            if start - _AROUND > stop:
                if stop:
                    yield data[begin:stop].decode("utf-8", "replace")
                begin = start - _AROUND
            stop = end + _AROUND
        if stop:
            yield data[max(0, begin) : stop].decode("utf-8", "replace")

    def _may_across(self, data: bytes) -> bool:
        """Whether a value may be split over neighbouring texts."""
        if self._across is None:
            return False
        return any(
            (part := around(data, *match.span())) and self._may_join(joined(part))
            for match in self._across.finditer(data)
        )

    def _may_join(self, data: bytes) -> bool:
        return any(
            number != DISGUISED and self._detectors[number].joins and self._is_there(number, data)
            for number in self._signs.numbers_in(data)
        )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
