"""Requests with what stands between neighbouring texts taken out, so that what is split over them is seen.

In JSON that is the end of a text, commas, brackets, the names of members, numbers, and the begin of the next text; in
protobuf the tags and lengths before an attribute, its key, and attributes that are no texts.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

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


def joined(wire: bytes) -> bytes:
    """`wire` without what stands between texts."""
    return _BETWEEN.sub(b"", wire)


# The same as RE2 can look for it between any two characters, in one pass over the bytes.
_RE2_QUOTE = r'\\*"'
_RE2_INSIDE = rf'(?:[\s\[{{\]}},0-9a-zE.+\-]|{_RE2_QUOTE}[^"\\]*{_RE2_QUOTE}\s*:)*'
_RE2_LENGTH = r"[\x80-\xff]*[\x00-\x7f]"
_RE2_KEY = rf'[\n\x12\x1a"*2:BJR]{_RE2_LENGTH}\n[\x00-\x7f][!-~]+\x12{_RE2_LENGTH}'
_RE2_NO_TEXT = rf"(?:\x18{_RE2_LENGTH}|\x10[\x00\x01]|![\x00-\xff]{{8}})"
_RE2_ATTRIBUTE = rf"(?:{_RE2_KEY}{_RE2_NO_TEXT})*{_RE2_KEY}(?:\n|\*{_RE2_LENGTH}\n{_RE2_LENGTH}\n){_RE2_LENGTH}"
_GAP = (
    rf"(?:(?:{_RE2_QUOTE}[\s\]}}]*)?(?:{_RE2_ATTRIBUTE}|\n{_RE2_LENGTH}\n{_RE2_LENGTH})(?:[\[{{]{_RE2_INSIDE}{_RE2_QUOTE})?"
    rf"|{_RE2_QUOTE}[\s\]}}]*,{_RE2_INSIDE}{_RE2_QUOTE})?"
)
_BODY = 6  # characters behind a token's beginning: with fewer it is the beginning of a word
_DIGITS = 9
_LONGEST_BEGIN = 8
_SHORT_BEGIN = 2  # behind which come hexadecimal digits


def across(begins: Collection[str], signs: Collection[str]) -> str:
    """An expression for RE2 of what every split value holds: its beginning, a sign, digits, or an ``@``.

    In `signs`, ``~`` is where a text may end and the next begin.
    """
    tree: dict[str, Any] = {}
    short = []
    for begin in sorted(begins):
        if len(begin) <= _SHORT_BEGIN:
            short.append(_GAP.join(map(re.escape, begin)) + rf"(?:{_GAP}[0-9a-f]){{{_BODY}}}")
            continue
        node = tree
        for character in begin[:_LONGEST_BEGIN]:
            node = node.setdefault(character, {})
    address = rf"[\w.%+\-'\x80-\xff]{_GAP}@(?:{_GAP}[\w\-\x80-\xff])+{_GAP}\.{_GAP}[A-Za-z\x80-\xff]"
    password = rf":{_GAP}/{_GAP}/(?:{_GAP}[^\s/?#@\"\\\x00-\x1f])*{_GAP}:(?:{_GAP}[^\s/?#@\"\\\x00-\x1f])+{_GAP}@"
    digits = rf"\d(?:(?:[ .\-/()]{{0,2}}|{_GAP})\d){{{_DIGITS - 1}}}"
    body = rf"(?:{_GAP}[\w\-./=~]){{{_BODY}}}"
    others = [sign.replace("~", _GAP) for sign in sorted(signs)]
    return "|".join((*others, address, password, digits, *short, *([rf"(?:{_written(tree)}){body}"] if tree else ())))


def _written(tree: Mapping[str, Any]) -> str:
    return "|".join(
        re.escape(character) + (rf"{_GAP}(?:{_written(node)})" if node else "") for character, node in tree.items()
    )


_FRAME = re.compile(rb'["\x00-\x1f]')
# Where a text ends: at a quote, or where tag and length of the next field stand, which may look like letters.
_END = rb'(?:["\\\x00-\x1f\x7f]|[\x80-\xff]{0,2}[\x00-\x7f]\n)'
_TO_END = re.compile(rb'[^\s"\\\x00-\x1f]{0,300}+' + _END)
_DIGITS_TO_END = re.compile(rb"[\d .\-/()]{0,40}+[A-Za-z]{0,2}" + _END)
_DIGITS_TO_BEGIN = re.compile(rb"[\d .\-/()+]{0,40}+[A-Za-z]{0,4}[\d ]{0,3}" + _END)  # read backwards
_LONGEST_PIECE = 300
_AFTER = 1500  # bytes behind the beginning of a value: its other parts, each with what stands before it
_AFTER_DIGITS = 500
_BEFORE_DIGITS = 200


def around(wire: bytes, start: int, end: int) -> bytes:
    """What to look at when a value of which ``wire[start:end]`` is a part may go on in another text; b"" when not."""
    is_number = wire[start : start + 1].isdigit()
    before = wire[max(0, start - _LONGEST_PIECE) : start][::-1]
    to_end, to_begin = (_DIGITS_TO_END, _DIGITS_TO_BEGIN) if is_number else (_TO_END, _TO_END)
    if not (_FRAME.search(wire, start, end) or to_end.match(wire, end) or not before or to_begin.match(before)):
        return b""
    first, last = (_BEFORE_DIGITS, _AFTER_DIGITS) if is_number else (_LONGEST_PIECE, _AFTER)
    return wire[max(0, start - first) : end + last]
