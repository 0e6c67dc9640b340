import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from build import each
from build.otlp import log_payload, log_records_of, logged_trace, payload, spans_of
from tracegrade.cli import main


def _attributes(**values: str) -> list[dict[str, Any]]:
    return [{"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in values.items()]


def _request(trace: int, number: int, parent: int | None, attributes: list[dict[str, Any]]) -> str:
    span = {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        "name": "span",
        "kind": 1,
        "startTimeUnixNano": str(1000 * trace + number),
        "endTimeUnixNano": str(1000 * trace + number + 1),
        "attributes": attributes,
    }
    if parent is not None:
        span["parentSpanId"] = f"{parent:016x}"
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "t"}, "spans": [span]}]}]})


AGENT = _attributes(gen_ai__operation__name="invoke_agent", gen_ai__agent__name="shop", gen_ai__conversation__id="s-1")
CALL = _attributes(
    gen_ai__operation__name="execute_tool",
    gen_ai__tool__name="order",
    gen_ai__tool__call__id="c1",
    gen_ai__tool__call__arguments='{"sku": "A", "n": 12345678901234567890123}',
    error__type="OutOfStock",
)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["extract", *arguments], catch_exceptions=False)


def test_a_trace_spread_over_files_is_one_json_object(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(_request(1, 1, None, AGENT) + "\n" + _request(2, 1, None, AGENT) + "\n")
    (tmp_path / "a.jsonl").write_text(_request(1, 2, 1, CALL) + "\n")
    result = _run("--format", "json", str(tmp_path))
    assert result.exit_code == 0
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert {key: first[key] for key in ("trace_id", "session", "agents")} == {
        "trace_id": f"{1:032x}",
        "session": "s-1",
        "agents": ["shop"],
    }
    (call,) = first["tool_calls"]
    documented = (
        ("name", "order"),
        ("arguments", {"sku": "A", "n": 12345678901234567890123}),
        ("arguments_status", "ok"),
        ("output", None),
        ("output_status", "absent"),
        ("error", {"type": "OutOfStock", "message": ""}),
        ("call_id", "c1"),
        ("agent", "shop"),
        ("span_id", f"{2:016x}"),
        ("batch", 0),
    )
    assert tuple(call.items())[: len(documented)] == documented
    assert second["tool_calls"] == []


def test_the_table_has_a_row_a_call(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(_request(1, 2, None, CALL))
    result = _run(str(path))
    assert result.exit_code == 0
    assert "1 tool call in 1 trace" in result.stdout
    assert all(text in result.stdout for text in ("order", '"sku":"A"', "(absent)", "OutOfStock", "gen_ai span"))


def test_traces_without_calls_are_said_to_have_none(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(_request(1, 1, None, AGENT))
    assert _run(str(path)).stdout == "no tool calls in 1 trace\n"


def test_a_tool_that_comes_under_another_name_is_shown_by_both(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(_request(1, 2, None, CALL))
    (tmp_path / "config.yaml").write_text("traces: {tool_aliases: {place_order: [ord*]}}")
    with_settings = (str(tmp_path / "trace.json"), "-c", str(tmp_path / "config.yaml"))
    (call,) = json.loads(_run(*with_settings, "--format", "json").stdout)["tool_calls"]
    assert (call["name"], call["raw_name"]) == ("place_order", "order")
    assert "place_order (came as order)" in _run(*with_settings).stdout


SHAPED = _attributes(acme__kind="tool", acme__tool__name="find", acme__input="{}", acme__output="1")


@each(
    ("traces", "calls", "unread"),
    [("{}", ["order", "find"], 0), ("{read_by_shape: false}", ["order"], 1), ("{ignore_scopes: [t]}", [], 0)],
)
def test_files_are_read_as_the_settings_say(tmp_path: Path, traces: str, calls: list[str], unread: int) -> None:
    (tmp_path / "trace.json").write_text("\n".join([_request(1, 2, None, CALL), _request(1, 3, 2, SHAPED)]))
    (tmp_path / "config.yaml").write_text(f"traces: {traces}")
    done = _run(str(tmp_path / "trace.json"), "-c", str(tmp_path / "config.yaml"), "--format", "json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [call["name"] for row in rows for call in row["tool_calls"]] == calls
    assert sum(len(row["unread_tool_spans"]) for row in rows) == unread


def test_spans_of_an_unknown_framework_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(_request(1, 2, None, _attributes(acme__tool="find", acme__args="{}")))
    assert _run(str(path)).stdout.splitlines() == [
        "no tool calls in 1 trace",
        "Span 0000000000000002 'span' of scope 't' was not read: it looks like a tool call, and no dialect reads it; "
        "attributes: acme.args, acme.tool; switch the sender to the GenAI conventions, or write a dialect "
        "(docs/extend/dialect.md).",
    ]
    (row,) = map(json.loads, _run(str(path), "--format", "json").stdout.splitlines())
    assert row["unread_tool_spans"] == [f"{2:016x}"]
    assert [(span["span_id"], span["keys"]) for span in row["unread"]] == [(f"{2:016x}", ["acme.args", "acme.tool"])]


def test_a_source_that_is_missing_is_named(tmp_path: Path) -> None:
    result = _run(str(tmp_path / "none.json"))
    assert result.exit_code == 2
    assert "none.json" in result.stderr


def test_a_trace_may_be_spread_over_traces_and_logs_in_any_order(tmp_path: Path) -> None:
    contents = logged_trace(1)
    (tmp_path / "traces.binpb").write_bytes(payload(spans_of(contents)))
    (tmp_path / "logs.binpb").write_bytes(log_payload(log_records_of(contents)))
    files = [str(tmp_path / name) for name in ("logs.binpb", "traces.binpb")]
    result = _run("--format", "json", *files)
    assert result.exit_code == 0
    calls = json.loads(result.stdout)["tool_calls"]
    assert [(call["name"], call["read_from"]) for call in calls] == [
        ("validate_user", "message"),
        ("check_inventory", "message"),
        ("create_order", "message"),
    ]
    assert _run("--format", "json", *reversed(files)).stdout == result.stdout


def test_log_records_without_spans_are_no_trace(tmp_path: Path) -> None:
    (tmp_path / "logs.binpb").write_bytes(log_payload(log_records_of(logged_trace(1))))
    result = _run("--format", "json", str(tmp_path))
    assert (result.exit_code, result.stdout) == (0, "")


def test_what_is_left_of_redacted_values_is_shown_as_such(tmp_path: Path) -> None:
    call = _attributes(
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="mail",
        gen_ai__tool__call__arguments='{"to": "[redacted:email]"}',
        gen_ai__tool__call__result="[redacted]",
        tracegrade__redacted="{}",
    )
    (tmp_path / "a.jsonl").write_text(_request(1, 1, None, call) + "\n")
    shown = _run(str(tmp_path)).stdout
    assert '(redacted) {"to":"[redacted:email]"}' in shown.replace(": ", ":")
    assert shown.count("(redacted)") == 2
