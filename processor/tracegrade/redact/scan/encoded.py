"""Pieces of texts that hold another: base64 (also for URLs, in lines, packed, or in UTF-16) and hexadecimal.

A text in base64 is known by what ASCII leaves out: of four signs in a row the first three can each have half of the 64
values, so that other words with 12 such signs are rare. In hexadecimal, every other digit is 2 to 7.
"""

import re
import zlib
from base64 import b64decode
from collections.abc import Iterator
from itertools import islice
from string import ascii_lowercase, ascii_uppercase, digits
from typing import NamedTuple

_ALPHABET = ascii_uppercase + ascii_lowercase + digits
_SIGN = r"[A-Za-z0-9+/_\-]"
_FEWEST_QUADS = 3  # nine characters: the shortest id of a person
_FEWEST_PAIRS = 9
_MOST_BYTES = 1 << 18  # that a packed piece is unpacked to
# How what gzip and zlib packed begins, in base64: zlib's two bytes and two bits, of four levels.
_GZIP = "H4sI"
_ZLIB = "e(?:J[w-z]|A[E-H]|N[o-r]|F[4-7])"
_ZLIB_SIGNS = 13  # behind it, of an address as short as 1.1.1.1
_PACKED_HEADS = (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_MOST_PACKED = 8  # in one run


def _half(bit: int, set_to: int) -> str:
    """The signs whose number has a bit as given."""
    found = [sign for number, sign in enumerate(_ALPHABET + "+/") if bool(number & bit) == bool(set_to)]
    found += [{"+": r"\-", "/": "_"}[sign] for sign in found if sign in "+/"]
    return f"[{''.join(found)}]"


_QUAD = f"(?:{_half(32, 0)}{_half(8, 0)}{_half(2, 0)}{_SIGN})"
_PAIR = "(?:[2-7][0-9a-fA-F]|0[9aAdD])"
# From a begin on, in whole steps: a match one sign before must not hide the right one.
_QUADS = re.compile(f"(?:{_SIGN}{{4}})*?{_QUAD}{{{_FEWEST_QUADS}}}")
_PAIRS = re.compile(f"(?:[0-9a-fA-F]{{2}})*?{_PAIR}{{{_FEWEST_PAIRS}}}")
_LINE_END = r"(?:\r?\n|(?:\\+r)?\\+n)"
_BASE64 = re.compile(rf"(?:{_SIGN}{{60,100}}{_LINE_END})++{_SIGN}*+={{0,2}}|{_SIGN}{{12,}}+={{0,2}}")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{18,}+")
_RUN = re.compile(rb"(?:[A-Za-z0-9+/_=.\-]|\\+[rn]|\r?\n)*+")
_NO_SIGNS = re.compile(r"\\+[rn]|[^A-Za-z0-9+/_\-]")
_FOR_URLS = str.maketrans("-_", "+/")

_PACKED = re.compile(f"{_GZIP}|{_ZLIB}(?={_SIGN}{{{_ZLIB_SIGNS}}})")

_SHORTEST_VALUE = 7  # of an address such as 1.1.1.1
_TEXT = re.compile(
    rb"(?:[\t\n\r -~]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    rb"|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}"
    rb"|\xf4[\x80-\x8f][\x80-\xbf]{2}){%d,}+" % _SHORTEST_VALUE
)
_NO_TEXT = "\ufffd"
_ASCII = bytes((9, 10, 13, *range(32, 127)))
_LARGE = 1024  # bytes; of less, searching all of it costs little

SIGNS = (f"{_QUAD}{{{_FEWEST_QUADS}}}", f"{_PAIR}{{{_FEWEST_PAIRS}}}", _GZIP, f"{_ZLIB}{_SIGN}{{{_ZLIB_SIGNS}}}")


class Piece(NamedTuple):
    """Where a piece stands, and the text in it."""

    start: int
    end: int
    text: str


def pieces(text: str) -> Iterator[Piece]:
    """The pieces of `text` that hold another text; one may come more than once, read in different ways."""
    for match in _BASE64.finditer(text):
        for raw in _from_base64(match.group()):
            yield Piece(*match.span(), _text_of(raw))
    for match in _HEXADECIMAL.finditer(text):
        run = match.group()
        for first in (begin for begin in range(2) if _PAIRS.match(run, begin)):
            raw = bytes.fromhex(run[first : len(run) - (len(run) - first) % 2])
            yield Piece(*match.span(), _text_of(raw))


def run_end(data: bytes, start: int) -> int:
    """Where a piece ends that `start` is within."""
    return _RUN.match(data, start).end()  # type: ignore[union-attr]  # it matches the empty text


def _from_base64(run: str) -> Iterator[bytes]:
    """What `run` may be; a word may stand before it, so that it begins one, two or three signs later."""
    signs = _NO_SIGNS.sub("", run)
    for packed in islice(_PACKED.finditer(signs), _MOST_PACKED):
        if raw := _unpacked(_decoded(signs[packed.start() :])):
            yield raw
    for begin in range(4):
        if _QUADS.match(signs, begin) and not _unpacked(raw := _decoded(signs[begin:])):
            yield raw


def _decoded(signs: str) -> bytes:
    signs = signs[: len(signs) - (len(signs) % 4 == 1)].translate(_FOR_URLS)
    return b64decode(signs + "=" * (-len(signs) % 4))


def _text_of(raw: bytes) -> str:
    # In UTF-16, every other byte of what is ASCII is 0; other text may stand before it in the same lines.
    raw = raw.replace(b"\0", b"")
    if len(raw) < _LARGE or 2 * len(raw.translate(None, _ASCII)) < len(raw):
        return raw.decode("utf-8", "replace")
    # Such as a picture, in which signs of everything turn up: what is no text is left out.
    return _NO_TEXT.join(stretch.decode() for stretch in _TEXT.findall(raw))


def _unpacked(raw: bytes) -> bytes:
    """What gzip or zlib packed, as much of it as there is and as may be; nothing where they did not."""
    if not raw.startswith(_PACKED_HEADS):
        return b""
    try:
        return zlib.decompressobj(wbits=47).decompress(raw, _MOST_BYTES)
    except zlib.error:
        return b""
