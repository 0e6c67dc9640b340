"""What traces are put together to conversations by stays different where it was different."""

import json
from typing import Any

import pytest

from build import each
from build.redaction import attributes_of, one_span, redacted
from tracegrade.extract.reading import SESSION_WORDS
from tracegrade.extract.registry import OURS

KEYS = sorted(OURS.session_keys)
ANN, BOB = "ann.lee@corp.io", "bob.ray@corp.io"
MASKED = {"places": [{"attribute": "*", "action": "mask"}], "detectors": []}


def session_ids(ids: list[str], **settings: Any) -> list[dict[str, str]]:
    """What is left of each of these ids under every key, in one span each."""
    request = one_span()
    spans = request.resource_spans[0].scope_spans[0].spans
    spans.extend([spans[0]] * (len(ids) - 1))
    for span, value in zip(spans, ids, strict=True):
        for key in KEYS:
            span.attributes.add(key=key).value.string_value = value
    left = redacted(request, **settings).resource_spans[0].scope_spans[0].spans
    return [{one.key: one.value.string_value for one in span.attributes if one.key in KEYS} for span in left]


@pytest.mark.parametrize("settings", [{}, MASKED, {"default": "allow_listed"}], ids=["detectors", "places", "allowed"])
def test_ids_that_are_redacted_are_equal_where_they_were(settings: Any) -> None:
    ann, bob, again = session_ids([ANN, BOB, ANN], **settings)
    assert ann == again
    assert [key for key in KEYS if ann[key] == bob[key]] == []
    assert [key for key in KEYS if not ann[key].startswith("[hash:")] == []


def test_an_allow_list_keeps_them() -> None:
    assert session_ids(["s-1"], default="allow_listed") == [dict.fromkeys(KEYS, "s-1")]


@each("word", SESSION_WORDS)
def test_the_same_holds_in_metadata(word: str) -> None:
    kept = attributes_of(redacted(one_span(metadata=json.dumps({word: "s-1", "note": "x"})), default="allow_listed"))
    assert json.loads(kept["metadata"]) == {word: "s-1", "note": "[redacted]"}
    found = attributes_of(redacted(one_span(metadata=json.dumps({word: ANN}))))
    assert json.loads(found["metadata"])[word].startswith("[hash:")
