"""Private keys as PEM writes them (RFC 7468), whole or cut off."""

import re
from collections.abc import Iterator

from tracegrade.sensitive.detector import Detector, Part
from tracegrade.sensitive.likeness import is_likeness, likeness

# Line ends may be escaped, as in text that is not quite JSON.
_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"((?:\\+[nr]|[A-Za-z0-9+/=\s:,]|-(?!----))*)"
)
_ESCAPED = re.compile(r"(\\+[nr])")
_SHORTEST = 16


def _find(text: str, key: str) -> Iterator[Part]:
    if "PRIVATE KEY" not in text:
        return
    for match in _KEY.finditer(text):
        body = match.group(1)
        if len(body.strip()) >= _SHORTEST and not is_likeness(_ESCAPED.sub("", body)):
            yield match.span(1)


def _stand_in(value: str, number: int) -> str:
    pieces = _ESCAPED.split(value)
    alike = iter(likeness("".join(pieces[::2]), number))
    return "".join(piece if place % 2 else "".join(next(alike) for _ in piece) for place, piece in enumerate(pieces))


DETECTOR = Detector(
    "private_key",
    _find,
    _stand_in,
    signs=(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s:,\-\\])*",),
    begins=("PRIVATE KEY",),
    cuts=(r"<[A-Z0-9 \-]*PRIVATE KEY",),
    first=("PRIVATE KEY",),
)
