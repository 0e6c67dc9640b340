"""JSON and text as they are stored: compact, quick, exact where orjson is not, and what every database takes."""

import json
from collections.abc import Sequence
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


def storable(text: str) -> str:
    """`text` as every database takes it: without NUL, which PostgreSQL refuses, and lone surrogates, which no UTF-8 is.

    Only for what is searched by; ``judged`` keeps the text as it is.
    """
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def rows_to_json(rows: Sequence[Sequence[Any]]) -> str:
    """`rows` of plain values as JSON text, every text in them `storable`.

    Raises:
        TypeError: a value is none that JSON has, or an integer beyond 64 bits.
    """
    try:
        data = orjson.dumps(rows)
    except TypeError:
        data = b""
    if not data or b"\\u0000" in data:
        data = orjson.dumps([[storable(item) if isinstance(item, str) else item for item in row] for row in rows])
    return data.decode()
