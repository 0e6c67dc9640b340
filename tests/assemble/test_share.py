"""Shares of trace ids: what each of several judges decodes and counts."""

from collections import Counter

import pytest
from google.protobuf.internal.encoder import _VarintBytes
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from build import each
from build.otlp import agent_span, log_payload, otlp_log, payload, tool_span
from tracegrade.assemble.decode import Decoder, items_by_share
from tracegrade.assemble.share import ALL, Share, share_of
from tracegrade.codec.raw_spans import plain
from tracegrade.codec.span_reader import AttributeFilter
from tracegrade.match.demand import EVERYTHING, NOTHING, Demand
from tracegrade.model.signal import Signal

FILTER = AttributeFilter(frozenset(), ("gen_ai.",), frozenset({"gen_ai.choice"}))


@given(st.binary(max_size=20), st.integers(1, 64))
def test_each_trace_is_in_one_share(trace_id: bytes, of: int) -> None:
    assert [Share(number, of).takes(trace_id) for number in range(of)].count(True) == 1
    assert Share(share_of(trace_id, of), of).takes(trace_id)


def test_no_trace_id_is_in_the_first_share() -> None:
    assert {share_of(b"", of) for of in range(1, 65)} == {0}


@pytest.mark.parametrize("of", [2, 3, 8])
def test_shares_are_of_like_size_where_only_a_part_of_an_id_varies(of: int) -> None:
    ids = {
        "last bytes": [number.to_bytes(16, "big") for number in range(8000)],
        "first bytes": [number.to_bytes(8, "big") + bytes(8) for number in range(8000)],
        "each second": [(2 * number).to_bytes(16, "big") for number in range(8000)],
    }
    for what, some in ids.items():
        sizes = Counter(share_of(trace_id, of) for trace_id in some)
        assert max(sizes.values()) < 1.1 * 8000 / of, (what, sizes)


def with_a_split_resource(request: ExportTraceServiceRequest) -> bytes:
    """The request, with the resource of its first part once more: protobuf takes both as one."""
    first, *rest = request.resource_spans
    twice = first.SerializeToString() + ResourceSpans(resource=first.resource).SerializeToString()
    others = ExportTraceServiceRequest(resource_spans=rest).SerializeToString()
    return b"\x0a" + _VarintBytes(len(twice)) + twice + others


@each("is_split", [False, True], ids=["whole", "split"])
@each("demand", [None, NOTHING, Demand(0.5), EVERYTHING], ids=["", "none", "half", "all"])
def test_shares_of_a_request_together_are_all_of_it(demand: Demand | None, is_split: bool) -> None:
    spans = [span for trace in range(1, 9) for span in (agent_span(trace, 1), tool_span(trace, 2, 1, "find"))]
    request = ExportTraceServiceRequest.FromString(payload(spans))
    own = request.resource_spans[0].scope_spans.add()
    own.scope.name = "tracegrade"
    own.spans.extend(spans[:6])
    whole = with_a_split_resource(request) if is_split else request.SerializeToString()
    of_all = Decoder(FILTER)
    demand_of = None if demand is None else lambda origin: demand
    decoders = [Decoder(FILTER, Share(number, 3), demand_of) for number in range(3)]
    found = [[plain(span) for span in decoder.spans(whole)] for decoder in decoders]
    assert sorted(repr(span) for some in found for span in some) == sorted(map(repr, of_all.spans(whole)))
    assert sum(decoder.own_spans for decoder in decoders) == of_all.own_spans == 6
    for number, decoder in enumerate(decoders):
        assert all(Share(number, 3).takes(span.trace_id) for span in found[number])
        assert len(found[number]) + decoder.own_spans + decoder.other_spans == len(spans) + 6
    counts = items_by_share(Signal.TRACES, whole, len(spans) + 6 + 2, 3)  # two were erased
    assert counts[0] == len(found[0]) + decoders[0].own_spans + 2
    assert counts[1:] == [len(found[number]) + decoders[number].own_spans for number in (1, 2)]


def test_log_records_go_with_their_trace_and_without_one_to_the_first() -> None:
    logs = [otlp_log(trace, 1, "gen_ai.choice") for trace in range(1, 9)]
    logs.append(otlp_log(1, 1, "gen_ai.choice"))
    logs[-1].trace_id = b""
    whole = log_payload(logs)
    decoders = [Decoder(FILTER, Share(number, 2)) for number in range(2)]
    found = [decoder.log_records(whole) for decoder in decoders]
    assert [len(decoder.log_records(whole)) for decoder in [Decoder(FILTER, ALL)]] == [8]
    assert {log.trace_id for log in found[0]} | {log.trace_id for log in found[1]} == {log.trace_id for log in logs[:8]}
    assert [decoder.unwanted_log_records for decoder in decoders] == [1, 0]
    assert [len(some) + decoder.unwanted_log_records for some, decoder in zip(found, decoders, strict=True)] == (
        items_by_share(Signal.LOGS, whole, 9, 2)
    )
