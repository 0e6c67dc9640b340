"""What finds one kind of personal data or secret in a text, and makes stand-ins for it."""

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
    """

    name: str
    find: Callable[[str, str], Iterable[Part]]
    stand_in: Callable[[str, int], str]
    identity: Callable[[str], str] = str
    in_numbers: bool = False
