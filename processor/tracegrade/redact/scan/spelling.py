r"""Texts in which characters are written in another way: ``\u0040``, ``%40``, ``&#64;``, ``=40``, full width, tags; or
with characters between them that nobody sees, or with line ends.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from html.entities import html5
from typing import NamedTuple
from unicodedata import decimal, normalize

from tracegrade.sensitive.detector import Detector, Part

# What nobody sees: soft hyphens, joiners, marks of direction, selectors of variants, tags.
_UNSEEN = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f"
_SPACES = "\u00a0\u2000-\u200a\u202f\u205f\u3000"
_DASHES = "\u2010-\u2012\u2212\ufe63"
# Full width, those of mathematics, and digits of other scripts.
_OTHER_FORMS = "\uff01-\uff5e\U0001d400-\U0001d7ff\u0660-\u0669\u06f0-\u06f9\u0966-\u096f"
# A run of backslashes is one escape, however deep it is in JSON; it is looked at from its first one alone.
_SPELLED = re.compile(
    r"(?<!\\)\\++(?:u[dD](?P<high>[89abAB][0-9a-fA-F]{2})\\++u[dD](?P<low>[c-fC-F][0-9a-fA-F]{2})"
    r"|u(?P<u>[0-9a-fA-F]{4})|x(?P<x>[0-9a-fA-F]{2})|(?P<short>[\"'/nrt]))"
    r"|%(?P<percent>[0-9a-fA-F]{2})"
    # Browsers read a number also without the semicolon.
    r"|&(?:\#[xX](?P<hex>[0-9a-fA-F]{1,6});?|\#(?P<decimal>[0-9]{1,7});?|(?P<name>[A-Za-z]{2,8});)"
    rf"|[{_UNSEEN}]+|[{_SPACES}{_DASHES}{_OTHER_FORMS}]"
)
# Apart, as what is in a query looks like it: ``?q=40``.
_QUOTED_PRINTABLE = re.compile(r"=(?:(?P<quoted>[0-9A-F]{2})|\r?\n)")
# A tag for each character of ASCII, which nobody sees: a text of its own within another.
_TAGS = re.compile("[\U000e0020-\U000e007e]+")
_NO_TAGS = re.compile("[^\U000e0020-\U000e007e]+")
_TAG_OFFSET = 0xE0000
_SHORT = {"n": "\n", "r": "\r", "t": "\t"}
_LARGEST = 0x10FFFF

_LINE_END = re.compile(r"\r?\n[ \t]*")
_MOST_LINES = 4  # of a token that is as long as all of its kind
_LINE_END_SIGN = r"(?:\r?\n|(?:\\+r)?\\+n)[ \t]*"

# Of UTF-8. Not those that stand in every text: escaped quotes and line ends, the names of & and <.
SIGNS = (
    r"\\(?:u00[2-7]|x[2-7])[0-9a-fA-F]|\\/",
    # The characters of the last two expressions, as JSON escapes what is not ASCII.
    r"\\u(?i:00a[0d]|034f|061c|180e|200|201[0-2]|202[a-f]|205f|206|2212|3000|fe[06]|feff|ff[0-5]|066|06f|096|d835|db40)",
    r"%[2-7][0-9a-fA-F]",
    r"&(?:#|commat;|period;|lowbar;|hyphen;|dash;|colon;|sol;|plus;|equals;)",
    r"=(?:[2-7][0-9A-F]|\r?\n[!-~])",
    r"\xc2[\xa0\xad]|\xcd\x8f|\xd8\x9c|\xe1\xa0\x8e|\xe2(?:\x80[\x80-\x92\xaa-\xaf]|\x81[\x9f-\xaf]|\x88\x92)"
    r"|\xe3\x80\x80|\xef(?:\xb8[\x80-\x8f]|\xb9\xa3|\xbb\xbf)",
    r"\xf3\xa0[\x80\x81]",
    r"\xef(?:\xbc[\x8b\x8d-\x9a\xa0-\xbf]|\xbd[\x81-\x9a])|\xf0\x9d[\x90-\x9f]|\xd9[\xa0-\xa9]|\xdb[\xb0-\xb9]"
    r"|\xe0\xa5[\xa6-\xaf]",
)


class Respelled(NamedTuple):
    """A text with plain characters, and where each piece of it stood."""

    text: str
    starts: list[int]
    pieces: list[tuple[int, int, bool]]
    """Where a piece stood, and whether it is as it was."""

    def part(self, start: int, end: int) -> Part:
        """What stood where ``text[start:end]`` is."""
        return self._at(start)[0], self._at(end - 1)[1]

    def _at(self, place: int) -> Part:
        number = bisect_right(self.starts, place) - 1
        start, end, is_same = self.pieces[number]
        if is_same:
            start += place - self.starts[number]
            return start, start + 1
        return start, end


class Spelling:
    """How values may be spelled that these detectors find.

    Attributes:
        signs: of all that is spelled otherwise: expressions for RE2.
    """

    def __init__(self, detectors: Sequence[Detector]) -> None:
        begins = "|".join(re.escape(begin) for one in detectors for begin in one.begins if len(begin) > 2)
        token, behind = rf"(?:{begins or '(?!)'})[\w\-./=~+]", r"\r?\n[ \t]{0,20}+"
        # As terminals and mails wrap lines: within a token, and between the groups of a number.
        self._wrapped = re.compile(
            rf"{token}{{0,200}}+(?:{behind}[\w\-./=~+]{{1,200}}+){{1,100}}+"
            rf"|(?<!\d)(?<!\d[ \-])\d[\d \-]{{0,40}}+(?:{behind}\d[\d \-]{{0,40}}+){{1,10}}+"
        )
        self.signs = (*SIGNS, *((f"{token}*{_LINE_END_SIGN}",) if begins else ()), rf"\d\d{_LINE_END_SIGN}\d\d")

    def respelled(self, text: str) -> Iterator[Respelled]:
        """`text` in plain characters, in each way that changes it. O(length)."""
        for spelling in (_SPELLED, _QUOTED_PRINTABLE):
            if (
                found := _respelled(text, ((*match.span(), _plain(match)) for match in spelling.finditer(text)))
            ) is not None:
                yield found
        if _TAGS.search(text):
            hidden = [(*match.span(), _untagged(match.group())) for match in _TAGS.finditer(text)]
            shown = [(*match.span(), " ") for match in _NO_TAGS.finditer(text)]
            # Together with what is shown, and by itself: a token that is glued to letters is none.
            for written in (hidden, sorted(hidden + shown)):
                if (found := _respelled(text, written)) is not None:
                    yield found
        # A line behind it may look like more of it.
        runs = [[end.span() for end in _LINE_END.finditer(text, *run.span())] for run in self._wrapped.finditer(text)]
        for most in range(1, min(_MOST_LINES, max(map(len, runs), default=0)) + 1):
            places = ((start, end, "") for run in runs for start, end in (run if most == _MOST_LINES else run[:most]))
            if (found := _respelled(text, places)) is not None:
                yield found


def _respelled(text: str, places: Iterable[tuple[int, int, str | None]]) -> Respelled | None:
    written: list[str] = []
    starts: list[int] = []
    pieces: list[tuple[int, int, bool]] = []
    length = end = 0

    def add(piece: str, start: int, to: int, *, is_same: bool) -> None:
        nonlocal length
        if piece:
            written.append(piece)
            starts.append(length)
            pieces.append((start, to, is_same))
            length += len(piece)

    for start, stop, plain in places:
        if plain is None:
            continue
        add(text[end:start], end, start, is_same=True)
        add(plain, start, stop, is_same=False)
        end = stop
    if not end:
        return None
    add(text[end:], end, len(text), is_same=True)
    return Respelled("".join(written), starts, pieces)


def _plain_form(character: str) -> str:
    return str(decimal(character)) if character.isdecimal() else normalize("NFKC", character)


def _untagged(tags: str) -> str:
    return "".join(chr(ord(tag) - _TAG_OFFSET) for tag in tags)


def _plain(match: re.Match[str]) -> str | None:
    """What is meant; None when it is what it says."""
    kind = match.lastgroup
    if kind == "low":
        return chr(0x10000 + ((int("d" + match["high"], 16) - 0xD800) << 10) + int("d" + match["low"], 16) - 0xDC00)
    if kind is None:
        return _plain_form(match.group()) if match.group()[0] in _FORMS else ""
    found = match[kind]
    if kind == "short":
        return _SHORT.get(found, found)
    if kind == "name":
        return html5.get(found + ";")
    number = int(found, 10 if kind == "decimal" else 16)
    return chr(number) if number <= _LARGEST else None


class _Forms:
    """The characters that have a plain one."""

    _expression = re.compile(f"[{_SPACES}{_DASHES}{_OTHER_FORMS}]")

    def __contains__(self, character: str) -> bool:
        return self._expression.match(character) is not None


_FORMS = _Forms()
