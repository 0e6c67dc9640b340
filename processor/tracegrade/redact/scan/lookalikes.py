"""Look-alikes that are no personal data: UUIDs, and the address of the host itself.

A number begins behind no letter, digit or dash, and ends before none. So one that shares a character with a UUID would
have to hold all of it, which is longer than any, and has letters among its digits. A token may hold one behind a dash,
or in the text behind the one that ends with the dash.
"""

import re

_FIRST, _REST = 8, 12  # digits before and behind the part of a UUID that is looked for
_UUID = re.compile(
    rb"-(?<=(?:[^0-9A-Za-z_\-]|(?<=-)-)[0-9A-Fa-f]{8}-)(?:[0-9A-Fa-f]{4}-){3}(?=[0-9A-Fa-f]{12}(?![0-9A-Fa-f]))"
)
_DIGITS = b"0123456789-"
_LONGEST_NUMBER = 18  # with its dashes
_BEFORE_UUID, _BETWEEN_TEXTS = b"sk-lf-", 1500  # the one form of a token that a UUID follows
# Letters that no sign is of, as they are none of a number's and none that base64 of a text is known by.
_BLANK = b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
_HOST_ITSELF = re.compile(rb"(?<![\d.])127\.0\.0\.1(?![\d.])")
_SHORTER = 2  # a sign of an address begins with the last digit of its first number


def without_uuids(data: bytes) -> bytes:
    """`data`, as long as it is, without the digits of UUIDs."""
    found: bytearray | None = None
    for match in _UUID.finditer(data):
        start, end = match.start() - _FIRST, match.end() + _REST
        is_of_token = data.rfind(_BEFORE_UUID, max(0, start - _BETWEEN_TEXTS), start) >= 0
        if data[start : start + _LONGEST_NUMBER].strip(_DIGITS) and not is_of_token:
            found = found or bytearray(data)
            found[start:end] = _BLANK
    return data if found is None else bytes(found)


def is_host_itself(data: bytes, start: int) -> bool:
    """Whether the sign of an address that begins there is of the host itself."""
    return start >= _SHORTER and _HOST_ITSELF.match(data, start - _SHORTER) is not None
