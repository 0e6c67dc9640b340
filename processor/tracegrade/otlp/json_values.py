"""Reads and writes the values of fields in OTLP/JSON: ids, enums, numbers, bytes and texts.

Source: opentelemetry-proto docs/specification.md, "JSON Protobuf Encoding"; for everything that it does not change, the
ProtoJSON page of protobuf.dev.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from binascii import unhexlify
from collections.abc import Callable
from contextlib import suppress
from math import isfinite
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from tracegrade.model.json_value import JsonValue


class BadValueError(Exception):
    """A value that its field cannot take; its path is collected on the way out, innermost part first."""

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        self.message = message
        self.fatal = fatal  # drops the request even inside a span
        self.path: list[str] = []

    def json_path(self) -> str:
        """Where the value is, such as ``$.attributes[0].value``."""
        return "$" + "".join(reversed(self.path))


_NAMES: dict[type, str] = {dict: "an object", list: "a list", type(None): "null"}


def shown(value: Any) -> str:
    """`value` for an error message: only its kind when it is large, at most a few characters of it."""
    if (name := _NAMES.get(type(value))) is not None:
        return name
    text = repr(value[:40]) if isinstance(value, str) else repr(value)
    return text if len(text) <= 48 else text[:45] + "..."


def unused(value: Any) -> Any:
    """The reader of a message's field, which has a table instead."""
    raise AssertionError("messages are read by their table")


def read_id(value: Any) -> bytes:
    """The bytes of an id in hexadecimal."""
    if type(value) is str:
        try:
            return unhexlify(value)
        except ValueError:  # binascii.Error, and texts that are not ASCII
            pass
    raise BadValueError(f"expected an id in hexadecimal, found {shown(value)}")


def id_reader(size: int) -> Callable[[Any], bytes]:
    """Reads ids in hexadecimal, and in base64 as protobuf's own JSON has them, where `size` bytes come of it."""

    def read(value: Any) -> bytes:
        try:
            return read_id(value)
        except BadValueError as error:
            with suppress(BadValueError):
                if len(found := _read_bytes(value)) == size:
                    return found
            raise error

    return read


def _read_text(value: Any) -> str:
    if type(value) is str:
        return value
    raise BadValueError(f"expected a string, found {shown(value)}")


def _read_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise BadValueError(f"expected true or false, found {shown(value)}")


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


def _read_bytes(value: Any) -> bytes:
    if type(value) is str and _BASE64.fullmatch(value):
        digits = value.rstrip("=")
        try:
            return b64decode(
                digits + "=" * (-len(digits) % 4), altchars=b"-_" if "-" in value or "_" in value else None
            )
        except BinasciiError:  # no base64 text has this length
            pass
    raise BadValueError(f"expected base64, found {shown(value)}")


_INTEGER = re.compile(r"-?[0-9]{1,20}")


def _integer_reader(low: int, high: int) -> Callable[[Any], int]:
    """Reads numbers and decimal texts; senders write 64-bit integers both ways."""

    def read(value: Any) -> int:
        if type(value) is not int and not _is_whole(value):
            raise BadValueError(f"expected an integer, found {shown(value)}")
        number = int(value)
        if low <= number <= high:
            return number
        raise BadValueError(f"expected an integer from {low} to {high}, found {shown(value)}")

    return read


def _is_whole(value: Any) -> bool:
    """Whether a text or float is an integer that can be read exactly."""
    if type(value) is str:
        return _INTEGER.fullmatch(value) is not None
    # orjson makes floats of integers beyond 64 bits, and -2**63 - 1 must not become its neighbour.
    return type(value) is float and abs(value) < 2**63 and value.is_integer()


def _read_enum(value: Any) -> int:
    if type(value) is int and -(2**31) <= value < 2**31:
        return value
    raise BadValueError(f"expected an enum's number, found {shown(value)}")


def enum_reader(enum: Any) -> Callable[[Any], int]:
    """Reads numbers, numbers as texts, and the names of an enum with or without its prefix, in any case of letters."""
    names: dict[str, int] = {value.name: value.number for value in enum.values}
    prefix = enum.values_by_number[0].name.rpartition("_")[0] + "_"  # of SPAN_KIND_UNSPECIFIED, STATUS_CODE_UNSET
    names |= {name.removeprefix(prefix): number for name, number in names.items()}

    def read(value: Any) -> int:
        if type(value) is str:
            if (number := names.get(value.strip().upper())) is not None:
                return number
            if _INTEGER.fullmatch(value):
                return _read_enum(int(value))
            raise BadValueError(f"expected an enum's number or name, found {shown(value)}")
        return _read_enum(value)

    return read


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})


def _read_double(value: Any) -> float:
    kind = type(value)
    if kind is float or kind is int:
        return float(value)
    if kind is str and (value in _NOT_FINITE or (len(value) < 400 and _NUMBER.fullmatch(value))):
        return float(value)
    raise BadValueError(f"expected a number, found {shown(value)}")


def _write_double(value: float) -> JsonValue:
    if isfinite(value):
        return value
    return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")


def _same(value: Any) -> Any:
    return value


def _write_bytes(value: bytes) -> str:
    return b64encode(value).decode()


_INT32 = (_integer_reader(-(2**31), 2**31 - 1), _same)
_UINT32 = (_integer_reader(0, 2**32 - 1), _same)
_INT64 = (_integer_reader(-(2**63), 2**63 - 1), str)
_UINT64 = (_integer_reader(0, 2**64 - 1), str)

SCALARS: dict[int, tuple[Callable[[Any], Any], Callable[[Any], JsonValue]]] = {
    FieldDescriptor.TYPE_STRING: (_read_text, _same),
    FieldDescriptor.TYPE_BYTES: (_read_bytes, _write_bytes),
    FieldDescriptor.TYPE_BOOL: (_read_bool, _same),
    FieldDescriptor.TYPE_ENUM: (_read_enum, _same),
    FieldDescriptor.TYPE_DOUBLE: (_read_double, _write_double),
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_SINT32: _INT32,
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_UINT32: _UINT32,
    FieldDescriptor.TYPE_FIXED32: _UINT32,
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT64: _UINT64,
    FieldDescriptor.TYPE_FIXED64: _UINT64,
}
