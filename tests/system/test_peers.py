"""What the comparison with other servers counts and prints; no test measures time."""

import grpc
import pytest
from bench.agent_traces import SPANS_PER_TRACE, Stamper, marks, template
from bench.load import EXPORT
from bench.peers import Measured, counted, table
from bench.serving import BareServer

pytestmark = pytest.mark.long


def test_a_span_that_comes_twice_is_counted_as_one_that_arrived() -> None:
    stamper = Stamper([template(2)], marks(2), salt=1)
    first, second = stamper.next(), stamper.next()
    downstream = BareServer("count")
    with grpc.insecure_channel(f"127.0.0.1:{downstream.port}") as channel:
        for request in (first, first, second):
            channel.unary_unary(EXPORT)(request)

    assert counted(downstream) == (6 * SPANS_PER_TRACE, 4 * SPANS_PER_TRACE)


def test_ours_is_compared_round_by_round_with_those_that_forward() -> None:
    rows = {
        "tracegrade": Measured([40.0, 60.0], spans=10, forwarded=10),
        "bare": Measured([5.0, 5.0], spans=10),
        "groupbytrace": Measured([80.0, 60.0], spans=10, forwarded=9),
    }

    *_, last = lines = table(rows)

    assert last == (
        "TraceGrade takes 0.75 of Collector with groupbytrace and file queue (0.50, 1.00); the goal is 0.80 at most"
    )
    assert sum("TraceGrade takes" in line for line in lines) == 1  # the bare server does not forward
    assert "| 70.0 (60.0-80.0) | 0 | 90% |" in lines[4]


def test_a_server_that_failed_is_shown_with_the_reason_and_not_compared() -> None:
    rows = {
        "tracegrade": Measured([40.0], spans=10, forwarded=10),
        "rotel": Measured(failed="no network"),
    }

    lines = table(rows)

    assert "| rotel | not measured: no network |" in lines[3]
    assert not any("TraceGrade takes" in line for line in lines)
