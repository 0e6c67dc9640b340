"""The base class of the pydantic models of YAML files, and the type of durations."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema

from tracegrade.document.duration import DURATION, duration_s, duration_text


class FileModel(BaseModel):
    """Base of everything a YAML file may hold: frozen, unknown keys refused, no guessing between types."""

    # Deferred: of the many models there are, one process uses few.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True, defer_build=True)


_PATTERN = f"^{DURATION.pattern}$"

Duration = Annotated[
    float,
    BeforeValidator(duration_s),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _PATTERN, "examples": ["30s", "500ms", "1h30m"]}),
]


def write_durations(part: Any) -> None:
    """Write the defaults in a JSON Schema as one would write them in a file."""
    if isinstance(part, list):
        for item in part:
            write_durations(item)
    elif isinstance(part, dict):
        is_duration = any(option.get("pattern") == _PATTERN for option in (part, *part.get("anyOf", ())))
        if is_duration and isinstance(default := part.get("default"), float):
            part["default"] = duration_text(default)
        for item in part.values():
            write_durations(item)
