"""Clients that keep a receiver waiting: each is cut off in time, however many they are, and good ones are answered."""

import http.client
import itertools
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from receive.conftest import exports_after_idle, until_closed
from waiting import eventually

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
Serve = Callable[..., Any]

HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
SLOW_STARTS = [b"", b"POST /v1/tra", HEAD[:60], HEAD, HEAD + b"{", b"\r\n"]


def status_of(served: Any, wire: bytes) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", served.http_port)
    try:
        connection.request("POST", "/v1/traces", wire, {"Content-Type": "application/x-protobuf"})
        return connection.getresponse().status
    finally:
        connection.close()


def closed(served: Any, **labels: str) -> float:
    count: float = served.telemetry.value("tracegrade.receiver.closed_connections", **labels)
    return count


def test_33_a_crowd_of_slow_senders_shuts_nobody_out(serve: Serve, wire: bytes) -> None:
    served = serve(http={"max_connections": 20, "read_header_timeout": "3s", "read_timeout": "3s"})
    with ExitStack() as stack:
        crowd = []
        for start in itertools.islice(itertools.cycle(SLOW_STARTS), 100):
            crowd.append(stack.enter_context(socket.create_connection(("127.0.0.1", served.http_port))))
            crowd[-1].sendall(start)
        assert [status_of(served, wire) for _ in range(5)] == [200] * 5
        assert closed(served, reason="too_many") >= 80
        for connection in crowd:
            until_closed(connection)
    eventually(lambda: closed(served, transport="http") + served.requests(reason="read_timeout") >= 100)
    assert len(served.journal.entries) == 5


def test_33_whoever_waits_for_an_answer_is_not_pushed_out_and_one_too_many_is_told_to_come_back(
    serve: Serve, wire: bytes
) -> None:
    served = serve(http={"max_connections": 3})
    served.journal.hold = True
    statuses: list[int] = []
    senders = [threading.Thread(target=lambda: statuses.append(status_of(served, wire))) for _ in range(3)]
    for sender in senders:
        sender.start()
        assert served.journal.appended.acquire()
    with socket.create_connection(("127.0.0.1", served.http_port)) as connection:
        said = until_closed(connection)
    assert said.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in said
    for future in list(served.journal.futures):
        served.loop.call_soon_threadsafe(future.set_result, 1)
    for sender in senders:
        sender.join()
    assert statuses == [200] * 3
    served.journal.hold = False
    assert status_of(served, wire) == 200


def test_33_lines_between_requests_do_not_stop_the_clock(serve: Serve, wire: bytes) -> None:
    served = serve(http={"read_header_timeout": "300ms"})
    head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.http_port)) as connection:
        connection.settimeout(None)
        connection.sendall(head % len(wire) + wire)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")
        connection.sendall(b"\r\n")
        assert until_closed(connection) == b""
    assert closed(served, reason="headers") == 1


def test_33_the_rest_of_a_refused_body_may_not_take_for_ever(serve: Serve) -> None:
    served = serve(http={"read_timeout": "100ms"})
    with socket.create_connection(("127.0.0.1", served.http_port)) as connection:
        connection.sendall(HEAD.replace(b"application/json", b"text/plain") + b"{")
        assert until_closed(connection).startswith(b"HTTP/1.1 415 ")
    eventually(lambda: closed(served, reason="body") == 1)


def test_33_a_body_without_end_is_not_read_on_after_its_answer(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.receive.http_connection._GRACE_S", 0.1)
    served = serve(http={"max_request_body_size_mib": 1})
    with socket.create_connection(("127.0.0.1", served.http_port)) as connection:
        connection.sendall(HEAD.replace(b"Content-Length: 9", b"Transfer-Encoding: chunked"))
        chunks = itertools.repeat(b"10000\r\n" + bytes(0x10000) + b"\r\n", 50_000)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            deque(map(connection.sendall, chunks), maxlen=0)
    assert served.requests(outcome="refused", reason="too_large") == 1
    assert closed(served, reason="body") == 1


def test_33_who_does_not_read_the_answers_is_cut_off(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.receive.http_connection._WRITE_TIMEOUT_S", 0.1)
    served = serve()
    request = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"x" * 60_000)  # told in full what is not served
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", served.http_port))
        connection.settimeout(None)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            connection.sendall(request * 1000)
    assert closed(served, reason="answer_not_read") == 1


def test_33_silent_connections_of_grpc_are_closed_in_time(serve: Serve, wire: bytes) -> None:
    served = serve(grpc={"max_connections": 20, "read_header_timeout": "500ms"})
    host, _, port = served.grpc_address.rpartition(":")
    with ExitStack() as stack:
        crowd = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(60)]
        with grpc.insecure_channel(served.grpc_address) as channel:
            assert channel.unary_unary(EXPORT)(wire, wait_for_ready=True) == b""
        for connection in crowd:
            until_closed(connection)


def test_33_a_grpc_call_whose_request_never_comes_ends_and_holds_up_nobody(serve: Serve, wire: bytes) -> None:
    served = serve(grpc={"read_timeout": "300ms"})
    ended = threading.Event()

    def never() -> Iterator[bytes]:
        ended.wait()
        yield b""

    with grpc.insecure_channel(served.grpc_address) as channel:
        slow = [channel.stream_unary(EXPORT).future(never()) for _ in range(50)]
        assert channel.unary_unary(EXPORT)(wire) == b""
        codes = {call.exception().code() for call in slow}
        assert codes == {grpc.StatusCode.UNAVAILABLE}
        assert "did not arrive within 0.3 s" in slow[0].exception().details()
        ended.set()
    assert served.requests(transport="grpc", outcome="refused", reason="read_timeout") == 50


@pytest.mark.skipif(sys.platform != "linux", reason="the sockets are found by /proc")
def test_33_connections_of_grpc_are_bounded_and_whoever_comes_is_answered(serve: Serve, wire: bytes) -> None:
    served = serve(grpc={"max_connections": 3})
    port = int(served.grpc_address.rpartition(":")[2])
    with ExitStack() as stack:
        for _ in range(12):
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = stack.enter_context(grpc.insecure_channel(served.grpc_address, options))
            channel.unary_unary(EXPORT)(wire, wait_for_ready=True)
        eventually(lambda: open_to(port) <= 3)
    assert len(served.journal.entries) >= 12


def test_33_an_idle_connection_of_grpc_is_closed(serve: Serve, wire: bytes) -> None:
    served = serve(grpc={"keepalive": {"server_parameters": {"max_connection_idle": "200ms"}}})
    exports_after_idle(served, wire)
    assert len(served.journal.entries) == 2


def test_33_who_does_not_shake_hands_is_cut_off(serve: Serve, wire: bytes, tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("127.0.0.1")
    tls = {"cert_file": str(tmp_path / "cert.pem"), "key_file": str(tmp_path / "key.pem")}
    issued.cert_chain_pems[0].write_to_path(tls["cert_file"])
    issued.private_key_pem.write_to_path(tls["key_file"])
    bounded = {"tls": tls, "read_header_timeout": "300ms"}
    served = serve(grpc=bounded, http=bounded)
    for port in (served.http_port, int(served.grpc_address.rpartition(":")[2])):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            assert until_closed(connection) == b""


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)  # and no settings


@pytest.mark.skipif(sys.platform != "linux", reason="the sockets are found by /proc")
@pytest.mark.parametrize("start", [b"", b"PRI * HT", PREFACE], ids=["silent", "begun", "idle"])
def test_33_a_crowd_that_says_nothing_to_grpc_shuts_nobody_out(serve: Serve, wire: bytes, start: bytes) -> None:
    served = serve(grpc={"max_connections": 20, "read_header_timeout": "10m"})
    host, _, port = served.grpc_address.rpartition(":")
    with ExitStack() as stack:
        for _ in range(3):
            for _ in range(30):
                connection = stack.enter_context(socket.create_connection((host, int(port))))
                with suppress(OSError):  # the server was faster
                    connection.sendall(start)
            with grpc.insecure_channel(served.grpc_address) as channel:
                assert channel.unary_unary(EXPORT)(wire, wait_for_ready=True) == b""
        # Of each crowd some; beyond twice the bound gRPC itself lets nobody in.
        eventually(lambda: closed(served, transport="grpc", reason="too_many") >= 10)


@pytest.mark.skipif(sys.platform != "linux", reason="the sockets are found by /proc")
def test_33_whoever_waits_for_grpcs_answer_is_not_pushed_out(serve: Serve, wire: bytes) -> None:
    served = serve(grpc={"max_connections": 5})
    served.journal.hold = True
    host, _, port = served.grpc_address.rpartition(":")
    with ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(served.grpc_address))
        waiting = channel.unary_unary(EXPORT).future(wire)
        assert served.journal.appended.acquire()
        for _ in range(3):  # it is the most silent of all by then
            for _ in range(8):
                stack.enter_context(socket.create_connection((host, int(port))))
            eventually(lambda: open_to(int(port)) <= 5)
        served.loop.call_soon_threadsafe(served.journal.futures[0].set_result, 1)
        assert waiting.result() == b""


def open_to(port: int) -> int:
    """How many connections this process has open to its own `port`, at the server's end."""
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    return sum(1 for line in lines if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "01")
