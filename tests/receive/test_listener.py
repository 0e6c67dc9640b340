"""A receiver for one program under test: gRPC and HTTP on one port."""

import socket
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tracegrade.model.signal import Signal
from tracegrade.receive.listener import Listener


def request(trace_id: int, spans: int = 1) -> ExportTraceServiceRequest:
    made = ExportTraceServiceRequest()
    scope = made.resource_spans.add().scope_spans.add()
    for number in range(spans):
        scope.spans.add(trace_id=trace_id.to_bytes(16), span_id=(number + 1).to_bytes(8), name="x" * 50)
    return made


def post(listener: Listener, body: bytes, kind: str = "application/x-protobuf", path: str = "/v1/traces") -> int:
    asked = urllib.request.Request(f"{listener.endpoint}{path}", body, {"Content-Type": kind})
    with urllib.request.urlopen(asked) as answer:
        status: int = answer.status
        return status


def export(listener: Listener, what: ExportTraceServiceRequest) -> Any:
    with grpc.insecure_channel(f"127.0.0.1:{listener.port}") as channel:
        return TraceServiceStub(channel).Export(what)


def test_both_protocols_are_taken_on_one_port_at_the_same_time() -> None:
    taken: list[tuple[Signal, bytes]] = []
    with Listener(lambda signal, payload: taken.append((signal, payload))) as listener, ThreadPoolExecutor(8) as pool:
        # Large ones too: they come in many pieces.
        wanted = [request(number, spans=1 if number % 5 else 5_000) for number in range(1, 41)]
        answers = [
            pool.submit(export, listener, item) if number % 2 else pool.submit(post, listener, item.SerializeToString())
            for number, item in enumerate(wanted)
        ]
        for answer in answers:
            answer.result()
    assert {signal for signal, _ in taken} == {Signal.TRACES}
    assert sorted(payload for _, payload in taken) == sorted(item.SerializeToString() for item in wanted)


def test_json_is_taken_as_protobuf_and_log_records_as_such() -> None:
    taken: list[tuple[Signal, bytes]] = []
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s","spanId":"%s"}]}]}]}' % (b"1" * 32, b"2" * 16)
    logs = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"hello"}}]}]}]}'
    with Listener(lambda signal, payload: taken.append((signal, payload))) as listener:
        assert post(listener, body, "application/json") == 200
        assert post(listener, logs, "application/json", "/v1/logs") == 200
    assert [signal for signal, _ in taken] == [Signal.TRACES, Signal.LOGS]
    span = ExportTraceServiceRequest.FromString(taken[0][1]).resource_spans[0].scope_spans[0].spans[0]
    assert span.trace_id.hex() == "1" * 32


def test_what_is_refused_is_counted_by_reason() -> None:
    def full(signal: Signal, payload: bytes) -> None:
        raise OSError("No space left on device")

    with Listener(full) as listener:
        with pytest.raises(grpc.RpcError, match="No space left on device"):
            export(listener, request(1))
        with pytest.raises(urllib.error.HTTPError) as error:
            post(listener, b"\xff\xff")
        error.value.close()
        assert listener.refused() == {"journal_unavailable": 1, "undecodable": 1}


def test_connections_that_say_nothing_or_stay_open_do_not_keep_it_from_stopping() -> None:
    taken: list[bytes] = []
    with Listener(lambda signal, payload: taken.append(payload)) as listener:
        silent = socket.create_connection(("127.0.0.1", listener.port))
        with socket.create_connection(("127.0.0.1", listener.port)):
            pass
        assert post(listener, request(1).SerializeToString()) == 200
    assert len(taken) == 1
    assert silent.recv(1) == b""
    silent.close()
