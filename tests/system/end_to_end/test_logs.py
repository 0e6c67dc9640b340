"""Content in log events, over the receivers: joined to its spans whenever it comes."""

import json
from collections import Counter
from pathlib import Path

import pytest

from build.harness import NS_PER_S
from build.otlp import log_payload, log_records_of, logged_trace, otlp_log, payload, spans_of
from build.served import LOGS, Server, export, served
from waiting import eventually

pytestmark = pytest.mark.long

BEFORE, BESIDE, LATE, AFTER_A_RESTART = range(1, 5)


def test_log_events_are_joined_whenever_they_come(tmp_path: Path) -> None:
    with served(tmp_path, traces={"settle": "300ms", "idle_timeout": "1s"}) as server:
        send_logs(server, BEFORE)
        eventually(lambda: server.metric("tracegrade_log_records_open", "judge") > 0, "log events that wait")
        send_spans(server, BEFORE, BESIDE, LATE, AFTER_A_RESTART)
        send_logs(server, BESIDE)
        eventually(lambda: with_content(server) == {BEFORE, BESIDE}, "two traces with their content")
        eventually(lambda: server.metric("tracegrade_traces_open", "judge") == 0, "all traces closed")

        send_logs(server, LATE)
        eventually(lambda: LATE in with_content(server), "a higher revision with its content")

        assert server.stop() == 0
        server.start()
        send_logs(server, AFTER_A_RESTART, LATE)
        eventually(lambda: AFTER_A_RESTART in with_content(server), "a trace that was opened again after a restart")
        eventually(lambda: server.metric("tracegrade_log_records_open", "judge") == 0, "nothing open")

        assert with_content(server) == {BEFORE, BESIDE, LATE, AFTER_A_RESTART}
        assert server.canonical("results", "list") == server.canonical("replay")
        sent = len(log_records_of(logged_trace(LATE)))
        expected = {"joined": sent - 1, "unjoined": 1, "duplicate": sent, "unwanted": 2, "own": 2}
        assert sum(expected.values()) == 2 * (sent + 2)
        page = eventually(lambda: page_that_counts(server, sum(expected.values())), "all log events to be counted")
        dispositions = {
            fate: server.metric("tracegrade_log_records_total", "judge", page=page, fate=fate) for fate in expected
        }
        assert dispositions == expected


def page_that_counts(server: Server, read: int) -> str:
    """The metrics page, once the judge's snapshot on it tells of so many log records."""
    page = server.page()
    return page if server.metric("tracegrade_log_records_read_total", "judge", page=page) == read else ""


def send_spans(server: Server, *traces: int) -> None:
    """The spans of agent runs whose calls are in log events."""
    export(server.endpoints["grpc"], payload([span for n in traces for span in spans_of(logged_trace(n))]))


def send_logs(server: Server, *traces: int) -> None:
    """Their log events, each beside a log record that nobody reads and one of our own."""
    for trace in traces:
        noise = otlp_log(trace, 2, "app.started", time=NS_PER_S)
        logs = log_records_of(logged_trace(trace))
        export(server.endpoints["grpc"], log_payload([*logs, noise]), method=LOGS)
        export(server.endpoints["grpc"], log_payload(logs[:1], scope="tracegrade"), method=LOGS)


def with_content(server: Server) -> set[int]:
    """The traces of which all four evaluations passed: without log events there are no calls to judge."""
    passed = [json.loads(line)["trace_id"] for line in server.canonical("results", "list", "--outcome", "pass")]
    return {int(trace, 16) for trace, count in Counter(passed).items() if count == 4}
