"""A detector finds one kind of personal data or secret in a text, and makes stand-ins for it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

Part: TypeAlias = tuple[int, int]
"""Where in a text something stands: from, and up to but without."""


@dataclass(frozen=True, slots=True)
class Detector:
    """One kind of value.

    ``find`` is called with a text and the name under which the text stands ("" where it has none), and gives where in
    the text such values are, in order, none within another. ``stand_in`` is called with a value that was found and a
    number from 1, and gives a text of the same form, another for each number; ``find`` must not find it again, so that
    redacting twice changes nothing more. ``identity`` gives what two spellings of one value have in common: they get
    the same number. ``in_numbers`` says whether integers are looked at as well; a stand-in then has as many digits as
    the value, the first of them the same.

    ``signs`` are regular expressions (RE2, over bytes, that know nothing of the edges of words), so that many texts are
    searched for all detectors at once: whatever ``find`` gives holds one of them; () when that is not known. What
    ``may_be`` gives False for, of what a sign found, is nothing. ``is_named`` says whether a name makes ``find`` look
    at values of any form; ``key_signs`` are the signs of such names in a request, and ``joins`` whether the value is
    also looked for split over several texts; ``begins`` says how it begins, where that is known, and ``cuts`` are what
    is left of it where a text ends within it, with ``>`` for the end of a text and ``<`` for the begin of one; an end
    between two digits, and one within or behind what it ``begins`` with, are known.

    ``first`` are signs that are cheaper to look for, in place of ``signs`` and ``key_signs`` (empty: these serve): one
    of them begins in each sign of the value, or less than 64 bytes behind its begin. ``not_behind`` are characters
    behind which no value begins. ``ends_by_itself``: what follows a value that is whole, in the next text, says little.
    """

    name: str
    find: Callable[[str, str], Iterable[Part]]
    stand_in: Callable[[str, int], str]
    identity: Callable[[str], str] = str
    in_numbers: bool = False
    signs: tuple[str, ...] = ()
    key_signs: tuple[str, ...] = ()
    may_be: Callable[[str], bool] | None = None
    is_named: Callable[[str], bool] | None = None
    joins: bool = True
    begins: tuple[str, ...] = ()
    cuts: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    not_behind: str = ""
    ends_by_itself: bool = False
