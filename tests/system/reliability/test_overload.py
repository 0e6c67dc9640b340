"""More than it can take: every refusal can be retried, memory stays bounded, and what it can take is taken."""

import http.client
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from reliability.conftest import Report
from reliability.load import request_of, resident_mib, send, stored, wait_until_stored
from reliability.table import Row
from reliability.test_disk import health, until_answered

from build.otlp import agent_span, otlp_span, payload, tool_span
from build.served import TRACES, Server, served
from waiting import eventually

# Room for two of the largest requests at a time: so that few senders are too many.
RECEIVERS = {
    "otlp": {
        "protocols": {
            "grpc": {"endpoint": "127.0.0.1:0", "max_recv_msg_size_mib": 1},
            "http": {"endpoint": "127.0.0.1:0", "max_request_body_size_mib": 1},
        },
        "max_in_flight_mib": 2,
    }
}
REQUEST = request_of(range(1, 201))  # 800 spans


class Senders:
    """So many at a time, each with a connection of its own, sending without a pause until it is enough."""

    def __init__(self, server: Server, number: int, is_enough: Callable[[Counter[str]], bool]) -> None:
        self.answers: Counter[str] = Counter()
        self.not_retryable: list[str] = []
        self._is_enough = is_enough
        begun_s = time.monotonic()
        threads = [threading.Thread(target=self._send, args=(server.endpoints["grpc"],)) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.goodput = self.answers["OK"] / (time.monotonic() - begun_s)

    def _send(self, endpoint: str) -> None:
        with grpc.insecure_channel(endpoint, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            export = channel.unary_unary(TRACES)
            while not self._is_enough(self.answers):
                try:
                    export(REQUEST)
                    self.answers["OK"] += 1
                except grpc.RpcError as error:
                    self.answers[error.code().name] += 1
                    if not says_when_to_come_back(error):
                        self.not_retryable.append(str(error))
                    time.sleep(0.05)


def lasting(seconds: float) -> Callable[[object], bool]:
    """Enough after so many seconds from now."""
    until_s = time.monotonic() + seconds
    return lambda _: time.monotonic() >= until_s


def says_when_to_come_back(error: grpc.RpcError) -> bool:
    """Unavailable, for one second or two, in both trailers."""
    trailers = dict(error.trailing_metadata() or ())
    info = RetryInfo()
    details = Status.FromString(trailers.get("grpc-status-details-bin", b"")).details
    return (
        error.code() is grpc.StatusCode.UNAVAILABLE
        and len(details) == 1
        and details[0].Unpack(info)
        and 1 <= info.retry_delay.seconds <= 2
        and trailers.get("google.rpc.retryinfo-bin") == info.SerializeToString()
    )


SLOW_SECONDS = 4
SLOW_STARTS = (b"", b"POST /v1/traces HTTP/1.1\r\nHost: x\r\n", b"\r\n")
SLOW_CONNECTIONS = 3000  # three times as many as are allowed over HTTP, and a third more of them over gRPC


@pytest.mark.long
def test_a_crowd_of_connections_that_say_nothing(tmp_path: Path, report: Report) -> None:
    timeout = {"read_header_timeout": f"{SLOW_SECONDS}s"}
    protocols = {name: {"endpoint": "127.0.0.1:0", **timeout} for name in ("grpc", "http")}
    with (
        served(tmp_path, receivers={"otlp": {"protocols": protocols}}, rules={"paths": []}) as server,
        ExitStack() as stack,
    ):
        assert server.process is not None
        before_mib = resident_mib(server.process.pid)
        begun_s = time.monotonic()
        crowd: list[socket.socket] = []
        for number in range(SLOW_CONNECTIONS):
            crowd.append(stack.enter_context(socket.create_connection(address(server, "http"))))
            crowd[-1].sendall(SLOW_STARTS[number % 3])
            if number % 3 == 0:
                crowd.append(stack.enter_context(socket.create_connection(address(server, "grpc"))))
        for _ in range(200):  # the page of metrics and health has bounds of its own
            crowd.append(stack.enter_context(socket.create_connection(address(server, "telemetry"))))
        assert health(server) == "ok"
        for connection in crowd[-200:]:
            connection.close()
        del crowd[-200:]
        slowest_s = 0.0
        for trace in range(1, 51):
            asked_s = time.monotonic()
            assert by_http(server, request_of([trace])) == 200
            slowest_s = max(slowest_s, time.monotonic() - asked_s)
        assert until_answered(server, request_of([100])) < 10  # by gRPC, which refuses while there are too many
        grown_mib = resident_mib(server.process.pid) - before_mib
        for connection in crowd:
            connection.settimeout(None)
            with suppress(ConnectionResetError):
                while connection.recv(4096):  # gRPC says hello, and good-bye
                    pass
        took_s = time.monotonic() - begun_s
        assert slowest_s < 5
        assert grown_mib < 128
        seen = f"{len(crowd):,} connections, all closed in {took_s:.0f} s; good senders answered in {slowest_s:.2f} s, "
        report(Row("connections that say nothing", len(crowd), 0, 0, seen=f"{seen}{grown_mib:+.0f} MiB"))


def address(server: Server, protocol: str) -> tuple[str, int]:
    host, _, port = server.endpoints[protocol].rpartition(":")
    return host, int(port)


def by_http(server: Server, request: bytes) -> int:
    """The status of one request over a connection of its own."""
    connection = http.client.HTTPConnection(*address(server, "http"))
    try:
        connection.request("POST", "/v1/traces", request, {"Content-Type": "application/x-protobuf"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_overload_is_refused_and_bounded(tmp_path: Path) -> None:
    """Promise 12 without a measurement: what the one at full size asks of a machine that has nothing else to do."""
    with served(tmp_path, receivers=RECEIVERS, rules={"paths": []}) as server:
        assert server.process is not None
        before_mib = resident_mib(server.process.pid, peak=True)
        many = Senders(server, 40, lambda answers: answers["OK"] > 0 and answers["UNAVAILABLE"] > 40)
        assert set(many.answers) == {"OK", "UNAVAILABLE"}, many.answers
        assert many.not_retryable == []
        assert resident_mib(server.process.pid, peak=True) - before_mib < 128
        page, requests = server.page(), "tracegrade_receiver_requests_total"
        assert server.metric(requests, "receive", page=page, outcome="accepted") == many.answers["OK"]
        assert server.metric(requests, "receive", page=page, outcome="refused") == many.answers["UNAVAILABLE"]


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_times_as_many_senders_as_it_can_take(tmp_path: Path, is_full_size: bool, report: Report) -> None:
    seconds, seconds_alone = (1800.0, 60.0) if is_full_size else (6.0, 3.0)
    with served(tmp_path, receivers=RECEIVERS, rules={"paths": []}, journal={"max_size_mib": 4096}) as server:
        assert server.process is not None
        first = Senders(server, 4, lasting(3.0))
        before_mib = resident_mib(server.process.pid, peak=True)
        # On a busy machine the senders themselves may be slow: the load becomes an overload later.
        is_over = lasting(seconds)
        many = Senders(server, 40, lambda answers: is_over(answers) and answers["UNAVAILABLE"] > 0)
        grown_mib = resident_mib(server.process.pid, peak=True) - before_mib
        # After it, when the journal is as full and the judge as far behind: what can be taken for long, not at first.
        alone = Senders(server, 4, lasting(seconds_alone))
        refused = many.answers["UNAVAILABLE"]
        assert set(many.answers) <= {"OK", "UNAVAILABLE"}, many.answers
        assert many.not_retryable == []
        assert grown_mib < 128
        share = many.goodput / alone.goodput
        assert share > 0.5  # 0.9 on a quiet machine; the senders share its cores
        senders = (first, many, alone)
        accepted = sum(some.answers["OK"] for some in senders)
        page, requests = server.page(), "tracegrade_receiver_requests_total"
        assert server.metric(requests, "receive", page=page, outcome="accepted") == accepted
        refused_in_all = sum(some.answers["UNAVAILABLE"] for some in senders)
        assert server.metric(requests, "receive", page=page, outcome="refused") == refused_in_all
        seen = f"goodput {share:.0%} of that of 4 senders, {grown_mib:+.0f} MiB; {refused:,} refused, all retryable"
        report(Row(f"40 senders without a pause, {seconds:.0f} s", sum(many.answers.values()), 0, 0, seen=seen))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_one_giant_trace(tmp_path: Path, is_full_size: bool, report: Report) -> None:
    spans, together = (1_000_000 if is_full_size else 200_000), 5_000
    with served(tmp_path) as server:
        judge = server.judge_pid
        beside = send(server, 2)
        wait_until_stored(server, beside)
        before_mib = resident_mib(judge, peak=True)
        with grpc.insecure_channel(server.endpoints["grpc"]) as channel:
            export = channel.unary_unary(TRACES)
            for begin in range(1, spans, together):
                some = [otlp_span(7777, number, 999_999_999) for number in range(begin, begin + together)]
                export(payload(some))
        begun_s = time.monotonic()
        after = send(server, 2, 8000)
        wait_until_stored(server, after, 300)
        took_s = time.monotonic() - begun_s
        expected = spans + 4 * (len(beside) + len(after))

        def dropped() -> float | None:
            page = server.page()
            count = server.metric("tracegrade_spans_total", "judge", page=page, fate="dropped", reason="span_cap")
            judged = server.metric("tracegrade_spans_total", "judge", page=page, fate="judged")
            return count if count + judged == expected else None

        count = eventually(dropped, "every span's disposition", 60)
        grown_mib = resident_mib(judge, peak=True) - before_mib
        assert count > spans / 2
        assert grown_mib < 768
        seen = f"judged up to the cap, {count:,.0f} counted as dropped: span_cap; judge {grown_mib:+.0f} MiB"
        report(Row(f"one trace of {spans:,} spans", 1, 0, 0, took_s, seen))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_tiny_traces(tmp_path: Path, is_full_size: bool, report: Report) -> None:
    traces, together = (1_000_000 if is_full_size else 20_000), 1_000
    with served(tmp_path, journal={"max_size_mib": 4096}) as server:
        judge = server.judge_pid
        begun_s = time.monotonic()
        with grpc.insecure_channel(server.endpoints["grpc"]) as channel:
            export = channel.unary_unary(TRACES)
            for begin in range(1, traces, together):
                export(payload([otlp_span(number, number) for number in range(begin, begin + together)]))
        wait_until_judged(server, traces, 1200)
        took_s = time.monotonic() - begun_s
        peak_mib = resident_mib(judge, peak=True)
        assert peak_mib < 2048
        report(Row(f"{traces:,} traces of one span", 1, 0, 0, took_s, f"judge at most {peak_mib:.0f} MiB"))


@pytest.mark.long
def test_a_trace_that_never_ends(tmp_path: Path, report: Report) -> None:
    with served(tmp_path, traces={"settle": "2s", "idle_timeout": "2s", "max_age": "2s"}) as server:
        with grpc.insecure_channel(server.endpoints["grpc"]) as channel:
            export = channel.unary_unary(TRACES)
            export(payload([agent_span(1, 1)]))
            sent = 1
            until_s = time.monotonic() + 6.0
            while time.monotonic() < until_s:
                sent += 1
                export(payload([tool_span(1, sent, 1, "find")]))
                time.sleep(0.05)
        wait_until_judged(server, sent)
        closed = server.metric("tracegrade_traces_closed_total", "judge", close_reason="max_age")
        assert closed >= 2
        eventually(lambda: 1 in stored(server) and stored(server)[1][0] == sent, "the last revision in the store")
        report(
            Row("a trace that never ends", 1, 0, 0, seen=f"judged {closed:.0f} times by max_age, last with all spans")
        )


def wait_until_judged(server: Server, spans: int, within_s: float = 60.0) -> None:
    """Until so many spans were judged."""
    eventually(
        lambda: server.metric("tracegrade_spans_total", "judge", fate="judged") == spans, "every span judged", within_s
    )
