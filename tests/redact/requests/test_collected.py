"""What is collected in the first walk is what the second one meets."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from build import each
from build.redaction import MAIL, attributes_of, one_span, redacted, set_attributes
from tracegrade.redact.requests.collected import Collected
from tracegrade.redact.requests.walk import Walk

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text()
VALUES = st.recursive(
    SCALARS | st.sampled_from(['{"a": 1, "a": "b"}', "[1, -Infinity]", '"x"', "[", '{"a": "[2]"}', " [] "]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | inner.map(json.dumps),
    max_leaves=12,
)


@given(VALUES)
def test_both_walks_meet_the_same_texts_in_the_same_order(value: Any) -> None:
    request = one_span(json=json.dumps(value), text=str(value))
    (span,) = request.resource_spans[0].scope_spans[0].spans
    collected = Collected(None)
    collected.span(span)
    numbers = {"text": 0, "key": 0, "number": 0}

    def visit(text: str, name: str, leaf: Any, place: Any) -> str:
        expected = collected.expects(leaf, numbers[leaf])
        assert expected == text or (leaf == "number" and expected == "")
        assert collected.names(leaf)[numbers[leaf]] == name
        numbers[leaf] += 1
        return text

    Walk(visit).span(span)
    assert numbers == {leaf: len(collected.names(leaf)) for leaf in numbers}


@each("depth", [100, 400, 900, 5000])
def test_json_of_any_depth_is_looked_at(depth: int) -> None:
    found = attributes_of(redacted(one_span(json="[" * depth + f'"{MAIL}"' + "]" * depth)))
    assert found["json"] == "[" * depth + '"[redacted:email]"' + "]" * depth


def test_deep_lists_of_attributes_are_looked_at() -> None:
    value: Any = MAIL
    for _ in range(12):  # protobuf takes no more
        value = [{"a": value}]
    request = one_span()
    set_attributes(request.resource_spans[0].scope_spans[0].spans[0].attributes, deep=value)
    assert MAIL.encode() not in redacted(request).SerializeToString()
