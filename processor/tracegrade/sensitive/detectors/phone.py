"""Telephone numbers: with a plus and the country's code, as North Americans write them, or named so by their key.

Digits alone are only a telephone number where their key says so: identifiers and times look the same.

Source: ITU-T E.164 (at most 15 digits), North American Numbering Plan.
"""

import re
from collections.abc import Iterator

from tracegrade.sensitive.check_digits import digits_of
from tracegrade.sensitive.detector import Detector, Part
from tracegrade.sensitive.likeness import is_likeness

_INTERNATIONAL = re.compile(r"(?<![\w+])\+[1-9](?:[ .\-/()]{0,2}\d){7,14}+(?!\w)")
_NORTH_AMERICAN = re.compile(
    r"(?<![\w.+\-])(?:1[ .\-])?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}[ .\-])[2-9]\d{2}[ .\-]\d{4}(?![\w\-])(?!\.\d)"
)
_NAMED = re.compile(r"phone|mobile|whatsapp|msisdn|(?:^|[_.\- ])(?:tel|fax|cell)(?:$|[_.\- ])", re.IGNORECASE)
_WHOLE = re.compile(r"\s*\+?\(?\d(?:[ .\-/()]{0,2}\d){6,14}+\s*")
# Codes of countries with one digit and with two; all others have three.
_COUNTRY = re.compile(r"\+(?:[17]|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|\d{3})")
_OF_STAND_IN = slice(1, 5)  # zeros there: no plan has such numbers


def _find(text: str, key: str) -> Iterator[Part]:
    if key and _NAMED.search(key) and _WHOLE.fullmatch(text):
        found = [(0, len(text))]
    else:
        found = sorted(match.span() for some in (_INTERNATIONAL, _NORTH_AMERICAN) for match in some.finditer(text))
    for start, end in found:
        national = _national(text[start:end])
        if national[_OF_STAND_IN].strip("0") and not is_likeness(national):
            yield start, end


def _stand_in(value: str, number: int) -> str:
    """The country and the first digit of the rest as they are, then zeros and the number; laid out as it was."""
    national = _national(value)
    country = digits_of(value)[: -len(national)]
    left = iter(country + national[0] + str(number).rjust(len(national) - 1, "0"))
    return "".join(next(left) if character.isdigit() else character for character in value)


def _national(text: str) -> str:
    """The digits behind the country's code, if there is one; of North America, behind the 1 before the area."""
    digits = digits_of(text)
    if country := _COUNTRY.match("+" + digits if text.lstrip().startswith("+") else ""):
        return digits[country.end() - 1 :]
    return digits[1:] if len(digits) == 11 and digits[0] == "1" else digits


DETECTOR = Detector(
    "phone",
    _find,
    _stand_in,
    identity=digits_of,
    in_numbers=True,
    signs=(
        r"\+[1-9](?:[ .\-/()]{0,2}\d){7}",
        r"[2-9]\d{2}(?:\) ?|[ .\-])[2-9]\d{2}[ .\-]\d{4}",
    ),
    key_signs=(r"(?i:phone|mobile|whatsapp|msisdn|tel|fax|cell)(?:[^\d\\]|\\+){0,40}\d(?:[ .\-/()]{0,2}\d){6}",),
    first=(
        r"\+[1-9](?:[ .\-/()]{0,2}\d){7}",
        r"[2-9]\d{2}(?:\) ?|[ .\-])[2-9]\d{2}[ .\-]\d{4}",
        r"(?i:phone|mobile|whatsapp|msisdn|tel|fax|cell)[^\d]*\d(?:[ .\-/()]{0,2}\d){6}",
    ),
    cuts=(r"\+>",),
    is_named=lambda key: _NAMED.search(key) is not None,
)
