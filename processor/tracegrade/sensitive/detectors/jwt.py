"""JSON Web Tokens (RFC 7519): three parts in base64url, the first of which says how the token is signed."""

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from json import loads

from tracegrade.sensitive.detector import Detector, Part
from tracegrade.sensitive.likeness import is_likeness, likeness

_TOKEN = re.compile(r"(?<![\w\-.])(eyJ[\w\-]{8,}+)\.(?:[\w\-]{4,}+)\.[\w\-]*+", re.ASCII)


def _find(text: str, key: str) -> Iterator[Part]:
    if "eyJ" not in text:
        return
    for match in _TOKEN.finditer(text):
        # The header says nothing of anybody, and is what tokens are known by.
        rest = match.end(1) + 1
        if _is_header(match.group(1)) and not is_likeness(text[rest : match.end()]):
            yield rest, match.end()


def _is_header(part: str) -> bool:
    try:
        header = loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        return False
    return isinstance(header, dict) and "alg" in header


DETECTOR = Detector(
    "jwt",
    _find,
    likeness,
    signs=(r"eyJ[\w\-]{8,}\.[\w\-]{4,}\.[\w\-]*",),
    begins=("eyJ",),
    first=(r"eyJ[\w\-]{8,}\.[\w\-]{4}",),
)
