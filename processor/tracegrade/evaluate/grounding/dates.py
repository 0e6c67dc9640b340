"""Dates as people write them: ``2026-03-12``, ``12.03.2026``, ``3/12/26``, ``12 March 2026``, ``12. März``."""

import re
from typing import NamedTuple, TypeAlias

_MONTHS = (
    "january jan januar janvier enero gennaio januari janeiro",
    "february feb februar février febrero febbraio februari fevereiro",
    "march mar märz mrz mars marzo maart março",
    "april apr avril abril aprile",
    "may mai mayo maggio mei maio",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août agosto augustus",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre diciembre dicembre dezembro",
)
_MONTH_OF = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_MONTH = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
DATE = (
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|\d{4}/\d{1,2}/\d{1,2}"
    r"|\d{1,2}\.\s?\d{1,2}\.\s?\d{4}|\d{1,2}\.\d{1,2}\.\d{2}"
    r"|\d{1,2}[/-]\d{1,2}[/-](?:\d{4}|\d{2})"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s|de\s)?(?:{_MONTH})\b\.?(?:,?\s(?:de\s)?\d{{4}}\b)?"
    rf"|(?:{_MONTH})\b\.?\s\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s\d{{4}}\b)?"
)
"""The pattern of one; letter case does not matter."""
_WORD = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")


class Day(NamedTuple):
    """A day; ``year`` is None where none is written."""

    year: int | None
    month: int
    day: int


Days: TypeAlias = frozenset[Day]


def days(text: str) -> Days:
    """The days that a date may mean: 3/4/2026 is in March and in April; empty for what is none."""
    numbers = [int(digits) for digits in _DIGITS.findall(text)]
    month = next((_MONTH_OF[word] for word in _WORD.findall(text.lower()) if word in _MONTH_OF), None)
    if month is not None and 1 <= len(numbers) <= 2:
        return _valid([Day(numbers[1] if len(numbers) == 2 else None, month, numbers[0])])
    if month is not None or len(numbers) < 3:
        return frozenset()
    first, second, third = numbers[:3]
    if len(_DIGITS.findall(text)[0]) == 4:
        return _valid([Day(first, second, third)])
    year = third if third > 99 else 2000 + third
    either_way = [Day(year, second, first)] + ([Day(year, first, second)] if "." not in text else [])
    return _valid(either_way)


def _valid(found: list[Day]) -> Days:
    return frozenset(day for day in found if 1 <= day.month <= 12 and 1 <= day.day <= 31)
