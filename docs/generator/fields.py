"""The fields of a pydantic model in words, from its JSON Schema: path, kind of value, default, meaning."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

Row = tuple[str, str, str, str]
_KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "array": "list",
    "null": "null",
}
_DURATION = "1h30m"  # what schemas of durations give as an example
_CHOICES = ("anyOf", "allOf", "oneOf")
# The first has the fields of the criteria once more, described there; the others many shapes, in a table of their own.
_NOT_UNFOLDED = {"default_evaluation_criteria", "constraints", "steps"}


def field_rows(model: type[BaseModel]) -> list[Row]:
    """A row for each field, nested ones by their path: ``a.b``, ``list[].c``, ``object.NAME.d``.

    Raises:
        LookupError: a field has no description.
    """
    schema = model.model_json_schema(by_alias=False)
    return list(_rows(schema, "", schema.get("$defs", {})))


def _rows(schema: dict[str, Any], path: str, definitions: dict[str, Any]) -> Iterator[Row]:
    for name, part in schema["properties"].items():
        if not part.get("description"):
            raise LookupError(f"{schema['title']}.{name}: give the field a description; the reference shows it")
        default = "needed" if name in schema.get("required", ()) else _default(part)
        yield f"{path}{name}", kind(part, definitions), default, part["description"].rstrip(".")
        nested = None if name in _NOT_UNFOLDED else _object_in(part, definitions)
        if nested is not None:
            suffix, inner = nested
            yield from _rows(inner, f"{path}{name}{suffix}.", definitions)


def _default(part: dict[str, Any]) -> str:
    default = part.get("default", {"object": {}, "array": []}.get(str(part.get("type"))))
    if default is None or default == "":
        return "none"
    return f"`{default if isinstance(default, str) and default.isprintable() else json.dumps(default)}`"


def _object_in(part: dict[str, Any], definitions: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The object with fixed fields that a value is or holds, and how its path goes on."""
    if "$ref" in part:
        return _object_in(definitions[part["$ref"].rpartition("/")[2]], definitions)
    if "properties" in part:
        return "", part
    inside: list[tuple[str, Any]] = [
        ("", option) for key in ("anyOf", "allOf", "oneOf") for option in part.get(key, ())
    ]
    inside += [("[]", part["items"])] if isinstance(part.get("items"), dict) else []
    inside += [(".NAME", part["additionalProperties"])] if isinstance(part.get("additionalProperties"), dict) else []
    for suffix, option in inside:
        found = _object_in(option, definitions)
        if found is not None:
            return suffix + found[0], found[1]
    return None


def kind(part: dict[str, Any], definitions: dict[str, Any]) -> str:
    """What values a field takes, in words."""
    if "$ref" in part:
        return kind(definitions[part["$ref"].rpartition("/")[2]], definitions)
    for key in _CHOICES if part.get("type") != "object" else ():  # there they are ways to write it
        if key in part:
            kinds = [kind(option, definitions) for option in part[key] if option.get("type") != "null"]
            others = " or ".join(dict.fromkeys(kinds[:-1]))
            # What a single value may be is often what each member of an object may be.
            if kinds[-1] == f"object of {others}":
                return f"{others}, or an object of these"
            return " or ".join(dict.fromkeys(kinds))
    if _DURATION in part.get("examples", ()):
        return "duration"
    if "enum" in part:
        return ", ".join(f"`{word}`" for word in part["enum"])
    if "const" in part:
        return f"`{json.dumps(part['const'])}`"
    if "patternProperties" in part:
        return "matcher"
    if "prefixItems" in part:
        return "list of " + " and ".join(kind(item, definitions) for item in part["prefixItems"])
    types = part.get("type", [])
    name = " or ".join(_KINDS[type] for type in ([types] if isinstance(types, str) else types)) or "any value"
    if part.get("items"):
        return f"list of {kind(part['items'], definitions)}"
    if isinstance(part.get("additionalProperties"), dict) and "properties" not in part:
        return f"object of {kind(part['additionalProperties'], definitions)}"
    low, high = part.get("minimum"), part.get("maximum")
    if low is not None:
        name += f" from {low}" + (f" to {high}" if high is not None else "")
    return name
