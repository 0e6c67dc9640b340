"""OTLP/gRPC with real clients; the numbers are those of the OTLP server checklist."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from build import each
from receive.conftest import exports_after_idle
from tracegrade.journal.errors import JournalRefused
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.otlp.answer import grpc_failure
from waiting import eventually

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
Serve = Callable[..., Any]
RequestOf = Callable[..., ExportTraceServiceRequest]


@contextmanager
def channel_to(served: Any) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(served.grpc_address, options=[("grpc.max_send_message_length", -1)]) as channel:
        yield channel


def export(served: Any, wire: bytes, method: str = EXPORT, **more: Any) -> bytes:
    with channel_to(served) as channel:
        answer: bytes = channel.unary_unary(method)(wire, **more)
        return answer


def error_of(served: Any, wire: bytes, method: str = EXPORT, **more: Any) -> Any:
    with pytest.raises(grpc.RpcError) as caught:
        export(served, wire, method, **more)
    return caught.value


def trailers_of(error: Any) -> dict[str, Any]:
    return {key: value for key, value in error.trailing_metadata() or ()}


def test_3_success_is_an_empty_response(serve: Serve, wire: bytes) -> None:
    served = serve()
    assert export(served, wire) == b""
    assert [entry.payload for entry in served.journal.entries] == [wire]
    assert served.requests(transport="grpc", signal="traces", outcome="accepted") == 1


def test_1_gzip_is_accepted(serve: Serve, wire: bytes) -> None:
    served = serve()
    assert export(served, wire, compression=grpc.Compression.Gzip) == b""
    assert served.journal.entries[0].payload == wire


def test_2_empty_requests_succeed_and_are_not_journalled(serve: Serve) -> None:
    served = serve()
    for wire in (b"", b"\x0a\x00", b"\x0a\x02\x12\x00"):
        assert export(served, wire) == b""
    with channel_to(served) as channel:
        assert channel.stream_unary(EXPORT)(iter([])) == b""  # no message at all
    assert served.journal.entries == []


def test_4_bad_spans_are_a_partial_success(serve: Serve, request_of: RequestOf) -> None:
    served = serve()
    request = request_of((b"t" * 16, b"s" * 8, b""), (b"t" * 12, b"s" * 8, b""))
    partial = ExportTraceServiceResponse.FromString(export(served, request.SerializeToString())).partial_success
    assert partial.rejected_spans == 1
    assert partial.error_message == "1 span rejected: trace ids must be 16 bytes and not all zero"
    assert [entry.items for entry in served.journal.entries] == [1]


def test_5_44_a_repaired_text_rejects_nothing_and_is_remarked(serve: Serve, wire: bytes) -> None:
    served = serve()
    partial = ExportTraceServiceResponse.FromString(export(served, wire.replace(b"work", b"wor\xff"))).partial_success
    assert (partial.rejected_spans, partial.error_message[:19]) == (0, "1 text not in UTF-8")
    assert [b"wor\xef\xbf\xbd" in entry.payload for entry in served.journal.entries] == [True]


def test_9_fields_of_tomorrow_are_journalled_as_they_came(serve: Serve, request_of: RequestOf) -> None:
    served = serve()
    request = request_of()
    request.resource_spans[0].scope_spans[0].spans[0].MergeFromString(b"\xfa\x7f\x03new")
    wire = request.SerializeToString() + b"\xfa\x7f\x03new"
    export(served, wire)
    assert served.journal.entries[0].payload == wire


def test_14_all_three_services_are_served(serve: Serve, request_of: RequestOf) -> None:
    served = serve()
    logs, metrics = ExportLogsServiceRequest(), ExportMetricsServiceRequest()
    logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=1)
    metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="m").gauge.data_points.add(as_int=1)
    with channel_to(served) as channel:
        TraceServiceStub(channel).Export(request_of())
        LogsServiceStub(channel).Export(logs)
        MetricsServiceStub(channel).Export(metrics)
    assert [(entry.signal, entry.items) for entry in served.journal.entries] == [
        (Signal.TRACES, 1),
        (Signal.LOGS, 1),
        (Signal.METRICS, 1),
    ]


@each("method", ["/opentelemetry.proto.collector.profiles.v1.ProfilesService/Export", "/x/y"])
def test_14_what_is_not_served_is_unimplemented(serve: Serve, method: str) -> None:
    assert error_of(serve(), b"", method).code() is grpc.StatusCode.UNIMPLEMENTED


# In a process of its own, since it needs the memory that the server must not.
OVERSIZE_CLIENT = """
import sys
import grpc
address, method, size, compression = sys.argv[1:]
options = [("grpc.max_send_message_length", -1)]
with grpc.insecure_channel(address, options=options, compression=grpc.Compression[compression]) as channel:
    try:
        channel.unary_unary(method)(bytes(int(size)))
    except grpc.RpcError as error:
        print(error.code().name, sorted(key for key, _ in error.trailing_metadata() or ()))
"""


@each(("size_mib", "compression"), [(2, "NoCompression"), (200, "Gzip")], ids=["plain", "bomb"])
def test_15_oversize_is_final_and_memory_stays_flat(
    serve: Serve, size_mib: int, compression: str, wire: bytes, peak_memory: Callable[[], Any]
) -> None:
    served = serve(grpc={"max_recv_msg_size_mib": 1})
    export(served, wire, compression=grpc.Compression.Gzip)
    memory = peak_memory()
    arguments = [served.grpc_address, EXPORT, str(size_mib * 1024 * 1024), compression]
    client = subprocess.run(
        [sys.executable, "-c", OVERSIZE_CLIENT, *arguments], capture_output=True, text=True, check=True
    )
    assert client.stdout == "RESOURCE_EXHAUSTED []\n"
    assert memory.growth_mib() < 16
    assert len(served.journal.entries) == 1


def test_16_19_a_full_journal_says_when_to_come_back_in_both_places(serve: Serve, wire: bytes) -> None:
    served = serve()
    served.journal.refuse_with = JournalRefused("journal_full", "2.0 of 2.0 GiB")
    error = error_of(served, wire)
    assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, "2.0 of 2.0 GiB")
    trailers = trailers_of(error)
    status = Status.FromString(trailers["grpc-status-details-bin"])
    assert (status.code, status.message) == (14, "2.0 of 2.0 GiB")
    info = RetryInfo()
    assert status.details[0].Unpack(info)
    assert info.retry_delay.seconds == 1
    assert RetryInfo.FromString(trailers["google.rpc.retryinfo-bin"]) == info
    served.journal.refuse_with = None
    export(served, wire)


def test_16_no_room_for_requests_in_work_is_unavailable(serve: Serve, wire: bytes) -> None:
    served = serve()
    served.ingest.in_flight.taken_bytes = served.ingest.in_flight.bound_bytes
    error = error_of(served, wire)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "google.rpc.retryinfo-bin" in trailers_of(error)
    assert served.requests(outcome="refused", reason="overloaded") == 1
    served.ingest.in_flight.taken_bytes = 0
    export(served, wire)
    assert served.ingest.in_flight.taken_bytes == 0


def test_17_garbage_is_an_invalid_argument(serve: Serve) -> None:
    served = serve()
    error = error_of(served, b"\xff\xff garbage")
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details().startswith("not an OTLP traces request in protobuf")
    assert served.requests(outcome="refused", reason="undecodable") == 1


def test_17_a_mistake_of_ours_is_internal_and_never_unknown(serve: Serve, wire: bytes) -> None:
    served = serve()
    served.journal.refuse_with = ZeroDivisionError("a bug")
    assert error_of(served, wire).code() is grpc.StatusCode.INTERNAL


@each(
    ("trouble", "is_retried"),
    [
        (JournalRefused("journal_full", "no room"), True),
        (JournalRefused("journal_unavailable", "disk failed"), True),
        (JournalRefused("shutting_down", "stopping"), True),
        (ZeroDivisionError("a bug"), False),
        (None, False),
    ],
    ids=["full", "disk", "stopping", "our mistake", "garbage"],
)
def test_18_a_code_that_clients_retry_is_answered_exactly_where_that_can_help(
    serve: Serve, wire: bytes, trouble: Exception | None, is_retried: bool
) -> None:
    served = serve()
    served.journal.refuse_with = trouble
    error = error_of(served, b"\xff" if trouble is None else wire)
    details = trailers_of(error).get("grpc-status-details-bin")
    assert (grpc_failure(error.code().name.lower(), "", details).kind == "retry") is is_retried


def test_20_calls_on_one_connection_run_side_by_side(serve: Serve, wire: bytes) -> None:
    served = serve()
    served.journal.hold = True
    with channel_to(served) as channel:
        calls = [channel.unary_unary(EXPORT).future(wire) for _ in range(20)]
        for _ in calls:
            assert served.journal.appended.acquire()
        assert not any(call.done() for call in calls)
        for future in list(served.journal.futures):
            served.loop.call_soon_threadsafe(future.set_result, 1)
        assert [call.result() for call in calls] == [b""] * 20


def health(served: Any, service: bytes = b"") -> bytes:
    request = b"\x0a" + bytes([len(service)]) + service if service else b""
    return export(served, request, "/grpc.health.v1.Health/Check")


def test_21_health_says_serving_for_the_server_and_each_service(serve: Serve) -> None:
    served = serve()
    for service in (b"", *(EXPORT.split("/")[1].replace("trace.v1.Trace", name).encode() for name in NAMES)):
        assert health(served, service) == b"\x08\x01"
    error = error_of(served, b"\x0a\x03abc", "/grpc.health.v1.Health/Check")
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "no service 'abc' here")
    assert error_of(served, b"\xff", "/grpc.health.v1.Health/Check").code() is grpc.StatusCode.NOT_FOUND


NAMES = ["trace.v1.Trace", "logs.v1.Logs", "metrics.v1.Metrics"]


def test_21_health_is_told_to_those_who_show_a_token_where_one_is_asked_for(serve: Serve) -> None:
    served = serve(grpc={"auth": {"tokens": ["a-token-of-a-sender"]}})
    for name in ("Check", "Watch"):
        error = error_of(served, b"", f"/grpc.health.v1.Health/{name}")
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    known = (("authorization", "Bearer a-token-of-a-sender"),)
    with channel_to(served) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"", metadata=known) == b"\x08\x01"
        states = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", metadata=known)
        assert next(states) == b"\x08\x01"
        states.cancel()


@each("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_21_health_may_be_asked_for_compressed(serve: Serve, compression: grpc.Compression) -> None:
    service = EXPORT.split("/")[1].encode()
    asked = b"\x0a" + bytes([len(service)]) + service
    assert export(serve(), asked, "/grpc.health.v1.Health/Check", compression=compression) == b"\x08\x01"


def test_21_health_can_be_watched_until_the_receiver_stops(serve: Serve) -> None:
    served = serve()
    with channel_to(served) as channel:
        states = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
        unknown = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"\x0a\x01x")
        assert (next(states), next(unknown)) == (b"\x08\x01", b"\x08\x03")
        served.loop.call_soon_threadsafe(served.ingest.stop)
        assert (list(states), list(unknown)) == ([b"\x08\x02"], [])
    assert health(served) == b"\x08\x02"


def test_21_calls_that_watch_health_are_bounded(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.receive.otlp_grpc._MOST_WATCHES", 1)
    served = serve()
    with channel_to(served) as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        states = watch(b"")
        assert next(states) == b"\x08\x01"
        with pytest.raises(grpc.RpcError) as refused:
            next(watch(b""))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "google.rpc.retryinfo-bin" in trailers_of(refused.value)
        assert health(served) == b"\x08\x01"
        states.cancel()

        def is_watched() -> bool:
            with suppress(grpc.RpcError):
                return next(watch(b"")) == b"\x08\x01"
            return False

        eventually(is_watched, "the room of the call that ended")


def test_22_while_stopping_new_calls_are_unavailable(serve: Serve, wire: bytes) -> None:
    served = serve()
    served.loop.call_soon_threadsafe(served.ingest.stop)
    served.run(served.ingest.wait_stopping())
    error = error_of(served, wire)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "google.rpc.retryinfo-bin" in trailers_of(error)


def test_22_stopping_finishes_what_is_in_work(serve: Serve, wire: bytes) -> None:
    served = serve()
    served.journal.hold = True
    with channel_to(served) as channel:
        call = channel.unary_unary(EXPORT).future(wire)
        assert served.journal.appended.acquire()
        stopping = served.submit(served.stop(10))
        served.run(served.ingest.wait_stopping())
        assert not call.done()
        served.loop.call_soon_threadsafe(served.journal.futures[0].set_result, 1)
        assert call.result() == b""
        stopping.result()


def test_what_carries_our_own_instance_id_is_not_journalled(serve: Serve, wire: bytes) -> None:
    served = serve()
    export(served, wire, metadata=[("x-tracegrade-instance", "instance-under-test")])
    assert served.journal.entries == []
    export(served, wire, metadata=[("x-tracegrade-instance", "another")])
    assert len(served.journal.entries) == 1


def test_a_caller_that_hangs_up_gives_its_room_back(serve: Serve, wire: bytes) -> None:
    served = serve()
    served.journal.hold = True
    with channel_to(served) as channel:
        call = channel.unary_unary(EXPORT).future(wire)
        assert served.journal.appended.acquire()
        call.cancel()
        eventually(lambda: served.ingest.in_flight.taken_bytes == 0)
    served.loop.call_soon_threadsafe(served.journal.futures[0].set_result, 1)
    eventually(lambda: served.requests(outcome="accepted") == 1)


def test_a_port_in_use_stops_the_start(serve: Serve) -> None:
    taken = serve().grpc_address
    with pytest.raises(TraceGradeError, match=rf"protocols\.grpc\.endpoint: cannot listen on '{taken}'"):
        serve(grpc={"endpoint": taken})


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def write_server_files(authority: trustme.CA, folder: Path) -> dict[str, str]:
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    certificate.cert_chain_pems[0].write_to_path(folder / "server.pem")
    certificate.private_key_pem.write_to_path(folder / "server.key")
    return {"cert_file": str(folder / "server.pem"), "key_file": str(folder / "server.key")}


def export_securely(served: Any, wire: bytes, credentials: grpc.ChannelCredentials) -> bytes:
    with grpc.secure_channel(served.grpc_address, credentials) as channel:
        answer: bytes = channel.unary_unary(EXPORT)(wire)
        return answer


def test_tls_is_served_and_a_client_authority_is_asked_for(
    serve: Serve, wire: bytes, authority: trustme.CA, tmp_path: Path
) -> None:
    tls = write_server_files(authority, tmp_path)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    roots = authority.cert_pem.bytes()
    stranger = grpc.ssl_channel_credentials(roots)
    assert export_securely(serve(grpc={"tls": tls}), wire, stranger) == b""

    served = serve(grpc={"tls": {**tls, "client_ca_file": str(tmp_path / "ca.pem")}})
    with pytest.raises(grpc.RpcError) as caught:
        export_securely(served, wire, stranger)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    known = authority.issue_cert("client")
    credentials = grpc.ssl_channel_credentials(roots, known.private_key_pem.bytes(), known.cert_chain_pems[0].bytes())
    assert export_securely(served, wire, credentials) == b""


def test_21_a_client_that_pings_too_often_is_disconnected(serve: Serve, wire: bytes) -> None:
    served = serve()
    served.journal.hold = True
    # Without limits of its own, a client pings as often as it likes.
    pings = [("grpc.keepalive_time_ms", 1000), ("grpc.http2.max_pings_without_data", 0)]
    with grpc.insecure_channel(served.grpc_address, options=pings) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(EXPORT)(wire)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    assert caught.value.details() == "Too many pings"  # type: ignore[attr-defined]
    served.loop.call_soon_threadsafe(served.journal.futures[0].set_result, 1)


def test_21_old_connections_are_closed_so_that_clients_spread_again(serve: Serve, wire: bytes) -> None:
    served = serve(grpc={"keepalive": {"server_parameters": {"max_connection_age": "100ms"}}})
    exports_after_idle(served, wire)
    assert len(served.journal.entries) == 2
