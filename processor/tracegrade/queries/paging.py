"""Pages of lists: where one ends, and the cursor with which the next begins."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Generic, TypeVar

HIGHEST = 2**63 - 1  # of numbers in the store

_CURSOR = Struct(">QQ")

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A part of a list; ``next`` is the cursor of the part after it, None at the end."""

    items: Sequence[Item]
    next: str | None


def page_of(found: Sequence[Item], limit: int, place: Callable[[Item], tuple[int, int]]) -> Page[Item]:
    """The first `limit` of `found`, of which there is one more if there is a next page, which begins after a place."""
    shown = found[:limit]
    return Page(shown, cursor_of(*place(shown[-1])) if len(found) > limit else None)


def cursor_of(number: int, place: int = 0) -> str:
    """The cursor that goes on after (`number`, `place`): 22 letters, digits, ``-`` and ``_``."""
    return base64.urlsafe_b64encode(_CURSOR.pack(number, place)).rstrip(b"=").decode()


def read_cursor(cursor: str | None) -> tuple[int, int] | None:
    """The number and place of a cursor of this form; None without a cursor."""
    if cursor is None:
        return None
    number, place = _CURSOR.unpack(base64.urlsafe_b64decode(cursor + "=="))
    return min(number, HIGHEST), min(place, HIGHEST)
