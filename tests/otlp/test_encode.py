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
    st.lists(st.tuples(st.sampled_from([b"", b"\x10\x01", b"\x10\x02"]), st.integers(0, 400)), max_size=30),
    st.integers(1, 1000),
)
def test_requests_hold_all_items_in_order_each_under_its_resource_and_keep_their_size(plan, max_bytes):
    items = [
        Item(number, resource, Span(name=str(number), trace_state="x" * size).SerializeToString())
        for number, (resource, size) in enumerate(plan)
    ]
    found = []
    for request in requests(items, max_bytes):
        owners = []
        for part in ExportTraceServiceRequest.FromString(request.payload).resource_spans:
            assert part.scope_spans[0].scope.name == "tracegrade"
            for span in part.scope_spans[0].spans:
                found.append((part.resource.SerializeToString(), span.name))
                owners.append(int(span.name))
        assert request.owners == set(owners)
        assert len(owners) == 1 or sum(len(items[owner].content) for owner in owners) <= max_bytes
    assert found == [(item.resource, str(item.owner)) for item in items]
