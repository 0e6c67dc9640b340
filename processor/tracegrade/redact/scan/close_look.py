r"""The close look: whether something may be found in the texts of one item, JSON undecoded.

Texts stand one after the other with `SEPARATOR` between them. What stands around a sign goes to the detectors. A value
that is split over texts is looked for in two readings: neighbouring texts, and texts of one name.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import starmap
from typing import Any

from tracegrade.redact.scan.prefilter import Known, cuts_in, sign_places, without_known_numbers
from tracegrade.redact.scan.split import split_values
from tracegrade.redact.scan.ways import INSIDE, QUOTE, Edges, ways_of
from tracegrade.sensitive.detector import Detector
from tracegrade.sensitive.signs import Signs, any_of, grouped, signs_of

SEPARATOR = "\0"

_CUT = rf"(?:(?:{QUOTE}[\s\]}}]*)?\x00(?:[\[{{]{INSIDE}{QUOTE})?|{QUOTE}[\s\]}}]*,{INSIDE}{QUOTE})"
_EDGES = Edges(r'(?:"|\x00)', rf"(?:{QUOTE}|\x00)", _CUT, _CUT)
# The same without texts in between.
_NO_TEXT = rb'(?:[\s\[{\]},]|\\*+"[^"\\]{0,100}+\\*+"\s*:|-?\d[\d.eE+\-]*+|true|false|null)*+\\*+"'
_BETWEEN = re.compile(rb'(?:\\*+"[\s\]}]*+)?\x00(?:' + _NO_TEXT + rb')?|\\*+"[\s\]}]*+,' + _NO_TEXT)
# A member of an object that is a text; a name with what stands behind it, and the values there.
_MEMBER = re.compile(rb'(\\*+)"([^"\\]{1,64})\1"\s*:\s*\1"(.*?)(?<!\\)\1"', re.DOTALL)
_NAMED = re.compile(r'\\*+"([^"\\]{1,128})\\*+"\s*:(?=(.{0,300}))', re.DOTALL)
_VALUE = re.compile(r'"((?:[^"\\]|\\+[^"\\])+)|(\d{6,})')
_MOST_PIECES = 64  # of more, the whole search costs less
_MAX_DEPTH = 8  # JSON in JSON in JSON ...

Finds = Callable[[str, str], bool]
"""Whether detectors find something in a text that stands under a name."""


class CloseLook:
    """The signs in texts, and what is known of their surroundings."""

    def __init__(
        self,
        detectors: Sequence[Detector],
        disguises: Sequence[str],
        finds: Finds,
        named_by: Callable[[str], Collection[int]],
        known: Known,
    ) -> None:
        """`finds` searches a text; `named_by` gives the numbers of the detectors that look at values under a name."""
        self._finds = finds
        self._named_by = named_by
        self._of_numbers = {number for number, one in enumerate(detectors) if one.in_numbers}
        self._known = known
        first = [sign for one in detectors for sign in one.first or (*one.signs, *one.key_signs)]
        self._looks = grouped((*first, *disguises))
        ways = list(ways_of(detectors, _EDGES))
        self._cuts = grouped(sign for way in ways for sign in way.signs)
        self._ways = [
            (any_of(way.signs), way, partial(_is_split, way.detectors, signs_of(way.detectors), way.texts))
            for way in ways
        ]

    def may_hold(self, data: bytes) -> bool:
        """Whether something may be found in `data`, the texts of one item."""
        data = without_known_numbers(b"\0%b\0" % data)
        return any(
            self._is_new(group, data[place.begin : place.stop], self._may_hold)
            for group, signs in self._looks.items()
            for place in sign_places(signs, group, data)
        ) or any(self._may_be_split(data, signs) for signs in self._cuts.values())

    def _may_be_split(self, data: bytes, cuts: Any) -> bool:
        ways = (
            (f"way {number}", data[max(0, start - way.before) : end + way.behind], is_split)
            for start, end in cuts_in(cuts, data)
            for number, (sign, way, is_split) in enumerate(self._ways)
            if sign.search(data[start:end]) is not None
        )
        return any(starmap(self._is_new, ways))

    def _is_new(self, group: str, part: bytes, may_hold: Callable[[bytes], bool]) -> bool:
        """Whether something may be in `part`, which is not searched again when nothing was."""
        digest = self._known.digest(part, f"text {group}")
        if digest in self._known:
            return False
        if may_hold(part):
            return True
        self._known.add(digest)
        return False

    def _may_hold(self, part: bytes) -> bool:
        text = part.decode("utf-8", "replace")
        return self._finds(text, "") or any(
            not self._of_numbers.issuperset(named_by)  # any value may be a secret
            or any(self._finds(value or number, name) for value, number in _VALUE.findall(rest))
            for name, rest in _NAMED.findall(text)
            if (named_by := self._named_by(name))
        )


def _is_split(detectors: Sequence[Detector], signs: Signs, before: int, part: bytes) -> bool:
    """Whether a value is split over the texts in `part`, neighbours or those of one name."""
    by_name: dict[bytes, list[bytes]] = {}
    for name, text in _members(part, 0):
        by_name.setdefault(name, []).append(text)
    if len(neighbours := _BETWEEN.split(part)) > _MOST_PIECES:
        return True
    readings = [pieces for pieces in (neighbours, *by_name.values()) if len(pieces) > 1]
    return signs.any_in(b"\n".join(map(b"".join, readings))) and any(
        next(split_values([piece.decode("utf-8", "replace") for piece in pieces], detectors, signs, before), None)
        for pieces in readings
    )


def _members(part: bytes, depth: int) -> Iterator[tuple[bytes, bytes]]:
    """The names and texts of members of JSON, those of JSON in texts, too."""
    for member in _MEMBER.finditer(part):
        if b'"' in member[3] and depth < _MAX_DEPTH:
            yield from _members(member[3], depth + 1)
        else:
            yield member[2], member[3]
