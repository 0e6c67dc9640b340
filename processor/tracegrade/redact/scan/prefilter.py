r"""The prefilter: where in the bytes of a request something may be found, so that most of it is never decoded.

It reads bytes for signs that are cheap to look for, and decodes nothing. Digests of what stands around a sign tell
whether that was searched before, and nothing found: agents send the same messages again and again.

What stands next to a text on the wire, such as its length, may look like a letter or digit of it, so signs know nothing
of the edges of words. A value that is split over texts is known by its first part, at the end of a text, or by what the
next text begins with. Between two texts there are in JSON the end of a text, commas, brackets, names of members,
numbers, and the begin of the next text; in protobuf the tags and lengths before an attribute, its key, and attributes
that are no texts.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from secrets import token_bytes
from typing import Any, NamedTuple

from tracegrade.redact.scan import encoded
from tracegrade.redact.scan.ways import INSIDE, QUOTE, Edges, ways_of
from tracegrade.sensitive.detector import Detector
from tracegrade.sensitive.signs import any_of, expression, grouped, joined_places

# Bytes before and behind a sign in which its value may stand: most where it is spelled otherwise.
_FAR, _NEAR = (300, 300), (64, 128)
_REACH = {"number": _NEAR, "@": _NEAR, ":": _NEAR}
_LOOKED_AT_AGAIN = 64  # bytes before the end of a cut: all of what is short, as long tokens may be many in a row

_LENGTH = r"[\x80-\xff]?[\x00-\x7f]"
_KEY = rf'["*2:BJR\n]{_LENGTH}\n[\x00-\x7f][!-~]+\x12{_LENGTH}'
_NO_TEXT = r"(?:\x18[\x80-\xff]*[\x00-\x7f]|\x10[\x00\x01]|![\x00-\xff]{8})"
_NEXT = r'[\n\x12\x1a"*2:BJRZjz][\x00-\xff]{1,2}[\n\x12\t]'  # what follows a text: tag, length, and another tag
_EDGES = Edges(
    begin=r'(?:"|\n[\x80-\xff]?[\x00-\x7f])',
    end=rf"(?:{QUOTE}|{_NEXT})",
    cut=rf"(?:(?:{_KEY}{_NO_TEXT})*{_KEY}\n{_LENGTH}(?:[\[{{]{INSIDE}{QUOTE})?"
    rf"|\n{_LENGTH}\n{_LENGTH}|{QUOTE}[\s\]}}]*,{INSIDE}{QUOTE})",
    cut_token=rf"(?:{QUOTE}[\s\]}}]*(?:,[\s\[{{\]}},0-9a-zE.+\-]*{QUOTE}"
    rf'|[\n\x12\x1a"*2:BJR][\x80-\xff]*[\x00-\x7f]\n)|{_NEXT})',
)

# An integer of nine digits or more, and the names before it: of an attribute, a member, a list, an object around.
_INTEGER = expression(r"\x18[\x80-\xff]{3,9}[\x00-\x7f]")
_NAME = re.compile(rb"\n[\x00-\x7f]([^\x00-\x1f]{1,127})\x12")
_NAMES_WITHIN = 300

_MOST_KNOWN = 50_000  # of each of two generations: 10 MB in all
_DIGEST_BYTES = 16

_FIRST, _REST = 8, 12  # digits before and behind the part of a UUID that is looked for
_UUID = re.compile(
    rb"-(?<=(?:[^0-9A-Za-z_\-]|(?<=-)-)[0-9A-Fa-f]{8}-)(?:[0-9A-Fa-f]{4}-){3}(?=[0-9A-Fa-f]{12}(?![0-9A-Fa-f]))"
)
_DIGITS = b"0123456789-"
_LONGEST_NUMBER = 18  # with its dashes
_BEFORE_UUID, _BETWEEN_TEXTS = b"sk-lf-", 1500  # the one form of a token that a UUID follows
# Letters that no sign is of: they are none of a number's, base64 of a text is not known by them, and no mask is.
_BLANK = b"zzzzzzzz-zzzz-zzzz-zzzz-zzzzzzzzzzzz"
_HOST_ITSELF, _NO_HOST = re.compile(rb"127\.0\.0\.1(?<![\d.]127\.0\.0\.1)(?![\d.])"), b"zzz.z.z.z"
# Of numbers, only those of telephones abroad have one digit between dots: 1.4.2 is a version.
_VERSION = re.compile(rb"(?<![+\d .\-/()])[\d .\-/()]*\.\d\.[\d .\-/()]*+\Z")


class Place(NamedTuple):
    """A sign, with what stands around it and what that is known by; without a digest, it is searched each time."""

    start: int
    end: int
    begin: int
    stop: int
    digest: bytes | None = None


class Known:
    """A bounded set of bytes, of which it keeps none: only digests by a key of this process.

    What something was found in is never put here, so that nobody who sees the digests learns anything of values.
    Several threads may use it: at worst one adds what another forgets.
    """

    def __init__(self) -> None:
        self._key = token_bytes(_DIGEST_BYTES)
        self._new: set[bytes] = set()
        self._old: set[bytes] = set()

    def digest(self, part: bytes, way: str) -> bytes:
        """What `part` is known by, looked at in one way of several: 16 characters or less."""
        return blake2b(part, digest_size=_DIGEST_BYTES, key=self._key, salt=way.encode()).digest()

    def __contains__(self, digest: bytes) -> bool:
        if digest in self._new:
            return True
        if digest not in self._old:
            return False
        self.add(digest)  # what comes again stays
        return True

    def add(self, digest: bytes) -> None:
        """Remember it, and forget what did not come for long."""
        if len(self._new) >= _MOST_KNOWN:
            self._old, self._new = self._new, set()
        self._new.add(digest)


class Prefilter:
    """The cheap signs of everything that is looked for, and what is known of their surroundings."""

    def __init__(
        self,
        detectors: Sequence[Detector],
        disguises: Sequence[str],
        own: Any,
        asks_number: Callable[[str, str], bool],
    ) -> None:
        """Compile the signs.

        Args:
            detectors: all of them; those without signs find something anywhere.
            disguises: the signs of what is written in another form.
            own: the expression for names and own patterns; None where there are none.
            asks_number: whether detectors find something in the digits of a number under a name.
        """
        self.known = Known()
        self._asks_number = asks_number
        self._own = own
        self._is_blind = any(not one.signs for one in detectors)
        first = [sign for one in detectors for sign in one.first or (*one.signs, *one.key_signs)]
        self._looks = grouped((*first, *disguises))
        ways = list(ways_of(detectors, _EDGES))
        self._cuts = grouped(sign for way in ways for sign in way.signs)
        self._ways = [
            (any_of(sign for way in some for sign in way.signs), *reach)
            for reach in {way[1:3] for way in ways}
            if (some := [way for way in ways if way[1:3] == reach])
        ]

    def places(self, wire: bytes) -> Iterator[Place]:
        """Where something may be found that was not searched before; what is split begins or ends there."""
        if self._is_blind:
            yield Place(0, len(wire), 0, len(wire))
            return
        if self._own is not None:
            yield from (Place(*match.span(), *match.span()) for match in self._own.finditer(wire))
        for match in _INTEGER.finditer(wire):
            start, end = match.span()
            if self._is_somebodys(wire, start, end):
                yield Place(start, end, start, end)
        wire = without_known_numbers(wire)
        for group, signs in self._looks.items():
            yield from self._new(wire, sign_places(signs, group, wire), group)
        for group, signs in self._cuts.items():
            yield from self._new(wire, self._split(signs, wire), f"cut {group}")

    def _new(self, wire: bytes, places: Iterator[Place], way: str) -> Iterator[Place]:
        """The signs with surroundings that are not known."""
        for place in places:
            digest = self.known.digest(wire[place.begin : place.stop], way)
            if digest not in self.known:
                yield place._replace(digest=digest)

    def _split(self, signs: Any, wire: bytes) -> Iterator[Place]:
        """Where a text may end within a value."""
        for start, end in cuts_in(signs, wire):
            cut = wire[start:end]
            reaches = [(before, behind) for sign, before, behind in self._ways if sign.search(cut) is not None]
            before, behind = map(max, zip(*reaches, strict=True))
            yield Place(start, end, max(0, start - before), end + behind)

    def _is_somebodys(self, wire: bytes, start: int, end: int) -> bool:
        """Whether an integer may be something, by its digits or by a name before it."""
        digits = str(sum((byte & 0x7F) << 7 * place for place, byte in enumerate(wire[start + 1 : end])))
        names = _NAME.findall(wire, max(0, start - _NAMES_WITHIN), start)
        return any(self._asks_number(digits, name.decode("utf-8", "replace")) for name in (b"", *names))


def sign_places(signs: Any, group: str, data: bytes) -> Iterator[Place]:
    """Where signs of a group are, those together that are near each other; around them pieces in base64 as a whole."""
    before, behind = _REACH.get(group, _FAR)
    looked_at = 0
    for start, end in joined_places(signs, before + behind, data):
        if end + behind > looked_at:  # else it is within such a piece
            looked_at = encoded.run_end(data, min(len(data), end + behind))
            yield Place(start, end, max(0, start - before), looked_at)


def cuts_in(signs: Any, data: bytes) -> Iterator[tuple[int, int]]:
    """Where `signs` of split values are, but for those that only look like it."""
    at = 0
    while (match := signs.search(data, at)) is not None:
        start, end = match.span()
        if not _VERSION.search(data, max(0, start - _LONGEST_NUMBER), start + 1):
            yield start, end
        # A number may as well begin in a text between these two.
        at = start + 1 if data[start : start + 1].isdigit() else max(start + 1, end - _LOOKED_AT_AGAIN)


def without_known_numbers(data: bytes) -> bytes:
    """`data`, as long as it is, without the digits of UUIDs, and of the host itself, which only look like numbers.

    A number begins behind no letter, digit or dash, and ends before none. So one that shares a character with a UUID
    would have to hold all of it, which is longer than any, and has letters among its digits. A token may hold one
    behind a dash, or in the text behind the one that ends with the dash.
    """
    found: bytearray | None = None
    for match in _UUID.finditer(data):
        start, end = match.start() - _FIRST, match.end() + _REST
        is_of_token = data.rfind(_BEFORE_UUID, max(0, start - _BETWEEN_TEXTS), start) >= 0
        if data[start : start + _LONGEST_NUMBER].strip(_DIGITS) and not is_of_token:
            found = found or bytearray(data)
            found[start:end] = _BLANK
    data = data if found is None else bytes(found)
    return _HOST_ITSELF.sub(_NO_HOST, data)
