"""A framework that no dialect reads is noticed: on /metrics, and by doctor beside the running server."""

import json
from pathlib import Path

import pytest

from build.otlp import otlp_span, payload
from build.served import export, served
from waiting import eventually

pytestmark = pytest.mark.long

UNREAD, SILENT = "tracegrade_extract_unread_tool_spans_total", "tracegrade_extract_silent_traces_total"


def test_a_framework_that_nobody_reads_is_counted_and_named(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        model = otlp_span(1, 1, gen_ai__operation__name="chat")
        export(
            server.endpoints["grpc"], payload([model, otlp_span(1, 2, 1, acme__tool="what was found", acme__args="{}")])
        )
        eventually(lambda: server.metric(UNREAD, "judge", service="demo-shop", scope="") == 1, "the unread span")
        assert server.metric(SILENT, "judge", service="demo-shop") == 1

        def findings() -> dict[str, dict[str, object]] | None:
            done = server.cli("doctor", "-c", str(server.config), "--format", "json")
            found = {line["check"]: line for line in map(json.loads, done.stdout.splitlines())}
            if "unread spans" not in found:  # not in the store yet
                return None
            assert done.exit_code == 1, done.stderr
            return found

        found = eventually(findings, "the stored trace")
        assert found["judge"]["found"] == "running"
        assert found["unread spans"]["evidence"]["attribute_keys"] == ["acme.args", "acme.tool"]
        assert found["arrivals"]["evidence"]["traces"] == 1
