"""Detectors of what a user looks for: words of a dictionary, and own patterns."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tracegrade.evaluate.criteria.regular_expressions import regex_expression
from tracegrade.sensitive.detector import Detector, Part

NAME = "name"
"""The detector of words of a dictionary."""

_SHORTEST_NAME = 2
_MAX_DICTIONARY_BYTES = 1 << 28
_OF_PATTERN = re.compile(r"\\Q.*?(?:\\E|$)|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\\.|\^|\$", re.DOTALL)
_EDGES = frozenset({"^", "$", r"\b", r"\B", r"\A", r"\z"})
# What finds something in all of one of these finds it in everything.
_ORDINARY = (
    ("user", "the order", "OK", "status: done", "x-y"),
    ("please check the weather", "the order was sent", "no results for this query", "it ended without errors"),
)


def pattern_detector(name: str, pattern: str) -> Detector:
    """A detector of what `pattern`, as RE2, finds.

    Raises:
        ValueError: RE2 refuses it, or it finds the empty text or everything.
    """
    expression = regex_expression(pattern)
    if expression.search(b""):
        raise ValueError(f"pattern {name!r}: {pattern!r} finds the empty text; write one that needs a character")
    if any(all(expression.search(text.encode()) for text in texts) for texts in _ORDINARY):
        raise ValueError(f"pattern {name!r}: {pattern!r} finds something in every text; write a narrower one")
    return Detector(name, lambda text, key: _found(expression, text, 0), _stand_in, joins=False)


def own_signs(names: Collection[str], patterns: Mapping[str, str]) -> str:
    """One expression of which something is in all bytes that hold a name, or what a pattern finds; "" for none.

    On the wire, the length of a text stands before it and may look like a letter: so it asks for no edges.
    """
    signs = [f"(?:{_without_edges(pattern)})" for pattern in patterns.values()]
    if names:
        signs.append(f"(?i:{'|'.join(re.escape(name.strip()) for name in sorted(names))})")
    return "|".join(signs)


def _without_edges(pattern: str) -> str:
    """`pattern` without its assertions, so that it finds all that it found, and more."""
    return _OF_PATTERN.sub(lambda match: "" if match.group() in _EDGES else match.group(), pattern)


def names_detector(names: Collection[str]) -> Detector:
    """A detector of `names` as whole words, in upper and lower case.

    Raises:
        ValueError: a name of less than two characters, or too many names.
    """
    if short := sorted(name for name in names if len(name.strip()) < _SHORTEST_NAME):
        raise ValueError(f"name {short[0]!r} would be found everywhere; expected {_SHORTEST_NAME} characters or more")
    expression = _of_words(names)

    def find(text: str, key: str) -> Iterator[Part]:
        for start, end in _found(expression, text, 1):
            if not text[start - 1 : start].isalnum():
                yield start, end

    return Detector(NAME, find, _stand_in, joins=False)


def _of_words(names: Collection[str]) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = False
    options.longest_match = True
    options.max_mem = _MAX_DICTIONARY_BYTES
    written = "|".join(re2.escape(name.strip()) for name in sorted(names))
    try:
        return re2.compile(rf"({written})(?:[^\pL\pN]|\z)".encode(), options)
    except re2.error:
        raise ValueError(f"{len(names)} names are too many to be looked for; give fewer") from None


def _found(expression: Any, text: str, group: int) -> Iterator[Part]:
    data = text.encode("utf-8", "replace")
    is_ascii = len(data) == len(text)
    for match in expression.finditer(data):
        start, end = match.span(group)
        if not is_ascii:
            start, end = len(data[:start].decode()), len(data[:end].decode())
        if start < end:
            yield start, end


def _stand_in(value: str, number: int) -> str:
    return f"redacted-{number}"
