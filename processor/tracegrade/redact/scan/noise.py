"""Base64 of what is no text, such as pictures and sound: in it, expressions are slow, and nothing else is to be found.

RE2 makes a new state for nearly every byte of it, so that a picture of 300 KB took 3 s of CPU.
"""

import re
from base64 import b64decode
from string import ascii_lowercase, ascii_uppercase, digits

from tracegrade.redact.scan.encoded import run_end
from tracegrade.sensitive.detector import Part

_BLOCK = 512
_FEWEST_BLOCKS = 4
# Of 512 signs of base64 of random bytes, and how many of the 384 bytes differ: six standard deviations about the mean.
_SHARES = ((ascii_uppercase, 140, 276), (ascii_lowercase, 140, 276), (digits, 30, 130), ("+-", 1, 25), ("/_", 1, 25))
_FEWEST_DIFFERENT = 160
_OF_SHARES = [(every.encode("ascii"), least, most) for every, least, most in _SHARES]
_LINE_ENDS = b"\\\r\n"  # those of "\\n" are signs
_LINE_END = re.compile(rb"\r?\n|(?:\\+r)?\\+n")
_LINES = ({64}, {76})  # of PEM and of MIME: others may be a token each
_SIGNS = b"".join(every for every, _, _ in _OF_SHARES) + _LINE_ENDS
_FOR_URLS = bytes.maketrans(b"-_", b"+/")
# So that it is seen what stands before and behind, such as the name of a secret and how it begins.
_EDGE = 64
_FARTHEST = 1 << 16  # where base64 is looked for before it


BLANK = "x"
"""A letter that no sign is of, as in `without_uuids`."""
SMALLEST = _FEWEST_BLOCKS * _BLOCK
"""Of fewer bytes, none is looked for."""


def noise_in(data: bytes) -> list[Part]:
    """Where `data` holds 2 KB or more of it, from and up to, without its first and last signs."""
    found: list[Part] = []
    done = 0
    for at in range(0, len(data) - _BLOCK + 1, SMALLEST):  # so that of so many blocks one is met
        if at < done or not _is_noise(data, at):
            continue
        start, end = at, at + _BLOCK
        while start - _BLOCK >= done and _is_noise(data, start - _BLOCK):
            start -= _BLOCK
        while _is_noise(data, end):
            end += _BLOCK
        done = end
        if end - start >= SMALLEST:
            found.append((start + _EDGE, end - _EDGE))
    return found


def run_around(data: bytes, noise: Part) -> Part:
    """Where all of the base64 stands that `noise` is within."""
    start, end = noise
    before = data[max(0, start - _FARTHEST) : start]
    return start - len(before) + len(before.rstrip(_SIGNS)), run_end(data, end)


def blanked(data: bytes, noise: list[Part]) -> bytes:
    """`data`, as long as it is, with one letter throughout in place of noise."""
    written = bytearray(data)
    for start, end in noise:
        written[start:end] = BLANK.encode("ascii") * (end - start)
    return bytes(written)


def _is_noise(data: bytes, at: int) -> bool:
    block = data[at : at + _BLOCK]
    if len(block) < _BLOCK or block.translate(None, _SIGNS):
        return False
    if not all(least <= len(block) - len(block.translate(None, every)) <= most for every, least, most in _OF_SHARES):
        return False
    first, *lines = _LINE_END.split(block)
    if lines and {len(line) for line in lines[:-1]} not in _LINES:
        return False
    signs = b"".join((first, *lines)).translate(_FOR_URLS)
    return len(set(b64decode(signs[: len(signs) // 4 * 4]))) >= _FEWEST_DIFFERENT
