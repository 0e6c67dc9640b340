"""JSON and text as they are stored: compact, fast, exact where orjson is not, and accepted by every database."""

import json
from collections.abc import Sequence
from typing import Any

import orjson


def to_json(value: Any) -> bytes:
    """`value` as JSON; `from_json` gives an equal value back.

    orjson cannot write integers beyond 64 bits and lone surrogates. Values with them are written by the standard
    library, after a space, which JSON allows and orjson never writes: so they are also read by the standard library.
    """
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return b" " + json.dumps(value, separators=(",", ":")).encode("ascii")


def from_json(data: bytes) -> Any:
    """The value that was given to `to_json`."""
    return json.loads(data) if data.startswith(b" ") else orjson.loads(data)


def storable(text: str) -> str:
    """`text` as every database takes it: without NUL, which PostgreSQL refuses, and lone surrogates, which no UTF-8 is.

    Only for columns used in searches; ``judged`` keeps the text unchanged.
    """
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def rows_to_json(rows: Sequence[Sequence[Any]]) -> str:
    """`rows` of plain values as JSON text, every text in them `storable`.

    Raises:
        TypeError: a value is not a JSON value, or is an integer beyond 64 bits.
    """
    try:
        data = orjson.dumps(rows)
    except TypeError:
        data = b""
    if not data or b"\\u0000" in data:
        data = orjson.dumps([[storable(item) if isinstance(item, str) else item for item in row] for row in rows])
    return data.decode()
