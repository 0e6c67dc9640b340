"""JSON that is the whole of a text, as of arguments that a sender wrote so."""

import json

from tracegrade.model.json_value import JsonValue

BEGINS = ("{", "[", '"')
MAX_DEPTH = 8  # JSON in JSON in JSON ...


def json_inside(text: str) -> JsonValue:
    """The object, list or text that `text` is the JSON of; None where it is none."""
    if not text.lstrip().startswith(BEGINS):
        return None
    try:
        found: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found
