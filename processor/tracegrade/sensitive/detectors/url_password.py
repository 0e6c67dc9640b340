"""Passwords within addresses: ``scheme://user:password@host``."""

import re
from collections.abc import Iterator

from tracegrade.sensitive.detector import Detector, Part

_ADDRESS = re.compile(
    r"(?<![A-Za-z0-9+.\-])[A-Za-z][A-Za-z0-9+.\-]{1,30}://[^\s/?#:@\"']{0,128}:([^\s/?#@\"']{1,256})@"
)
_NO_SECRET = re.compile(r"redacted-\d+|\*+|\$\{?.*|[<\[].*[>\]]")


def _find(text: str, key: str) -> Iterator[Part]:
    if "://" not in text or "@" not in text:
        return
    for match in _ADDRESS.finditer(text):
        if not _NO_SECRET.fullmatch(match.group(1)):
            yield match.span(1)


DETECTOR = Detector(
    "url_password",
    _find,
    lambda value, number: f"redacted-{number}",
    signs=(r"[A-Za-z][A-Za-z0-9+.\-]{1,30}://[^\s/?#:@\"']{0,128}:[^\s/?#@\"']+@",),
    first=(r"://[^\s/?#:@\"']*:[^\s/?#@\"']+@",),
)
