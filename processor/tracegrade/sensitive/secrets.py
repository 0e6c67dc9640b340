"""The secrets in a JSON value: keys, tokens and passwords, by their form or by the name that they stand under."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from tracegrade.model.json_value import JsonValue
from tracegrade.sensitive.json_inside import MAX_DEPTH, json_inside
from tracegrade.sensitive.registry import SECRETS
from tracegrade.sensitive.signs import expression

_NAMED = [detector.is_named for detector in SECRETS if detector.is_named is not None]


def named_texts(value: JsonValue, spend: Callable[[int], None]) -> Iterator[tuple[str, str]]:
    """Each text in `value` with the name that it stands under, "" where it has none; the names themselves among them.

    Items of a list stand under the name of the list. A text that is JSON is read as such. No recursion.

    Args:
        value: any.
        spend: called for each value and name before it is read, with its length in characters, 0 of what is no text.
    """
    left: list[tuple[str, JsonValue, int]] = [("", value, 0)]
    while left:
        name, item, depth = left.pop()
        spend(len(item) if isinstance(item, str) else 0)
        if isinstance(item, dict):
            for key, member in item.items():
                spend(len(key))
                yield "", key
                left.append((key, member, depth))
        elif isinstance(item, list):
            left += ((name, member, depth) for member in item)
        elif isinstance(item, str):
            inside = json_inside(item) if depth < MAX_DEPTH else None
            if inside is None:
                yield name, item
            else:
                left.append((name, inside, depth + 1))


def may_hold_secret(text: str, name: str) -> bool:
    """Whether `text`, which stands under `name`, has the sign of a secret: most have none, and need no closer look."""
    return any(is_named(name) for is_named in _NAMED) or bool(_signs().search(text.encode("utf-8", "replace")))


def secrets_in(text: str, name: str) -> Iterator[str]:
    """The secrets in a text that `may_hold_secret`. Stand-ins, and words in place of a secret, are none."""
    for detector in SECRETS:
        yield from (text[start:end] for start, end in detector.find(text, name))


@cache
def _signs() -> Any:
    signs = (sign for detector in SECRETS for sign in detector.first or detector.signs)
    return expression("|".join(map("(?:{})".format, signs)))
