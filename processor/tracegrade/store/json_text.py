"""JSON as it is stored: compact, quick, and exact where orjson is not."""

import json
from typing import Any

import orjson


def to_json(value: Any) -> bytes:
    """`value` as JSON; `from_json` gives an equal one back.

    Integers beyond 64 bits and lone surrogates are beyond orjson. Text with them is written by the standard library
    and led by a space, which JSON allows and orjson never writes, so that it is read by the standard library too.
    """
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return b" " + json.dumps(value, separators=(",", ":")).encode("ascii")


def from_json(data: bytes) -> Any:
    """What `to_json` was given."""
    return json.loads(data) if data.startswith(b" ") else orjson.loads(data)
