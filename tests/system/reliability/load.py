"""Traces to send while something fails, and what became of them."""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build.otlp import agent_span, payload, tool_span
from build.served import TRACES, Downstream, Server
from waiting import eventually

SPANS_PER_TRACE = 4
TRACES_PER_REQUEST = 5


def order_trace(trace: int) -> list[object]:
    """An agent run that passes the demonstration rules: four evaluations."""
    first = trace * 10
    return [
        agent_span(trace, first),
        tool_span(trace, first + 1, first, "validate_user", '{"user_id": 123}'),
        tool_span(trace, first + 2, first, "check_inventory", '{"sku": "A-1", "qty": 2}'),
        tool_span(trace, first + 3, first, "create_order", '{"user_id": 123, "sku": "A-1", "qty": 2}'),
    ]


def request_of(traces: Iterable[int]) -> bytes:
    """One export request with these traces."""
    return payload([span for trace in traces for span in order_trace(trace)])


def send(server: Server, requests: int, first: int = 1) -> range:
    """Send so many requests, one after the other; the traces that were answered, which is all of them."""
    end = first + requests * TRACES_PER_REQUEST
    with grpc.insecure_channel(server.endpoints["grpc"]) as channel:
        export = channel.unary_unary(TRACES)
        for begin in range(first, end, TRACES_PER_REQUEST):
            export(request_of(range(begin, begin + TRACES_PER_REQUEST)))
    return range(first, end)


def arrived(downstream: Downstream) -> Counter[tuple[int, int]]:
    """(trace, span) -> how often it came downstream, own spans aside."""
    return Counter(
        (int.from_bytes(span.trace_id, "big"), int.from_bytes(span.span_id, "big"))
        for request in list(downstream.requests[TRACES])
        for rs in ExportTraceServiceRequest.FromString(request).resource_spans
        for scope in rs.scope_spans
        if scope.scope.name != "tracegrade"
        for span in scope.spans
    )


def lost_and_doubled(downstream: Downstream, traces: Iterable[int]) -> tuple[int, int]:
    """How many spans of `traces` never came downstream, and how many came more than once."""
    counts = arrived(downstream)
    expected = [(trace, trace * 10 + place) for trace in traces for place in range(SPANS_PER_TRACE)]
    return sum(key not in counts for key in expected), sum(counts[key] > 1 for key in expected)


def stored(server: Server) -> dict[int, tuple[int, int, int]]:
    """Trace -> its spans, its evaluations, and how many of those differ, as they are in the store."""
    try:
        with sqlite3.connect(f"file:{server.data}/tracegrade.db?mode=ro", uri=True) as store:
            rows = store.execute(
                "SELECT t.trace_id, t.span_count, count(*), count(DISTINCT e.place) FROM traces t "
                "JOIN evaluations e ON e.trace = t.number GROUP BY t.number"
            ).fetchall()
    except sqlite3.OperationalError:  # not made yet
        return {}
    return {int.from_bytes(trace_id, "big"): (spans, all_, distinct) for trace_id, spans, all_, distinct in rows}


def count_stored(server: Server) -> int:
    """How many traces are in the store."""
    try:
        with sqlite3.connect(f"file:{server.data}/tracegrade.db?mode=ro", uri=True) as store:
            found: int = store.execute("SELECT count(*) FROM traces").fetchone()[0]
            return found
    except sqlite3.OperationalError:  # not made yet
        return 0


def wait_until_stored(server: Server, traces: Iterable[int], within_s: float = 60.0) -> None:
    """Until every one of `traces` is stored whole, each of its evaluations once."""
    wanted = dict.fromkeys(traces, (SPANS_PER_TRACE, 4, 4))
    eventually(lambda: wanted.items() <= stored(server).items(), "all traces in the store", within_s=within_s)


def resident_mib(pid: int, peak: bool = False) -> float:
    """Resident memory of a process, now or at most so far."""
    name = "VmHWM" if peak else "VmRSS"
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)
