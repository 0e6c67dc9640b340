"""E-mail addresses."""

import re
from collections.abc import Iterator

from tracegrade.sensitive.detector import Detector, Part

# The name before the @ begins where a word begins, so that long texts are read once. An escaped line end, as in text
# that is not quite JSON, is no part of it.
_ADDRESS = re.compile(
    r"(?:(?<![\w.%+\-\\])|(?<=\\[nrt]))"
    r"[\w.%+\-][\w.%+\-']{0,63}+@(?:[\w\-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![^\W_]|-\w)"
)
_STAND_IN = re.compile(r"user\d+@example\.com", re.IGNORECASE)
# How addresses of repositories begin, and what follows a password in a web address.
_NO_PERSON = re.compile(r"(?:git|redacted-\d+)@")


def _find(text: str, key: str) -> Iterator[Part]:
    if "@" not in text:
        return
    for match in _ADDRESS.finditer(text):
        if not (_STAND_IN.fullmatch(match.group()) or _NO_PERSON.match(match.group())):
            yield match.span()


def _stand_in(value: str, number: int) -> str:
    address = f"user{number}@example.com"  # a domain that RFC 2606 reserves for examples
    return address.upper() if value.isupper() else address


DETECTOR = Detector(
    "email",
    _find,
    _stand_in,
    identity=str.casefold,
    signs=(r"[\w.%+\-'\x80-\xff]@[\w\-.\x80-\xff\\]+\.[A-Za-z\x80-\xff\\]{2}",),
    ends_by_itself=True,
    first=(r"@[\w\-.\x80-\xff\\]+\.[A-Za-z\x80-\xff\\]{2}",),
)
