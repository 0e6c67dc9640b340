"""The one type of every decoded value: JSON, with integers exact at any size."""

from typing import TypeAlias

# A float is always finite: decoding turns NaN and the infinities into the texts "NaN", "Infinity" and "-Infinity",
# as the protobuf JSON mapping does, because JSON has no such numbers.
JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
