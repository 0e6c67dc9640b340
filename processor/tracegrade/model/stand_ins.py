"""Stand-ins for redacted values, as ``redact`` writes them: masks, hashes, and keys that mark them.

A mask says only that something was there, of whatever type. Of a hash it is known besides what is equal to it: what was
hashed alike. An object is open where members of it were dropped, or one of its keys was redacted: whatever is not there
may have been.
"""

import re
from collections.abc import Iterator, Sequence

from tracegrade.model.json_value import JsonValue

MASK = "[redacted]"
UNKNOWN = "\0"  # a character that nobody writes
_MASK = "[redacted"
_HASHED = "[hash:"
_MASKS = re.compile(r"\[redacted[^\]\s]*\]?")
_STAND_INS = re.compile(r"\[(?:redacted|hash:)[^\]\s]*\]?")


def is_masked(value: object) -> bool:
    """Whether a text was masked, or a part of it."""
    return isinstance(value, str) and _MASK in value


def holds_mask(value: JsonValue) -> bool:
    """Whether a value or something in it was masked, or a member of it says how many are gone."""
    if isinstance(value, dict):
        return any(is_masked(key) or holds_mask(member) for key, member in value.items())
    return any(map(holds_mask, value)) if isinstance(value, list) else is_masked(value)


def is_hashed(value: object) -> bool:
    """Whether a text was hashed, or a word in it: it can be compared with what was hashed alike, and nothing else."""
    return isinstance(value, str) and _HASHED in value


def holds_hash(value: JsonValue) -> bool:
    """Whether a value or something in it was hashed."""
    left = [value]
    for item in left:  # grows on the way
        if isinstance(item, dict):
            left += item.values()
            left += item
        elif isinstance(item, list):
            left += item
        elif is_hashed(item):
            return True
    return False


def is_unknown(value: object) -> bool:
    """Whether a text was masked or hashed, or a part of it: it may be any."""
    return isinstance(value, str) and (_MASK in value or _HASHED in value)


def is_open(value: JsonValue) -> bool:
    """Whether members may have been in an object that are not there: it lost some, or a key of it was redacted."""
    return isinstance(value, dict) and any(map(is_unknown, value))


def holds_open(value: JsonValue) -> bool:
    """Whether a value or something in it is open."""
    if isinstance(value, dict):
        return is_open(value) or any(map(holds_open, value.values()))
    return isinstance(value, list) and any(map(holds_open, value))


def holds_unknown(value: JsonValue) -> bool:
    """Whether a value or something in it was redacted, keys and lost members among it."""
    return holds_mask(value) or holds_hash(value)


def may_hide(value: JsonValue, step: str | int) -> bool:
    """Whether something may have stood at a step into `value` that leads nowhere now."""
    return is_unknown(value) or (isinstance(step, str) and is_open(value))


def without_masks(value: JsonValue) -> JsonValue:
    """`value` with `UNKNOWN` in place of each mask, and without the members whose keys were masked or say what went."""
    if isinstance(value, dict):
        return {key: without_masks(member) for key, member in value.items() if not is_masked(key)}
    if isinstance(value, list):
        return [without_masks(item) for item in value]
    return _MASKS.sub(UNKNOWN, value) if isinstance(value, str) and _MASK in value else value


def holds_plain(value: JsonValue) -> bool:
    """Whether something in a value was not hashed, so that it may be equal to what is behind a hash elsewhere."""
    if isinstance(value, dict):
        return any(map(holds_plain, value.values()))
    if isinstance(value, list):
        return any(map(holds_plain, value))
    if isinstance(value, str):
        return any(map(str.isalnum, known_text(value)))
    return value is not None


def known_text(text: str) -> str:
    """`text` with `UNKNOWN` in place of what was redacted: what is found beside it is there for sure."""
    return _STAND_INS.sub(UNKNOWN, text) if is_unknown(text) else text


def hashed_apart(values: Sequence[JsonValue]) -> set[int]:
    """The places of the values that may be equal to another one though they differ: only one of the two was hashed."""
    if not any(map(holds_hash, values)):
        return set()
    alike: dict[tuple[str, ...], list[int]] = {}  # values of one form
    leaves = [dict(_leaves(value, "")) for value in values]
    for place, each in enumerate(leaves):
        alike.setdefault(tuple(sorted(each)), []).append(place)
    found: set[int] = set()
    for form, places in alike.items():
        hashed = [frozenset(path for path in form if is_hashed(leaves[place][path])) for place in places]
        never = [path for path in form if not any(path in paths for paths in set(hashed))]
        same: dict[tuple[str, ...], list[int]] = {}  # and equal where nothing was hashed
        for number, place in enumerate(places):
            same.setdefault(tuple(repr(leaves[place][path]) for path in never), []).append(number)
        for numbers in same.values():
            if len({hashed[number] for number in numbers}) > 1:
                found.update(places[number] for number in numbers)
    return found


def _leaves(value: JsonValue, path: str) -> Iterator[tuple[str, JsonValue]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not members:
        yield path, value
    for key, member in members:
        yield from _leaves(member, f"{path}\0{key}")
