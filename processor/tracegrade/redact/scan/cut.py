"""Values that are cut by the end of a text and go on in the next one, or in the next one of the same name.

In the bytes of a request, what stands between two texts is in JSON the end of a text, commas, brackets, names of
members, numbers, and the begin of the next text; in protobuf the tags and lengths before an attribute, its key, and
attributes that are no texts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracegrade.redact.scan.first import grouped
from tracegrade.redact.scan.joining import Joining
from tracegrade.sensitive.detector import Detector
from tracegrade.sensitive.signs import expression

_QUOTE = rb'\\*+"'
_INSIDE = rb"(?:[\s\[{\]},]|" + _QUOTE + rb'[^"\\]{0,100}+' + _QUOTE + rb"\s*:|-?\d[\d.eE+\-]*+|true|false|null)*+"
_LENGTH = rb"[\x80-\xff]{0,2}[\x00-\x7f]"
_KEY = rb"[\x0a\x12\x1a\x22\x2a\x32\x3a\x42\x4a\x52]" + _LENGTH + rb"\n[\x00-\x7f][!-~]{1,127}\x12" + _LENGTH
_NO_TEXT = rb"(?:\x18[\x80-\xff]{0,9}[\x00-\x7f]|\x10[\x00\x01]|!.{8})"
_ATTRIBUTE = rb"(?:" + _KEY + _NO_TEXT + rb")*" + _KEY + rb"(?:\n|\x2a" + _LENGTH + rb"\n" + _LENGTH + rb"\n)" + _LENGTH
_BETWEEN = re.compile(
    rb"(?:" + _QUOTE + rb"[\s\]}]*+)?(?:" + _ATTRIBUTE + rb"|\n" + _LENGTH + rb"\n" + _LENGTH + rb")"
    rb"(?:[\[{]" + _INSIDE + _QUOTE + rb")?"
    rb"|" + _QUOTE + rb"[\s\]}]*+," + _INSIDE + _QUOTE,
    re.DOTALL,
)
# A member of an object that is a text: its name, and what it holds.
MEMBER = re.compile(rb'(\\*+)"([^"\\]{1,64})\1"\s*:\s*\1"(.*?)(?<!\\)\1"', re.DOTALL)
_GOES_ON = re.compile(rb"[\w@.:/+~\- ()=%]")
# The field behind the last text, whose tag, and perhaps its length, look like letters of it.
_FIELDS = [re.compile(rb'["*2:BJPRXZbjz]' + length + rb"[\x00-\x1f\x80-\xff].*", re.DOTALL) for length in (b"", b".")]
_TEXT_BEGINS = b'"/'  # of what `_OF_ADDRESSES` and `Detector.cuts` say of the begin of a text
_TEXTS_BETWEEN = 10  # begins and ends of texts between two of one name: those of names, and of a text of another one
_TEXT_END = re.compile(rb'\\*+"')

# The same as RE2 can look for it, some texts of JSON included: they stand between two of the same name.
_RE2_QUOTE = r'\\*"'
_RE2_LENGTH = r"[\x80-\xff]*[\x00-\x7f]"
_RE2_KEY = rf'[\n\x12\x1a"*2:BJR]{_RE2_LENGTH}\n[\x00-\x7f][!-~]+\x12{_RE2_LENGTH}'
_RE2_NO_TEXT = rf"(?:\x18{_RE2_LENGTH}|\x10[\x00\x01]|![\x00-\xff]{{8}})"
_RE2_ATTRIBUTE = rf"(?:{_RE2_KEY}{_RE2_NO_TEXT})*{_RE2_KEY}(?:\n|\*{_RE2_LENGTH}\n{_RE2_LENGTH}\n){_RE2_LENGTH}"
_RE2_INSIDE = rf'[\s\[{{\]}},0-9a-zE.+\-]*(?:{_RE2_QUOTE}[^"\\]*{_RE2_QUOTE}[\s:,\[\]{{}}0-9a-zE.+\-]*){{0,5}}'
_CUT = (
    rf"(?:(?:{_RE2_QUOTE}[\s\]}}]*)?(?:{_RE2_ATTRIBUTE}|\n{_RE2_LENGTH}\n{_RE2_LENGTH})(?:[\[{{]{_RE2_INSIDE}{_RE2_QUOTE})?"
    rf"|{_RE2_QUOTE}[\s\]}}]*,{_RE2_INSIDE}{_RE2_QUOTE})"
)
# Cheaper, and in more places: the same, roughly; and where a text ends, whatever comes.
_SHORT_LENGTH = r"[\x80-\xff]?[\x00-\x7f]"
_FIRST_KEY = rf'["*2:BJR\n]{_SHORT_LENGTH}\n[\x00-\x7f][!-~]+\x12{_SHORT_LENGTH}'
_FIRST_CUT = (
    rf"(?:(?:{_FIRST_KEY}{_RE2_NO_TEXT})*{_FIRST_KEY}\n{_SHORT_LENGTH}(?:[\[{{]{_RE2_INSIDE}{_RE2_QUOTE})?"
    rf"|\n{_SHORT_LENGTH}\n{_SHORT_LENGTH}|{_RE2_QUOTE}[\s\]}}]*,{_RE2_INSIDE}{_RE2_QUOTE})"
)
_END = r'(?:\\*"|[\n\x12\x1a"*2:BJRZjz][\x00-\xff]{1,2}[\n\x12\t])'
# The same where a text must follow in which a token goes on.
_END_BEFORE_TEXT = (
    rf'(?:{_RE2_QUOTE}[\s\]}}]*(?:,[\s\[{{\]}},0-9a-zE.+\-]*{_RE2_QUOTE}|[\n\x12\x1a"*2:BJR][\x80-\xff]*[\x00-\x7f]\n)'
    r'|[\n\x12\x1a"*2:BJRZjz][\x00-\xff]{1,2}[\n\x12\t])'
)
_BEGIN = r'(?:"|\n[\x80-\xff]?[\x00-\x7f])'
_NO_LETTER = r'(?:[ !#-/:-@\[\]^_`{-~"]|\\[nrt]|\n[\x01-\x08])'

_BODY = 6  # characters behind a token's beginning: with fewer it is the beginning of a word
_FEWEST_DIGITS = 6  # of a number
_LONGEST_BEGIN = 8
_SHORT_BEGIN = 2  # behind which come hexadecimal digits
# Bytes before what a first look found, and behind it: the other parts of a value, each with what stands before it.
_AROUND, _FAR = {1: (60, 200), 2: (300, 1500)}, (300, 400)
_LOOKED_AT_AGAIN = 64  # bytes before the end of a cut: all of what is short, as long tokens may be many in a row
_OF_TOKEN = 600  # the same, of the beginning of a token alone

_SEPARATORS = r"[ .\-/()]*"
_NO_DIGITS = re.compile(rb"\D+")
_TEXT_STOP = re.compile(_END.encode("ascii"), re.DOTALL)
_DIGITS_BEFORE = re.compile(rb"[\d .\-/()]{0,60}+")  # read backwards
_VERSION = re.compile(rb"\.\d\.")  # 1.4.2: of numbers, only those of telephones abroad have one digit between dots
_DIGITS_BEHIND = re.compile(_BEGIN.encode("ascii") + rb"[ .\-/()]{0,9}+(\d[\d .\-/()]{0,60}+)", re.DOTALL)


class Cuts:
    """What values look like on the wire that are cut.

    A cut is of a number, of a token, of an address, or, from there on, of one detector alone.
    """

    NUMBER, TOKEN, ADDRESS = 1, 2, 3

    def __init__(self, detectors: Sequence[Detector]) -> None:
        """`detectors` are those that join."""
        begins = sorted({begin[:_LONGEST_BEGIN] for one in detectors for begin in one.begins})
        signs: list[tuple[str, int]] = []
        of_kind: dict[int, Sequence[Detector]] = {}
        if detectors:
            of_kind = {
                self.NUMBER: [one for one in detectors if not one.begins],
                self.TOKEN: [one for one in detectors if one.begins],
                self.ADDRESS: [one for one in detectors if not (one.begins or one.cuts or one.in_numbers)],
            }
            signs = [
                (rf"\d{_SEPARATORS}{_FIRST_CUT}{_SEPARATORS}\d", self.NUMBER),
                *((sign, self.TOKEN) for sign in _of_tokens(begins)),
                *((sign, self.ADDRESS) for sign in _OF_ADDRESSES),
            ]
        for kind, detector in enumerate((one for one in detectors if one.cuts), self.ADDRESS + 1):
            of_kind[kind] = [detector]
            signs += [(cut.replace("<", _BEGIN).replace(">", _END), kind) for cut in detector.cuts]
        self._joining = {kind: Joining(some) for kind, some in of_kind.items()}
        self._first = grouped(signs)
        self._tokens = expression(_begin_of_token(begins)) if begins else None

    def places(self, wire: bytes) -> Iterator[tuple[int, int, int]]:
        """Where a text may end within a value, and of which kind that is; in no order."""
        for signs in self._first:
            at = 0
            while (match := signs.first_in(wire, at)) is not None:
                start, end = match.span()
                kinds = signs.numbers_in(match.group())
                for kind in kinds:
                    yield start, end, kind
                # A number may as well begin in a text between these two, anything else where the first one ends.
                at = start + 1 if self.NUMBER in kinds else max(start + 1, end - _LOOKED_AT_AGAIN)

    def around(self, wire: bytes, start: int, end: int, kind: int) -> tuple[bytes, int, int]:
        """What to look at where `places` are: a part of `wire`, and where in it that stands."""
        longest, behind = _AROUND.get(kind, _FAR)
        begin = max(0, start - longest)
        return wire[begin : end + behind], start - begin, end - begin

    def may_be(self, wire: bytes, start: int, end: int, kind: int) -> bool:
        """Whether a value may be cut there; all arguments are of `around`."""
        tried: list[list[bytes]] = []
        for pieces in self._joined(wire, start, end, kind):
            if pieces not in tried:
                tried.append(pieces)
                if self._joining[kind].may_be_over(pieces):
                    return True
        return False

    def _joined(self, wire: bytes, start: int, end: int, kind: int) -> Iterator[list[bytes]]:
        """Texts that may be parts of one, in each way there is."""
        if not self._may_go_on(wire, start, end, kind):
            return
        pieces = _BETWEEN.split(wire)
        yield pieces
        for field in _FIELDS:
            yield [pieces[0], *(field.sub(b"", piece) for piece in pieces[1:])]
        if kind >= self.ADDRESS and wire[start : start + 1] in _TEXT_BEGINS:
            begin = wire.rfind(b'"', 0, start + 1) + 1
            behind = _TEXT_END.search(wire, begin + 1)
            text = wire[begin : behind.start() if behind else None]
            for before in list(_TEXT_END.finditer(wire, 0, start))[-_TEXTS_BETWEEN:]:
                yield [wire[: before.start()], text]
        # What was found may begin with the quote before the text.
        if text_end := _TEXT_END.search(wire, start + 1):
            first = wire[: text_end.start()]
            by_name: dict[bytes, list[bytes]] = {}
            for member in MEMBER.finditer(wire, text_end.end()):
                if member[2] in by_name or _GOES_ON.match(member[3]):
                    by_name.setdefault(member[2], [first]).append(member[3])
            yield from by_name.values()

    def _may_go_on(self, wire: bytes, start: int, end: int, kind: int) -> bool:
        if kind == self.TOKEN:
            return self._tokens is not None and (
                self._tokens.search(wire, max(0, start - 1), min(len(wire), end + _OF_TOKEN)) is not None
            )
        if kind != self.NUMBER:
            return True
        turned = wire[: start + 1][::-1]
        before = _DIGITS_BEFORE.match(turned)
        assert before is not None  # it matches the empty text
        if _VERSION.search(before[0]) is not None and not turned.startswith(b"+", before.end()):
            return False
        fewest = _FEWEST_DIGITS - len(_NO_DIGITS.sub(b"", before[0]))
        for behind in _DIGITS_BEHIND.finditer(wire, start + 1):
            # A number may be cut again: then the next text is digits alone.
            if len(_NO_DIGITS.sub(b"", behind[1])) >= fewest or _TEXT_STOP.match(wire, behind.end()) is not None:
                return True
        return False


_OF_ADDRESSES = (
    rf"@[\w\-.\x80-\xff]*{_END}",
    r"@[\w\-.\x80-\xff\\]+\.[A-Za-z\x80-\xff\\]{2}",
    rf"://[^\s/?#@\"'\\\x00-\x1f]*{_END}",
    r"/[^\s/?#:@\"'\\\x00-\x1f]*:[^\s/?#@\"'\\\x00-\x1f]+@",
)


def _of_tokens(begins: Sequence[str]) -> Iterator[str]:
    """A text that ends within a token, and one that ends within the beginning of one."""
    long = [begin for begin in begins if len(begin) > _SHORT_BEGIN]
    yield rf"(?:{'|'.join(map(re.escape, long))})[\w\-./=~+]*{_END}"
    if short := [begin for begin in begins if begin not in long]:
        yield rf"(?:{'|'.join(map(re.escape, short))})[0-9a-f]*{_END}"
    parts = sorted({begin[:length] for begin in begins for length in range(1, len(begin))})
    yield rf"{_NO_LETTER}(?:{'|'.join(map(re.escape, parts))}){_END_BEFORE_TEXT}"


def _begin_of_token(begins: Sequence[str]) -> str:
    """The beginning of a token and some more of it, with cuts or without."""
    gap = f"{_CUT}?"
    tree: dict[str, Any] = {}
    short = []
    for begin in begins:
        if len(begin) <= _SHORT_BEGIN:
            short.append(gap.join(map(re.escape, begin)) + rf"(?:{gap}[0-9a-f]){{{_BODY}}}")
            continue
        node = tree
        for character in begin:
            node = node.setdefault(character, {})
    return "|".join((*short, rf"(?:{_written(tree, gap)})(?:{gap}[\w\-./=~]){{{_BODY}}}"))


def _written(tree: Mapping[str, Any], gap: str) -> str:
    return "|".join(
        re.escape(character) + (rf"{gap}(?:{_written(node, gap)})" if node else "") for character, node in tree.items()
    )
