"""Numbers of payment cards: as long as the issuer's are, beginning with its digits, with a right check digit (Luhn).

Source: ISO/IEC 7812-1; the issuers' ranges of first digits.
"""

import re
from collections.abc import Iterator, Sequence

from tracegrade.sensitive.check_digits import NOT_BEHIND_NUMBERS, digits_of, luhn_sum
from tracegrade.sensitive.detector import Detector, Part

_RUN = re.compile(r"(?<![\w.+\-])\d(?:[ \-]?\d){12,}+(?![\w\-])(?!\.\d)", re.ASCII)
_AT_BEGIN = re.compile(r"(?:[ \-]?\d)*+", re.ASCII)
_GROUP = re.compile(r"\d+", re.ASCII)
_SHORTEST, _LONGEST = 13, 19
_ISSUED = re.compile(
    r"4\d{12}(?:\d{3}){0,2}"  # Visa
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-5]|[68]\d)\d{11}"  # Diners Club
    r"|(?:6011|65\d\d|64[4-9]\d)\d{12}"  # Discover
    r"|35(?:2[89]|[3-8]\d)\d{12}"  # JCB
    r"|62\d{14,17}",  # UnionPay
    re.ASCII,
)
_OF_STAND_IN = slice(2, 7)  # zeros there: one card in a hundred thousand


def _find(text: str, key: str) -> Iterator[Part]:
    for run in _RUN.finditer(text):
        end = 0
        groups = [group.span() for group in _GROUP.finditer(text, *run.span())]
        for number, (start, _) in enumerate(groups):
            if start >= end and (found := _end(text, start, groups[number : number + _LONGEST])):
                end = found
                yield start, end


def _end(text: str, start: int, groups: Sequence[Part]) -> int:
    """Where the card's number ends that begins with the first of `groups` of digits; 0 when none does."""
    digits, found = "", 0
    for group_start, end in groups:
        digits += text[group_start:end]
        if len(digits) > _LONGEST:
            break
        if len(digits) >= _SHORTEST and _is_card(digits) and digits[_OF_STAND_IN].strip("0"):
            found = end
    return found


def _is_card(digits: str) -> bool:
    return _ISSUED.fullmatch(digits) is not None and luhn_sum(digits) % 10 == 0


def _stand_in(value: str, number: int) -> str:
    """The issuer's first two digits, zeros, the number, and the check digit that is right for them."""
    digits = digits_of(value)
    body = digits[:2] + str(number).rjust(len(digits) - 3, "0")
    left = iter(body + str(-luhn_sum(body + "0") % 10))
    return "".join(next(left) if character.isdigit() else character for character in value)


def _may_be(text: str) -> bool:
    """Whether a card's number is anywhere in the digits that `text` begins with, whatever stands around it."""
    digits = digits_of(_AT_BEGIN.match(text)[0])  # type: ignore[index]  # it matches the empty text too
    return any(
        _is_card(digits[start : start + length])
        for start in range(len(digits) - _SHORTEST + 1)
        for length in range(_SHORTEST, min(_LONGEST, len(digits) - start) + 1)
    )


DETECTOR = Detector(
    "card",
    _find,
    _stand_in,
    identity=digits_of,
    in_numbers=True,
    signs=(r"\d(?:[ \-]?\d){12,}",),
    may_be=_may_be,
    first=(r"\d(?:[ \-]?\d){12}",),
    not_behind=NOT_BEHIND_NUMBERS,
)
