"""What stands in values in place of what was redacted, as ``redact`` writes it: masks and hashes.

A mask says only that something was there. Of a hash it is known besides what is equal to it: what was hashed alike.
"""

import re

from tracegrade.model.json_value import JsonValue

UNKNOWN = "\0"  # a character that nobody writes
_MASK = "[redacted"
_HASHED = "[hash:"
_HASH = re.compile(r"\[hash:[^\]\s]*\]")


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
        elif isinstance(item, list):
            left += item
        elif is_hashed(item):
            return True
    return False


def is_stand_in(text: str) -> bool:
    """Whether a name was redacted: it may be any."""
    return is_masked(text) or is_hashed(text)


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
    """`text` with `UNKNOWN` in place of each hash: what is found beside it is there for sure."""
    return _HASH.sub(UNKNOWN, text) if _HASHED in text else text
