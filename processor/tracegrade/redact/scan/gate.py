"""The look at the bytes of a request: where in it something may be found.

Nothing is parsed. What stands beside a text on the wire, such as its length, may look like a letter or digit of it: so
signs know nothing of the edges of words, and what only looks like a value is let pass to the precise search.

Two steps, as most bytes hold nothing. `SignGroup` reads all of them, for signs that are cheap to look for. What stands
around those is looked at with all that is known of values, once: agents send the same messages again and again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from tracegrade.redact.scan import encoded, spelling, streams
from tracegrade.redact.scan.custom import own_signs
from tracegrade.redact.scan.cut import Cuts
from tracegrade.redact.scan.first import Place, looks_for
from tracegrade.redact.scan.integers import Integers
from tracegrade.redact.scan.joining import BEHIND
from tracegrade.redact.scan.known_parts import KnownParts
from tracegrade.redact.scan.lookalikes import without_uuids
from tracegrade.redact.scan.noise import blanked, noise_in, run_around
from tracegrade.redact.scan.streams import STREAM, Streams
from tracegrade.sensitive.detector import Detector
from tracegrade.sensitive.signs import DISGUISED, Signs, expression

MOST_DISGUISES = 5  # of one value: JSON in base64 in JSON ...
_AROUND = 300  # bytes beside a character in another spelling: one value stands within
# Before the length of a text, a tag; before a character that an escape ends with, a backslash.
_BEFORE_BEGIN = frozenset(b'\n\x12\x1a"*:b\\')


class Gate:
    """The signs of everything that is looked for."""

    def __init__(self, detectors: Sequence[Detector], names: Collection[str], patterns: Mapping[str, str]) -> None:
        self._detectors = detectors
        self._is_empty = not (detectors or names or patterns)
        # Detectors without signs may find something anywhere.
        self._is_blind = any(not one.signs for one in detectors)
        self._spelling = spelling.Spelling(detectors)
        disguises = [(sign, DISGUISED) for sign in (*self._spelling.signs, *encoded.SIGNS)]
        self._looks = looks_for(detectors, [*disguises, *((sign, STREAM) for sign in streams.SIGNS)])
        self._not_behind = [frozenset(one.not_behind.encode("ascii")) for one in detectors]
        self._spelled = Signs([(sign, DISGUISED) for sign in self._spelling.signs])
        self._encoded = Signs([(sign, DISGUISED) for sign in encoded.SIGNS])
        own = own_signs(names, patterns)
        self._own = expression(own, is_utf_8=True) if own else None
        joining = [one for one in detectors if one.joins]
        self._cuts = Cuts(joining)
        self._streams = Streams(joining)
        self._integers = Integers(detectors, self._own)
        self._seen = KnownParts()

    def may_hold(self, wire: bytes) -> bool:
        """Whether anything may be found in `wire`."""
        return next(self.places(wire), None) is not None

    def places(self, wire: bytes) -> Iterator[Place]:
        """Where something may be found, from and up to, in no order; what is split over texts begins or ends there."""
        if self._is_empty or not wire:
            return
        if self._is_blind:
            yield 0, len(wire)
            return
        if self._own is not None:
            yield from (match.span() for match in self._own.finditer(wire))
        yield from self._integers.places(wire)
        if noise := noise_in(wire):
            runs = {run_around(wire, part) for part in noise}
            yield from ((start, end) for start, end in runs if self._may_be_within(wire[start:end]))
            wire = blanked(wire, noise)
        wire = without_uuids(wire)
        for name, look in self._looks.items():
            looked_at = 0
            for start, end in look.places(wire):
                if end <= looked_at:
                    continue  # within a long text in base64, of which all was looked at
                looked_at = encoded.run_end(wire, min(len(wire), end))
                part = wire[start:looked_at]
                if self._may_be_in(part, name, partial(self._may, part, look.signs, 0)):
                    yield start, end
        for start, end, kind in self._cuts.places(wire):
            part, at, to = self._cuts.around(wire, start, end, kind)
            if self._may_be_in(part, f"{kind} {at} {to - at}", partial(self._cuts.may_be, part, at, to, kind)):
                yield start, end

    def _may_be_within(self, run: bytes) -> bool:
        """Whether base64 of what is no text may hold something, such as a name in a picture's description."""
        return self._may_be_in(run, "noise", partial(self._may_be_encoded, run, 1))

    def _may_be_in(self, part: bytes, way: str, looked_at: Callable[[], bool]) -> bool:
        """Whether a look says so, which is spared where it was done before and did not."""
        digest = self._seen.digest(part, way)
        if digest in self._seen:
            return False
        if looked_at():
            return True
        self._seen.add(digest)
        return False

    def _may(self, data: bytes, signs: Signs, depth: int) -> bool:
        numbers = signs.numbers_in(data)
        if any(self._is_there(number, data, signs) for number in numbers if number >= 0):
            return True
        if STREAM in numbers and self._streams.may_be_in(data):
            return True
        return DISGUISED in numbers and depth < MOST_DISGUISES and self._may_be_disguised(data, depth + 1)

    def _may_in(self, text: str, depth: int) -> bool:
        data = text.encode("utf-8", "replace")
        if self._own is not None and self._own.search(data) is not None:
            return True
        return any(look.is_in(data) and self._may(data, look.signs, depth) for look in self._looks.values())

    def _is_there(self, number: int, data: bytes, signs: Signs) -> bool:
        """Whether what a sign found may be a value."""
        may_be = self._detectors[number].may_be
        if may_be is None:
            return True
        # With what follows, as the value may begin within what only looked like one.
        return any(
            self._can_begin(number, data, start, end) and may_be(data[start : end + BEHIND].decode("latin-1"))
            for start, end in (match.span() for match in signs.matches(number, data))
        )

    def _can_begin(self, number: int, data: bytes, start: int, end: int) -> bool:
        """Whether a value can begin at one of these places, by what stands before."""
        behind = self._not_behind[number]
        return not behind or any(
            not place
            or data[place - 1] not in behind
            or (place > 1 and (data[place - 2] in _BEFORE_BEGIN or data[place - 2] >= 0x80))
            or data[max(0, place - 6) : place - 4] == b"\\u"  # of a character that is no letter of ASCII
            for place in range(start, end)
        )

    def _may_be_disguised(self, data: bytes, depth: int) -> bool:
        for window in self._windows(data):
            if any(self._may_in(plain.text, depth) for plain in self._spelling.respelled(window)):
                return True
        return self._encoded.any_in(data) and self._may_be_encoded(data, depth)

    def _may_be_encoded(self, data: bytes, depth: int) -> bool:
        return any(self._may_in(piece.text, depth) for piece in encoded.pieces(data.decode("latin-1")))

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
