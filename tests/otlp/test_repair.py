from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build import each
from build.refused import not_taken
from otlp.test_json import LOGS, METRICS, TRACES
from tracegrade.model.signal import Signal
from tracegrade.otlp.json import MAX_PROBLEMS, read_request
from tracegrade.otlp.pieces import WireError
from tracegrade.otlp.repair import finished, repair, repaired
from tracegrade.otlp.request import REQUESTS, containers

DOCUMENTS: dict[Signal, Any] = {Signal.TRACES: TRACES, Signal.LOGS: LOGS, Signal.METRICS: METRICS}
UNKNOWN = b"\xfa\x7f\x03new"
DAMAGE = b"\x0a\x7f"  # a field of 127 bytes, of which none follow


def parts_of(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                yield from parts_of(part)


def full(signal: Signal) -> tuple[Any, list[tuple[Any, str]]]:
    """A request with every field of every message and unknown ones in each; its texts, ``text-NUMBER``, as fields."""
    message = read_request(signal, DOCUMENTS[signal]).message
    texts = []
    for part in list(parts_of(message)):
        part.MergeFromString(UNKNOWN)
        for field, _ in part.ListFields():
            if field.type == field.TYPE_STRING and not field.is_repeated:
                setattr(part, field.name, f"text-{len(texts):06d}")
                texts.append((part, field.name))
    return message, texts


@pytest.mark.parametrize("signal", list(DOCUMENTS), ids=str)
def test_a_text_is_repaired_where_it_stands_and_nothing_else_changes(signal: Signal) -> None:
    message, texts = full(signal)
    wire = message.SerializeToString()
    wrong = []
    for number, (part, name) in enumerate(texts):
        text = f"text-{number:06d}"
        setattr(part, name, text.replace("xt-", "x\ufffd"))
        found = repaired(signal, wire.replace(text.encode(), text.encode().replace(b"xt-", b"x\xe2\x82")))
        if (found.payload, found.texts.total()) != (message.SerializeToString(), 1):
            wrong.append((part.DESCRIPTOR.name, name))
        setattr(part, name, text)
    assert len(texts) > 50
    assert wrong == []
    everything = repaired(signal, wire.replace(b"text-", b"\xff\xfe\x80\xff\xff"))
    assert (everything.texts.total(), everything.dropped) == (len(texts), 0)
    assert everything.payload == _with_texts(message, texts, "\ufffd" * 5)


def _with_texts(message: Any, texts: list[tuple[Any, str]], begin: str) -> bytes:
    for number, (part, name) in enumerate(texts):
        setattr(part, name, f"{begin}{number:06d}")
    return bytes(message.SerializeToString())


def test_repaired_texts_are_counted_by_the_service_of_their_resource() -> None:
    request = ExportTraceServiceRequest()
    for service, spans in (("a", 1), ("b", 3), ("", 2), ("c", 0)):
        resource_spans = request.resource_spans.add()
        if service:
            resource_spans.resource.attributes.add(key="service.name").value.string_value = service
        resource_spans.scope_spans.add().spans.extend([span(name="bad!")] * spans)
    request.resource_spans[-1].scope_spans[0].spans.append(span(name="good"))
    found = repaired(Signal.TRACES, request.SerializeToString().replace(b"bad!", b"bad\xff"))
    assert found.texts == Counter({"a": 1, "b": 3, "": 2})
    assert found.first == f"span {SPAN_ID.hex()}: name"


TRACE_ID, SPAN_ID = bytes(range(1, 17)), bytes(range(1, 9))


def span(**fields: Any) -> Any:
    request = ExportTraceServiceRequest()
    return request.resource_spans.add().scope_spans.add().spans.add(trace_id=TRACE_ID, span_id=SPAN_ID, **fields)


def lengthy(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes((number << 3 | 2, len(content))) + content


SPAN = span().SerializeToString()
GOOD = lengthy(2, SPAN)
RESOURCE = lengthy(1, b"")


def resources(*scopes: bytes, resource: bytes = RESOURCE) -> bytes:
    return lengthy(1, resource + b"".join(lengthy(2, scope) for scope in scopes))


@each(
    ("wire", "kept", "dropped", "problem"),
    [
        (resources(GOOD + lengthy(2, SPAN + DAMAGE) + GOOD), 2, 1, f"span {SPAN_ID.hex()}: a field is longer"),
        (resources(lengthy(2, SPAN + DAMAGE)), 0, 1, f"span {SPAN_ID.hex()}"),
        (resources(GOOD + lengthy(2, SPAN + b"\x07")), 1, 1, "wire type 7"),
        (resources(GOOD + lengthy(2, SPAN + b"\x00\x00")), 1, 1, "a field of number 0"),
        (resources(GOOD, lengthy(1, DAMAGE) + GOOD + GOOD), 1, 2, "scope: "),
        (resources(GOOD, GOOD, resource=lengthy(1, DAMAGE)) + resources(GOOD), 1, 2, "resource: "),
        (resources(GOOD, GOOD + DAMAGE, GOOD), 3, 1, "a scope with its items from byte"),
        (resources(GOOD) + lengthy(1, RESOURCE + lengthy(2, GOOD) + DAMAGE) + resources(GOOD), 3, 1, "a resource with"),
        (resources(GOOD) + resources(GOOD)[:-1], 1, 1, "the request from byte"),
    ],
)
def test_damaged_bytes_cost_what_they_are_part_of(wire: bytes, kept: int, dropped: int, problem: str) -> None:
    found = repaired(Signal.TRACES, wire)
    request = ExportTraceServiceRequest.FromString(found.payload)
    assert sum(map(len, containers(Signal.TRACES, request))) == kept
    assert (found.dropped, len(found.problems)) == (dropped, 1)
    assert problem in found.problems[0]


def test_only_the_first_problems_are_described() -> None:
    found = repaired(Signal.TRACES, resources(lengthy(2, SPAN + DAMAGE)) * 9)
    assert (found.dropped, len(found.problems)) == (9, MAX_PROBLEMS)


@each("wire", [b"garbage", DAMAGE, resources(GOOD)[:-1], resources(DAMAGE)])
def test_what_holds_no_item_around_its_damage_is_no_request(wire: bytes) -> None:
    with pytest.raises(WireError):
        repaired(Signal.TRACES, wire)


def test_work_is_bounded_and_divided_into_turns() -> None:
    attributes = b"".join(lengthy(9, lengthy(1, b"\xff")) for _ in range(9_000))
    wire = _long(1, _long(2, _long(2, SPAN + attributes)))
    assert len(list(repair(Signal.TRACES, wire))) >= 4
    with not_taken("too_dense", match="more than 10000 fields"):
        finished(repair(Signal.TRACES, wire, 10_000))
    with not_taken("too_dense", match="resources, scopes and items"):
        repaired(Signal.TRACES, b"\x0a\x00" * 5000 + DAMAGE)


def _long(number: int, content: bytes) -> bytes:
    size = len(content)
    return bytes((number << 3 | 2, size & 127 | 128, size >> 7 & 127 | 128, size >> 14)) + content


WIRES = {signal: full(signal)[0].SerializeToString() for signal in DOCUMENTS}


@given(
    signal=st.sampled_from(list(DOCUMENTS)),
    changes=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=3)), max_size=4),
)
def test_whatever_is_damaged_what_comes_out_parses(signal: Signal, changes: list[tuple[float, bytes]]) -> None:
    wire = WIRES[signal]
    for place, content in changes:
        at = int(place * len(wire))
        wire = wire[:at] + content + wire[at + len(content) :]
    try:
        found = repaired(signal, wire)
    except WireError:
        return
    REQUESTS[signal].FromString(found.payload)
