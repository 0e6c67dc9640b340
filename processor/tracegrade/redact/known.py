"""Values that are known beforehand, such as the ids of a trace's calls."""

import re
from collections.abc import Collection, Iterator

from tracegrade.sensitive.detector import Detector, Part
from tracegrade.sensitive.likeness import is_likeness, likeness

# What says of which kind an id is: toolu_, call_, chatcmpl-tool-.
_KIND = re.compile(r"(?:[A-Za-z]+[_\-])+(?=[A-Za-z0-9])")
_SHORTEST = 8
_FEWEST = 6  # different characters: fewer are a number, or a name


def known_ids(name: str, ids: Collection[str]) -> Detector:
    """A detector of `ids` wherever they stand as words; those too short or plain to be of one call alone are left."""
    chosen = {value for value in ids if len(value) >= _SHORTEST and len(set(_body(value))) >= _FEWEST}
    chosen = {value for value in chosen if any(map(str.isdigit, value)) and not is_likeness(_body(value))}
    written = "|".join(map(re.escape, sorted(chosen, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{written})(?![A-Za-z0-9])") if chosen else None

    def find(text: str, key: str) -> Iterator[Part]:
        return (match.span() for match in pattern.finditer(text)) if pattern is not None else iter(())

    return Detector(name, find, _stand_in)


def _body(value: str) -> str:
    kind = _KIND.match(value)
    return value[kind.end() :] if kind else value


def _stand_in(value: str, number: int) -> str:
    body = _body(value)
    return value[: len(value) - len(body)] + likeness(body, number)
