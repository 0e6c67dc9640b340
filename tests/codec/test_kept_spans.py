from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import each
from tracegrade.codec.kept_spans import decode_spans, encode_spans, filter_hash_in
from tracegrade.codec.packing import Unreadable, pack
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Resource, Span, SpanEvent

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ATTRIBUTES = st.dictionaries(TEXT, VALUES, max_size=4)
UNSIGNED_64 = st.integers(0, 2**64 - 1)
EVENTS = st.builds(SpanEvent, TEXT, UNSIGNED_64, ATTRIBUTES)
RESOURCES = st.builds(Resource, ATTRIBUTES)
SPANS = st.builds(
    Span,
    trace_id=st.sampled_from([b"\x01" * 16, b"\x02" * 16]),
    span_id=st.binary(min_size=8, max_size=8),
    parent_span_id=st.just(b"") | st.binary(min_size=8, max_size=8),
    name=TEXT,
    kind=st.integers(0, 5),
    start_ns=UNSIGNED_64,
    end_ns=UNSIGNED_64,
    flags=st.integers(0, 2**32 - 1),
    status_code=st.integers(0, 2),
    status_message=TEXT,
    attributes=ATTRIBUTES,
    events=st.lists(EVENTS, max_size=2),
    dropped_attributes_count=st.integers(0, 2**32 - 1),
    scope=TEXT,
    resource=RESOURCES,
    unread_keys=st.none() | st.lists(TEXT, max_size=2).map(tuple),
)

SPAN = Span(b"t" * 16, b"s" * 8, b"", "root", 1, 10, 20, 0, 0, "", {"a": 1}, [], 0, "scope", Resource({"k": "v"}))


LOG_RECORDS = st.builds(
    LogRecord,
    trace_id=st.sampled_from([b"\x01" * 16, b"\x02" * 16]),
    span_id=st.binary(min_size=8, max_size=8),
    scope=TEXT,
    event=EVENTS,
)


@given(
    st.lists(SPANS, max_size=4),
    st.lists(st.binary(min_size=16, max_size=16), max_size=3),
    st.lists(LOG_RECORDS, max_size=3),
    st.text(max_size=3),
)
def test_spans_and_log_records_come_back_equal(
    spans: list[Span], replaced: list[bytes], log_records: list[LogRecord], filter_hash: str
) -> None:
    kept = spans, replaced, log_records, filter_hash
    assert decode_spans(encode_spans(*kept)) == kept


def test_what_was_stored_before_it_was_noted_which_attributes_were_kept_is_read() -> None:
    header = [[b"t".hex() * 16], ["scope"], [{}], [], [], []]
    assert decode_spans(b"\x02" + pack(orjson.dumps(header))) == ([], [], [], "")


def test_unread_keys_are_read_where_earlier_versions_wrote_them_among_the_attributes() -> None:
    earlier = replace(SPAN, attributes={"a": 1, "tracegrade.unread_keys": ["acme.tool", "acme.args"]})
    written = encode_spans([earlier], [])
    now = replace(SPAN, unread_keys=("acme.tool", "acme.args"))
    assert decode_spans(written).spans == [now]
    assert encode_spans([now], []) == written, "the same bytes"


def test_integers_and_floats_keep_their_type() -> None:
    decoded, *_ = decode_spans(encode_spans([replace(SPAN, attributes={"int": 1, "float": 1.0})], []))
    assert [type(value) for value in decoded[0].attributes.values()] == [int, float]


def test_spans_that_share_a_resource_share_it_again() -> None:
    decoded, *_ = decode_spans(encode_spans([SPAN, replace(SPAN, span_id=b"u" * 8)], []))
    assert decoded[0].resource is decoded[1].resource


@pytest.mark.parametrize("filter_hash", ["", "0123456789abcdef"])
def test_the_filter_hash_is_read_without_the_rest(filter_hash: str) -> None:
    assert filter_hash_in(encode_spans([SPAN], [b"r" * 16], [], filter_hash)) == filter_hash
    assert filter_hash_in(b"\x02" + pack(orjson.dumps([[], [], [], [], [], []]))) == ""


@each("blob", [b"", b"\x01rest", b"\x02", b"\x03not compressed", encode_spans([SPAN], [])[:-3]])
def test_a_damaged_blob_is_one_clear_error(blob: bytes) -> None:
    with pytest.raises(Unreadable):
        decode_spans(blob)
    with pytest.raises(Unreadable):
        filter_hash_in(blob)
