"""The secrets in a JSON value: keys, tokens and passwords, by their form or by the name that they stand under."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import orjson

from tracegrade.model.json_value import JsonValue
from tracegrade.sensitive.json_inside import MAX_DEPTH, json_inside
from tracegrade.sensitive.registry import SECRETS
from tracegrade.sensitive.signs import expression

_NAMED_BY = [detector.is_named for detector in SECRETS if detector.is_named is not None]
# Arguments of a tool have the same names in every call.
_NAMES = 4096
_LONGEST_NAME = 128
_NO_TEXT = ("", "")


def named_texts(value: JsonValue, opened: Callable[[str], None]) -> Iterator[tuple[str, str]]:
    """Each text in `value`, behind the name that it stands under, "" where it has none; names are texts themselves.

    Items of a list stand under the name of the list. A text that is JSON is read as such. Each value that is no text
    gives an empty one without a name, so that what is taken is as much as what was walked. No recursion.

    Args:
        value: any.
        opened: called with each text that is read as JSON, before what is in it.
    """
    left: list[tuple[str, JsonValue, int]] = [("", value, 0)]
    while left:
        name, item, depth = left.pop()
        if isinstance(item, str):
            inside = json_inside(item) if depth < MAX_DEPTH else None
            if inside is None:
                yield name, item
            else:
                opened(item)
                left.append((name, inside, depth + 1))
            continue
        yield _NO_TEXT
        if isinstance(item, dict):
            for key, member in item.items():
                yield "", key
                left.append((key, member, depth))
        elif isinstance(item, list):
            left += [(name, member, depth) for member in item]


def length_without_signs(value: JsonValue) -> int | None:
    """The length of the JSON of an object of plain members that has no sign of a secret; None of any other value.

    Most arguments are such, and one search tells so, where `named_texts` goes from member to member.
    """
    if not isinstance(value, dict):
        return None
    try:
        data = orjson.dumps(value)
    except TypeError:
        return None
    # Without a backslash, every text stands there as it is.
    if b"\\" in data or b"[" in data or data.count(b"{") > 1 or any(map(_is_named, value)) or _signs().search(data):
        return None
    return len(data)


def may_hold_secret(texts: Sequence[tuple[str, str]]) -> bool:
    """Whether one of `texts`, each behind its name, has the sign of a secret: most have none, and need no closer look.

    They are searched as one text, so of several it may also say so where a sign begins in one and ends in the next.
    """
    return any(_is_named(name) for name, _ in texts if name) or bool(
        _signs().search("\n".join([text for _, text in texts]).encode("utf-8", "replace"))
    )


def _is_named(name: str) -> bool:
    return _learnt_name(name) if len(name) <= _LONGEST_NAME else _learnt_name.__wrapped__(name)


@lru_cache(maxsize=_NAMES)
def _learnt_name(name: str) -> bool:
    return any(is_named(name) for is_named in _NAMED_BY)


def secrets_in(text: str, name: str) -> Iterator[str]:
    """The secrets in a text that `may_hold_secret`. Stand-ins, and words in place of a secret, are none."""
    for detector in SECRETS:
        yield from (text[start:end] for start, end in detector.find(text, name))


@cache
def _signs() -> Any:
    signs = (sign for detector in SECRETS for sign in detector.first or detector.signs)
    return expression("|".join(map("(?:{})".format, signs)))
