"""The values that keys of a span that no dialect knows say it has."""

import json
from typing import Any

from build import each
from tracegrade.extract.shape.values import values_of


@each(
    ("sent", "arguments"),
    [
        ([{"row": "5F"}, {"seats": 2}], {"row": "5F", "seats": 2}),
        ([{"row": "5F"}], {"row": "5F"}),
        # Given by position, with options after it; of one name; with more members; messages by role; no object.
        ([{"row": "5F"}, {"toolCallId": "c1"}], None),
        ([{"row": "5F"}, {"row": "6F"}], None),
        ([{"row": "5F", "seats": 2}], None),
        ([{"system": "Be kind."}, {"user": "Hello."}], None),
        (["5F", 2], None),
        ([], None),
    ],
)
def test_arguments_that_name_one_each_are_one_object(sent: list[Any], arguments: dict[str, Any] | None) -> None:
    text = json.dumps(sent)

    assert values_of({"arguments": text}).arguments == (text if arguments is None else arguments)


@each(
    ("value", "is_schema"),
    [
        ({"type": "object", "properties": {}}, True),
        ({"type": "object", "additionalProperties": False}, True),
        ({"type": "object", "$schema": "x", "required": []}, True),
        ({"type": "object", "title": "A lamp"}, False),
        ({"type": "object", "additionalProperties": False, "size": 3}, False),
        ({"type": "chair", "additionalProperties": False}, False),
    ],
)
def test_a_schema_is_no_arguments_though_it_has_no_properties(value: dict[str, Any], is_schema: bool) -> None:
    assert values_of({"parameters": value}).arguments == (None if is_schema else value)
