"""Values of attributes to JSON and back."""

from typing import Any

from tracegrade.model.json_value import JsonValue
from tracegrade.redact.requests.walk import text_of


def json_of(value: Any) -> JsonValue:
    """An AnyValue as JSON; bytes as text."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "kvlist_value":
        return {member.key: json_of(member.value) for member in value.kvlist_value.values}
    if kind == "array_value":
        return [json_of(item) for item in value.array_value.values]
    found = getattr(value, kind)
    if isinstance(found, bytes):
        return text_of(found)
    return found  # type: ignore[no-any-return]  # a scalar


def set_json(value: Any, found: JsonValue) -> None:
    """Make `value`, an AnyValue, what `json_of` would read as `found`."""
    value.Clear()
    if isinstance(found, dict):
        value.kvlist_value.SetInParent()
        for key, member in found.items():
            inner = value.kvlist_value.values.add()
            inner.key = key
            set_json(inner.value, member)
    elif isinstance(found, list):
        value.array_value.SetInParent()
        for item in found:
            set_json(value.array_value.values.add(), item)
    elif isinstance(found, bool):
        value.bool_value = found
    elif isinstance(found, int):
        value.int_value = found
    elif isinstance(found, float):
        value.double_value = found
    elif isinstance(found, str):
        value.string_value = found
