"""International bank account numbers: as long as their country's are, with right check digits.

Source: ISO 13616 and the SWIFT IBAN registry (lengths by country); the check digits are those of ISO 7064, mod 97-10.
"""

import re
from collections.abc import Iterator
from string import ascii_letters, digits

from tracegrade.sensitive.detector import Detector, Part

_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO",
        16: "BE BI",
        18: "DK FO FI GL NL",
        19: "MK SI",
        20: "AT BA EE KZ LT LU XK MN",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BJ BF CF CG CI CM DZ FR GR HN IT KM MA MC MG ML MR NE SM SN TD TG",
        28: "AL AZ BY CY DO GT GW HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}
_COUNTRIES = "|".join(sorted(_LENGTHS))
_NUMBER = re.compile(rf"(?<![A-Za-z0-9])(?:{_COUNTRIES})\d\d(?:[ \-]?[A-Za-z0-9]){{11,30}}", re.IGNORECASE | re.ASCII)
_AT_BEGIN = re.compile(r"(?:[ \-]?[A-Za-z0-9])*+", re.ASCII)
_BESIDE = re.compile(r"[A-Za-z0-9]")
_STAND_IN_CHECK = "00"  # never right: the remainder of 98 less 97 is 2 to 98


def _find(text: str, key: str) -> Iterator[Part]:
    for match in _NUMBER.finditer(text):
        if end := _end(text, match.start(), match.end()):
            yield match.start(), end


def _end(text: str, start: int, longest: int) -> int:
    """Where the number that begins at `start` ends; 0 when there is none."""
    length = _LENGTHS[text[start : start + 2].upper()]
    signs = []
    for at in range(start, longest):
        if text[at].isalnum():
            signs.append(text[at])
            if len(signs) == length:
                is_word = _BESIDE.match(text, at + 1) is None
                return at + 1 if is_word and _is_right("".join(signs).upper()) else 0
    return 0


def _is_right(number: str) -> bool:
    turned = number[4:] + number[:4]
    return int("".join(str(int(sign, 36)) for sign in turned)) % 97 == 1


def _identity(value: str) -> str:
    return "".join(filter(str.isalnum, value)).upper()


def _stand_in(value: str, number: int) -> str:
    """The country, check digits that are never right, zeros and the number; laid out as it was."""
    body = value[0:2] + _STAND_IN_CHECK + str(number).rjust(len(_identity(value)) - 4, "0")
    left = iter(body)
    return "".join(next(left) if character.isalnum() else character for character in value)


def _may_be(text: str) -> bool:
    """Whether a number is anywhere in what `text` begins with, whatever stands around it."""
    return any(
        _is_right(number[start : start + _LENGTHS[number[start : start + 2]]])
        for number in [_identity(_AT_BEGIN.match(text)[0])]  # type: ignore[index]  # it matches the empty text too
        for start in range(len(number) - 14)
        if number[start : start + 2] in _LENGTHS
        and number[start + 2 : start + 4].isdigit()
        and start + _LENGTHS[number[start : start + 2]] <= len(number)
    )


DETECTOR = Detector(
    "iban",
    _find,
    _stand_in,
    identity=_identity,
    signs=(rf"(?i:{_COUNTRIES})\d\d(?:[ \-]?[A-Za-z0-9]){{11,40}}",),
    may_be=_may_be,
    first=(rf"(?i:{_COUNTRIES})\d\d(?:[ \-]?[A-Za-z0-9]){{11}}",),
    cuts=(
        r"<[A-Za-z]?\d\d(?:[A-Za-z0-9]{11}|[A-Za-z0-9]{0,2}(?:[ \-][A-Za-z0-9]{4}){2})",
        rf"(?:[^A-Za-z0-9]|<)(?i:{_COUNTRIES})\d(?:\d(?:[ \-]?[A-Za-z0-9])*[ \-]?)?>",
    ),
    not_behind=ascii_letters + digits,
)
