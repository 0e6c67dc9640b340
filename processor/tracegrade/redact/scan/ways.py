"""The ways in which values are split over texts: what a text ends with, or the next one begins with."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tracegrade.sensitive.detector import Detector

QUOTE = r'\\*"'
"""An end of a text of JSON, of JSON in JSON, and so on."""

INSIDE = rf'[\s\[{{\]}},0-9a-zE.+\-]*(?:{QUOTE}[^"\\]*{QUOTE}[\s:,\[\]{{}}0-9a-zE.+\-]*){{0,5}}'
"""What stands between two texts of JSON: brackets, names of members, numbers, and a few other texts."""

_SPACES = r"[ .\-/()]*"
_NO_LETTER = r'(?:[ !#-/:-@\[\]^_`{-~"\x00]|\\[nrt]|\n[\x01-\x08])'
_LONGEST_BEGIN, _SHORT_BEGIN = 8, 2  # behind a short one come hexadecimal digits
_BEFORE = 3  # parts of an address before the one with its @


class Edges(NamedTuple):
    """Expressions for where texts begin and end: ``cut`` is the end of one up to the begin of a later one.

    ``cut_token`` is the same where a token goes on, which may be found more often.
    """

    begin: str
    end: str
    cut: str
    cut_token: str


class Way(NamedTuple):
    """Signs of split values, and of which detectors these are.

    ``before`` and ``behind`` are bytes within which the other parts stand, ``texts`` how many texts before its sign a
    value may begin.
    """

    signs: Sequence[str]
    before: int
    behind: int
    detectors: Sequence[Detector]
    texts: int = 0


def ways_of(detectors: Sequence[Detector], edges: Edges) -> Iterator[Way]:
    """The ways in which values of those of `detectors` are split that join."""
    joining = [one for one in detectors if one.joins]
    if not joining:
        return
    yield Way([rf"\d{_SPACES}{edges.cut}{_SPACES}\d"], 60, 200, [one for one in joining if not one.begins])
    if begins := sorted({begin[:_LONGEST_BEGIN] for one in joining for begin in one.begins}):
        yield Way(list(_of_tokens(begins, edges)), 300, 1500, [one for one in joining if one.begins])
    addresses = [one for one in joining if not (one.begins or one.cuts or one.in_numbers)]
    yield Way(_of_addresses(edges), 300, 400, addresses, _BEFORE)
    # An answer that was recorded as a stream: lines of JSON, with some letters in each.
    yield Way([r"data: ?\{", r"\}(?:\n|\\+n)\{"], 600, 1500, joining, _BEFORE)
    for one in joining:
        if one.cuts:
            yield Way([cut.replace("<", edges.begin).replace(">", edges.end) for cut in one.cuts], 300, 400, [one])


def _of_addresses(edges: Edges) -> list[str]:
    return [
        rf"@[\w\-.\x80-\xff]*{edges.end}",
        r"@[\w\-.\x80-\xff\\]+\.[A-Za-z\x80-\xff\\]{2}",
        rf"://[^\s/?#@\"'\\\x00-\x1f]*{edges.end}",
        r"/[^\s/?#:@\"'\\\x00-\x1f]*:[^\s/?#@\"'\\\x00-\x1f]+@",
    ]


def _of_tokens(begins: Sequence[str], edges: Edges) -> Iterator[str]:
    """A text that ends within a token, and one that ends within the beginning of one."""
    if long := [begin for begin in begins if len(begin) > _SHORT_BEGIN]:
        yield rf"(?:{'|'.join(map(re.escape, long))})[\w\-./=~+]*{edges.end}"
    if short := [begin for begin in begins if begin not in long]:
        yield rf"(?:{'|'.join(map(re.escape, short))})[0-9a-f]*{edges.end}"
    if parts := sorted({begin[:length] for begin in begins for length in range(1, len(begin))}):
        yield rf"{_NO_LETTER}(?:{'|'.join(map(re.escape, parts))}){edges.cut_token}"
