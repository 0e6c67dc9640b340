import time
from dataclasses import replace
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from build import store_with
from build.commands import run, run_json
from build.judged_traces import evaluation, judged, spans, trace_id
from build.otlp import agent_span, otlp_span, payload, tool_span
from tracegrade.codec.kept_spans import encode_spans
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.record import Encoding, Entry, Signal
from tracegrade.model.trace_result import TraceResult

RULE = "id: fine\nevaluate:\n  - {evaluator: tool-call-order, tool_calls_order: [create_order]}\n"


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "fine.rule.yaml"
    path.write_text(RULE.replace("fine", "checkout-order"))
    return str(path)


def journal_of(folder: Path, *spans: object) -> LocalJournal:
    """A journal with one record of `spans`, still open as that of a running serve."""
    journal = LocalJournal.open(folder / "journal")
    journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", len(spans), payload(spans))).result()
    return journal


def test_a_sound_installation_ends_with_0(tmp_path: Path, rules: str) -> None:
    store_with(tmp_path, judged(1), judged(2))
    journal = journal_of(tmp_path, agent_span(1, 1), tool_span(1, 2, 1, "create_order"))
    result = run(tmp_path, "doctor", "--rules", rules)
    journal.close()
    assert result.exit_code == 0, result.output
    assert "Looked at all 2 stored traces, 0 sessions, 2 spans of the journal" in result.stdout
    assert "✓  arrivals" in result.stdout
    assert "✓  rules" in result.stdout


def test_where_nothing_is_there_it_says_so_and_ends_with_3(tmp_path: Path) -> None:
    store_with(tmp_path, judged(1))
    journal_of(tmp_path, agent_span(1, 1)).close()
    result = run(tmp_path, "doctor", "--tenant", "nobody")
    assert result.exit_code == 3
    assert result.stdout == (
        "Looked at 0 stored traces, 0 sessions, 0 spans of the journal: there is nothing yet to find anything in\n"
    )


def test_what_is_wrong_ends_with_1_and_comes_first(tmp_path: Path) -> None:
    store_with(tmp_path, judged(1, complete=False, missing=["root"]))
    journal = journal_of(tmp_path, otlp_span(1, 1))
    journal.close()
    (tmp_path / "config.yaml").write_text("rules: {paths: []}")
    result = run(tmp_path, "doctor", "--format", "json", "-c", str(tmp_path / "config.yaml"))
    assert result.exit_code == 1
    found = [line for line in result.stdout.splitlines() if '"warning"' in line]
    assert any('"check":"incomplete"' in line for line in found)
    assert any('"check":"rules"' in line for line in found)
    assert result.stdout.startswith(found[0])
    for fail_on, code in {"error": 0, "warning": 1, "note": 1, "never": 0}.items():
        asked = run(tmp_path, "doctor", "--fail-on", fail_on, "-c", str(tmp_path / "config.yaml"))
        assert asked.exit_code == code, fail_on


def test_the_fields_of_a_finding_are_those_documented(tmp_path: Path, rules: str) -> None:
    store_with(tmp_path, judged(1))
    journal_of(tmp_path, otlp_span(1, 1)).close()
    page = (Path(__file__).parents[2] / "docs" / "reference" / "results.md").read_text(encoding="utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith("| `doctor` |"))
    for finding in run_json(tmp_path, "doctor", "--rules", rules):
        assert list(finding) == ["check", "level", "where", "found", "advice", "evidence"]
        assert all(f"`{name}`" in row for name in finding)


def test_spans_without_stored_traces_ask_for_the_judge(tmp_path: Path) -> None:
    journal_of(tmp_path, otlp_span(1, 1)).close()
    result = run(tmp_path, "doctor")
    assert result.exit_code == 1
    assert "✗  store" in result.stdout


@pytest.mark.parametrize(("sender", "level"), [("qwen-code", "warning"), ("shop", "note")])
def test_log_records_of_tool_calls_that_name_no_span_are_named_with_their_sender(
    tmp_path: Path, sender: str, level: str
) -> None:
    store_with(tmp_path, judged(1))  # a tool call of the service shop
    request = ExportLogsServiceRequest()
    resource_logs = request.resource_logs.add()
    resource_logs.resource.attributes.add(key="service.name").value.string_value = sender
    resource_logs.scope_logs.add(log_records=[LogRecord(event_name="acme.tool_call")])
    journal = LocalJournal.open(tmp_path / "journal")
    journal.append(Entry(Signal.LOGS, Encoding.PROTOBUF, "default", 1, request.SerializeToString())).result()
    journal.close()
    findings = run_json(tmp_path, "doctor", "--fail-on", "never")
    (found,) = [finding for finding in findings if finding["check"] == "unread log records"]
    assert (found["level"], found["where"]) == (level, sender)
    assert found["found"] == (
        "1 log record of tool calls without a trace id, such as 'acme.tool_call': no call is read from such records"
    )
    assert found["evidence"] == {"log_records": 1, "lacks": "trace id", "event_names": ["acme.tool_call"]}


def test_nothing_to_look_at_ends_with_3_and_makes_nothing(tmp_path: Path) -> None:
    result = run(tmp_path / "none", "doctor")
    assert result.exit_code == 3
    assert "there is no such data folder" in result.stdout
    assert not (tmp_path / "none").exists()


def test_wrong_settings_end_with_2(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("traces: {settel: 1s}\n")
    result = run(tmp_path, "doctor", "-c", str(tmp_path / "config.yaml"))
    assert result.exit_code == 2
    assert "did you mean 'settle'" in result.stderr


def test_rules_that_judged_sessions_are_not_said_to_be_idle(tmp_path: Path) -> None:
    item = evaluation(2, rule_id="of-sessions", subject={"kind": "session", "id": "chat"}, session="chat")
    store_with(
        tmp_path, judged(1), judged(2, session="chat", members={bytes.fromhex(trace_id(1)): 2}, evaluations=[item])
    )
    path = tmp_path / "of-sessions.rule.yaml"
    path.write_text(RULE.replace("fine", "of-sessions").replace("evaluate:", "scope: session\nevaluate:"))
    journal_of(tmp_path, otlp_span(1, 1)).close()
    result = run(tmp_path, "doctor", "--rules", str(path))
    assert "Looked at the only stored trace, 1 session" in result.stdout
    assert "all 1 rules judged something in 1 trace and 1 session" in " ".join(result.stdout.split())


def test_senders_that_are_rare_among_many_traces_are_looked_at(tmp_path: Path) -> None:
    now_ns = time.time_ns()

    def of(number: int, agent: str, service: str = "shop") -> TraceResult:
        kept = spans(number, service)
        kept[0].attributes["gen_ai.agent.name"] = agent
        if service == "mute" or agent == "nobody's":
            kept[1] = replace(kept[1], attributes={}, unread_keys=("acme.tool",))
        times = {"first_received_ns": now_ns, "last_received_ns": now_ns}
        is_judged = service == "shop" and agent != "nobody's"
        made = [evaluation(number, service=service, agent=agent)] if is_judged else []
        return replace(judged(number, service=service, evaluations=made, **times), spans=encode_spans(kept, []))

    busy = [of(number, "busy") for number in range(10, 40)]
    store_with(tmp_path, of(1, "rare"), of(2, "", service="mute"), of(3, "nobody's"), *busy)
    journal_of(tmp_path, otlp_span(1, 1)).close()
    found = run(tmp_path, "doctor", "--traces", "25").stdout
    assert found.startswith("Looked at the newest 25 stored traces (since 20")
    assert " UTC), 2 more of services and agents that have few among them, 1 more that no rule judged, 0 ses" in found
    asked = ("doctor", "--fail-on", "never", "--traces")
    findings = {(finding["check"], finding["where"]): finding for finding in run_json(tmp_path, *asked, "25")}
    assert ("unread spans", "mute, scope s") in findings
    assert ("unread spans", "shop, scope s") in findings
    assert findings["looked at", ""]["evidence"] == {"traces": 28, "sessions": 0, "journal_spans": 1}
    (left_out, _) = (found for found in run_json(tmp_path, *asked, "1") if found["check"] == "looked at")
    assert left_out["level"] == "note"
    assert left_out["found"].startswith("3 senders (services and agents) of the last 7 days with few traces among the")
    assert left_out["found"].endswith("not looked at: shop, busy, rare")
