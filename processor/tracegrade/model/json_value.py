"""The one type of every decoded value: JSON, with integers exact at any size."""

from typing import TypeAlias

# A float is always finite: decoding turns NaN and the infinities into the texts "NaN", "Infinity" and "-Infinity",
# as the protobuf JSON mapping does, because JSON has no such numbers.
JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


def encodable(value: JsonValue) -> JsonValue:
    """`value` with question marks for lone surrogates, which neither a file nor a span can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [encodable(item) for item in value]
    if isinstance(value, dict):
        return {key.encode("utf-8", "replace").decode(): encodable(member) for key, member in value.items()}
    return value
