"""Numbers as people write them: ``1,200.50``, ``1.200,50``, ``1 200,50``, ``12,00,000``, ``1.2 million``."""

import re
from decimal import Decimal

_SPACES = "\u0020\u00a0\u202f\u2009"
_QUOTES = "'\u2019"
NUMBER = (
    r"[-+\u2212]?(?:"
    rf"\d{{1,3}}(?:[{_SPACES}{_QUOTES}]\d{{3}})+(?:[.,]\d+)?"  # 1 200,50 and 1'200.50
    r"|\d+(?:[.,]\d+)*"
    r")"
)
"""The pattern of one, without what it is of."""
_SCALES = {
    "k": 1_000,
    "thousand": 1_000,
    "tsd": 1_000,
    "million": 1_000_000,
    "millions": 1_000_000,
    "mio": 1_000_000,
    "billion": 1_000_000_000,
    "bn": 1_000_000_000,
    "mrd": 1_000_000_000,
}
SCALE = rf"(?:{_SPACES[0]}?(?:{'|'.join(sorted(_SCALES, key=len, reverse=True))})\b\.?)"
"""The pattern of a word that multiplies the number before it."""
_SCALED = re.compile(rf"(?P<number>{NUMBER})(?P<scale>{SCALE})?", re.IGNORECASE)
_LONGEST = 40  # digits, signs and separators


def readings(text: str) -> frozenset[Decimal]:
    """What a number may say, without its sign: ``1.200`` is 1.2 and 1200; empty for what is none, such as ``1.2.3``."""
    found = _SCALED.fullmatch(text)
    if found is None or len(text) > _LONGEST:
        return frozenset()
    written = found["number"].lstrip("+-\u2212").translate(dict.fromkeys(map(ord, _SPACES + _QUOTES)))
    scale = _SCALES[found["scale"].strip(" .").lower()] if found["scale"] else 1
    return frozenset(Decimal(plain) * scale for plain in _plain(written))


def _plain(written: str) -> list[str]:
    """The digits with a point before the decimals, in each way in which commas and points may be meant."""
    marks = [mark for mark in written if mark in ".,"]
    if not marks:
        return [written]
    whole, _, rest = written.rpartition(marks[-1])
    if len(set(marks)) == 2:
        groups, other = whole, "," if marks[-1] == "." else "."
        is_number = marks.count(marks[-1]) == 1 and _are_groups(groups.split(other))
        return [f"{groups.replace(other, '')}.{rest}"] if is_number else []
    groups_of_all = written.split(marks[0])
    grouped = ["".join(groups_of_all)] if _are_groups(groups_of_all) and groups_of_all[0] != "0" else []
    return [*grouped, f"{whole}.{rest}"] if len(marks) == 1 else grouped


def _are_groups(groups: list[str]) -> bool:
    """Whether digits are grouped by thousands, or as in India; the last group always has three."""
    first, *rest = groups
    return bool(rest) and 1 <= len(first) <= 3 and len(rest[-1]) == 3 and all(len(group) in (2, 3) for group in rest)


def decimals(text: str) -> int:
    """How many digits stand behind the last point or comma."""
    last = max(text.rfind("."), text.rfind(","))
    return len(re.sub(r"\D.*", "", text[last + 1 :])) if last >= 0 else 0
