from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build.dense import field
from build.refused import not_taken
from otlp.test_pieces import items
from tracegrade.model.signal import Signal
from tracegrade.otlp.by_trace import Part, by_trace
from tracegrade.otlp.request import PATHS, REQUESTS

NO_BOUND = 10**9
SIGNALS = [Signal.TRACES, Signal.LOGS]
TRACES = [bytes([number]) * 16 for number in (1, 2, 3)]
NO_TRACE = {b"", bytes(16), b"short"}
SPAN = {Signal.TRACES: 2, Signal.LOGS: 10}  # the field of a span id
TEXT = {Signal.TRACES: 5, Signal.LOGS: 12}  # of a name, of an event's name
TRACE_ID = {Signal.TRACES: 1, Signal.LOGS: 9}

# A trace, how long its name is, and whether the id comes after the name, as no encoder writes it.
ITEMS = st.lists(st.tuples(st.sampled_from(range(5)), st.sampled_from([0, 5, 120, 300, 20_000]), st.booleans()))
RESOURCES = st.lists(st.tuples(st.text(max_size=5), st.lists(st.tuples(st.text(max_size=5), ITEMS), max_size=3)))


def _request(signal: Signal, resources: Any) -> bytes:
    ids = [*TRACES, bytes(16), b""] if signal is Signal.LOGS else [*TRACES, TRACES[0], TRACES[1]]
    wire = b""
    for resource, scopes in resources:
        inside = field(1, field(1, field(1, resource.encode())))
        for scope, members in scopes:
            of_scope = field(1, field(1, scope.encode()))
            for number, (trace, length, is_late) in enumerate(members):
                trace_id = field(TRACE_ID[signal], ids[trace]) if ids[trace] else b""
                name = field(TEXT[signal], b"x" * length)
                rest = field(SPAN[signal], number.to_bytes(8, "big"))
                of_scope += field(2, name + rest + trace_id if is_late else trace_id + rest + name)
            inside += field(2, of_scope) + field(3, b"schema")
        wire += field(1, inside)
    return wire


def _items(signal: Signal, payload: bytes) -> list[tuple[Any, Any, Any]]:
    return items(signal, REQUESTS[signal].FromString(payload))


def _of(found: list[tuple[Any, Any, Any]], trace_id: bytes) -> list[tuple[Any, Any, Any]]:
    return [item for item in found if (b"" if item[2].trace_id in NO_TRACE else item[2].trace_id) == trace_id]


@pytest.mark.parametrize("signal", SIGNALS)
@given(resources=RESOURCES, max_bytes=st.sampled_from([NO_BOUND, 25_000]))
def test_parts_hold_each_item_once_with_its_trace_in_its_order(signal: Signal, resources: Any, max_bytes: int) -> None:
    payload = _request(signal, resources)
    parts = by_trace(signal, payload, max_bytes)
    whole = _items(signal, payload)
    assert sum(part.items for part in parts) == len(whole)
    found: dict[bytes, list[Any]] = {}
    for part in parts:
        inside = _items(signal, part.payload)
        assert len(inside) == part.items > 0
        assert len(part.payload) <= max_bytes
        found.setdefault(part.trace_id, []).extend(inside)
    assert {trace_id: _of(whole, trace_id) for trace_id in found} == found


def test_a_request_of_one_trace_stays_the_bytes_that_came() -> None:
    payload = _request(Signal.TRACES, [("r", [("s", [(0, 5, False), (0, 300, True)])])]) + field(15, b"unknown")
    assert by_trace(Signal.TRACES, payload, NO_BOUND) == [Part(TRACES[0], 2, payload)]


def test_fields_that_we_do_not_know_stay_with_their_resource_scope_and_span() -> None:
    scope = field(1, field(1, b"s")) + field(9, b"of scope")
    spans = [field(2, field(1, trace_id) + field(2, b"spanspan") + field(15, b"of span")) for trace_id in TRACES[:2]]
    payload = field(1, field(1, b"") + field(9, b"of resource") + field(2, scope + spans[0] + spans[1]))
    first, second = by_trace(Signal.TRACES, payload, NO_BOUND)
    assert first.payload == field(1, field(1, b"") + field(9, b"of resource") + field(2, scope + spans[0]))
    assert second.payload == field(1, field(1, b"") + field(9, b"of resource") + field(2, scope + spans[1]))


def test_log_records_without_a_trace_go_together() -> None:
    payload = _request(Signal.LOGS, [("r", [("s", [(3, 1, False), (0, 1, False), (4, 1, True)])])])
    assert Counter({part.trace_id: part.items for part in by_trace(Signal.LOGS, payload, NO_BOUND)}) == {
        b"": 2,
        TRACES[0]: 1,
    }


def test_a_trace_larger_than_the_bound_is_divided_between_its_spans() -> None:
    payload = _request(Signal.TRACES, [("r", [("s", [(0, 300, False)] * 10), ("t", [(0, 300, False)])])])
    parts = by_trace(Signal.TRACES, payload, 1000)
    assert [part.items for part in parts] == [2, 2, 2, 2, 2, 1]
    assert {part.trace_id for part in parts} == {TRACES[0]}


def test_a_span_larger_than_the_bound_is_named_with_its_size() -> None:
    payload = _request(Signal.TRACES, [("r", [("s", [(0, 5, False), (1, 5000, False)])])])
    with not_taken("too_large", r"a span or log record of 50\d\d bytes .*; expected at most 4000"):
        by_trace(Signal.TRACES, payload, 4000)


def test_a_request_without_items_has_no_parts() -> None:
    assert by_trace(Signal.TRACES, _request(Signal.TRACES, [("r", [("s", [])])]), NO_BOUND) == []
    assert by_trace(Signal.LOGS, b"", NO_BOUND) == []


def test_all_levels_have_the_field_numbers_that_otlp_gives_them() -> None:
    for signal in SIGNALS:
        message: Any = REQUESTS[signal].DESCRIPTOR
        for name, number in zip(PATHS[signal], (1, 2, 2), strict=True):
            assert message.fields_by_name[name].number == number
            message = message.fields_by_name[name].message_type
        assert message.fields_by_name["trace_id"].number == TRACE_ID[signal]


def test_a_long_span_whose_length_looks_like_the_beginning_of_another_is_read_as_one() -> None:
    size = 10 << 14  # its length is written as 0x80 0x80 0x0a, and 0x0a is the tag of a trace id
    ids = field(1, TRACES[1])
    begins = b"\x10\x01" + ids  # a number in the place of the span id, whose tag looks like a length of 16
    filling = size - len(begins) - len(field(5, b"x" * (size - 50))) + size - 50
    span = begins + field(5, b"x" * filling)
    assert len(span) == size
    payload = field(1, field(2, field(2, ids) + field(2, span) + field(2, field(1, TRACES[0]))))
    parts = by_trace(Signal.TRACES, payload, NO_BOUND)
    assert [(part.trace_id, part.items) for part in parts] == [(TRACES[1], 2), (TRACES[0], 1)]
