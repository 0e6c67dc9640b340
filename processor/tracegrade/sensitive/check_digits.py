"""Check digits that several kinds of numbers share."""

from collections.abc import Sequence
from string import ascii_letters, digits

NOT_BEHIND_NUMBERS = ascii_letters + digits + "_.+-"
"""Characters behind which no number begins: it would go on before them."""


def digits_of(text: str) -> str:
    """The digits in `text`."""
    return "".join(filter(str.isdigit, text))


def luhn_sum(digits: str) -> int:
    """The sum of Luhn (ISO/IEC 7812-1): its last digit is 0 where the number is right."""
    doubled = (int(digit) * 2 for digit in digits[-2::-2])
    return sum(map(int, digits[-1::-2])) + sum(twice - 9 if twice > 9 else twice for twice in doubled)


def weighted(digits: str, weights: Sequence[int]) -> int:
    """The sum of digits, each times its weight."""
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def mod_11_10(digits: str) -> bool:
    """Whether the last digit is right by ISO 7064, mod 11, 10."""
    product = 10
    for digit in digits[:-1]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(digits[-1])


_TURNED = "1576283094"  # the permutation of Verhoeff; the others are it, done again and again


def verhoeff(digits: str) -> bool:
    """Whether the last digit is right by Verhoeff: the group of turns and flips of a pentagon."""
    check = 0
    for place, digit in enumerate(reversed(digits)):
        for _ in range(place % 8):
            digit = _TURNED[int(digit)]
        check = _of_pentagon(check, int(digit))
    return check == 0


def _of_pentagon(one: int, other: int) -> int:
    if one < 5:
        return (one + other) % 5 if other < 5 else 5 + (one + other - 5) % 5
    return 5 + (one - 5 - other) % 5 if other < 5 else (one - other) % 5


def is_date(day: int, month: int) -> bool:
    """Whether there is such a day in some year."""
    return 1 <= month <= 12 and 1 <= day <= 31
