import math

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tracegrade.otlp.encode import SPAN_ATTRIBUTES, Item, any_value, attribute, repeated, requests

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=300)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(st.lists(st.tuples(st.text(st.characters(codec="utf-8"), min_size=1), values)))
def test_appended_attributes_are_what_protobuf_itself_would_write(pairs):
    encoded = Span(name="s").SerializeToString() + b"".join(
        attribute(SPAN_ATTRIBUTES, key, value) for key, value in pairs
    )
    span = Span.FromString(encoded)
    assert span.name == "s"
    assert [(item.key, item.value) for item in span.attributes] == [(key, any_value(value)) for key, value in pairs]


def test_equal_values_of_different_types_stay_apart():
    for value, kind in ((1, "int_value"), (1.0, "double_value"), (True, "bool_value"), ("1", "string_value")):
        [item] = Span.FromString(attribute(SPAN_ATTRIBUTES, "key", value)).attributes
        assert item.value.WhichOneof("value") == kind
        assert getattr(item.value, kind) == value


def test_minus_zero_is_written_as_zero_whichever_came_first():
    for value in (-0.0, 0.0):
        [item] = Span.FromString(attribute(SPAN_ATTRIBUTES, "a key of this test alone", value)).attributes
        assert math.copysign(1, item.value.double_value) == 1


def test_integers_beyond_64_bits_become_text():
    assert any_value(2**63 - 1).int_value == 2**63 - 1
    assert any_value(-(2**63)).int_value == -(2**63)
    assert any_value(2**63).string_value == "9223372036854775808"


@given(st.integers(0, 70_000))
def test_lengths_of_any_size_are_readable(size):
    [link] = Span.FromString(repeated(13, Span.Link(trace_state="x" * size).SerializeToString())).links
    assert len(link.trace_state) == size


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"", b"\x10\x01", b"\x10\x02"]), st.lists(st.integers(0, 400), min_size=1, max_size=4)
        ),
        max_size=20,
    ),
    st.integers(1, 1000),
)
def test_requests_hold_all_items_in_order_each_under_its_resource_and_keep_their_size(plan, max_bytes):
    def content(owner, size):
        return Span(name=str(owner), trace_state="x" * size).SerializeToString()

    items = [
        Item(owner, resource, [content(owner, size) for size in sizes]) for owner, (resource, sizes) in enumerate(plan)
    ]
    found = []
    for request in requests(items, max_bytes):
        contents = []
        owners = set()
        for part in ExportTraceServiceRequest.FromString(request.payload).resource_spans:
            assert part.scope_spans[0].scope.name == "tracegrade"
            for span in part.scope_spans[0].spans:
                contents.append(span.SerializeToString())
                found.append((part.resource.SerializeToString(), contents[-1]))
                owners.add(int(span.name))
        assert request.owners == owners
        assert len(contents) == 1 or sum(map(len, contents)) <= max_bytes
    assert found == [(item.resource, each) for item in items for each in item.contents]
