import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from build import each, store_with
from build.commands import run, run_json
from build.judged_traces import AGENT_SPAN, evaluation, judged, spans, tool_call, trace_id
from tracegrade.cli import main
from tracegrade.codec.kept_spans import encode_spans


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    failed = tool_call(
        name="lookup",
        raw_name="lookup",
        error={"type": "TimeoutError", "message": "no answer"},
        output=None,
        output_status="absent",
        attempt=2,
        agent_span_id="ab" * 8,
    )
    store_with(
        tmp_path,
        judged(1, session="conversation-7"),
        judged(2, "fail", tool_calls=[tool_call(), failed], service="bank"),
        judged(3, complete=False, missing=["root"], close_reason="idle", cut_by="span_cap"),
    )
    return tmp_path


@each(
    ("options", "expected"),
    [
        ([], [3, 2, 1]),
        (["--limit", "1"], [3]),
        (["--service", "bank"], [2]),
        (["--outcome", "fail"], [2]),
        (["--rule", "unknown"], []),
        (["--agent", "support"], [3, 2, 1]),
        (["--since", "2026-01-01T00:02:00Z", "--until", "2026-01-01T00:03:00Z"], [2]),
    ],
)
def test_list_shows_what_the_options_choose_latest_first(
    data_dir: Path, options: list[str], expected: list[int]
) -> None:
    assert [int(item["trace_id"], 16) for item in run_json(data_dir, "traces", "list", *options)] == expected


def test_list_prints_documented_fields(data_dir: Path) -> None:
    (item,) = run_json(data_dir, "traces", "list", "--service", "bank")
    assert set(item) == {
        "trace_id", "tenant", "service", "session", "root_name", "close_reason", "complete", "cut_by", "revision",
        "span_count", "call_count", "start_ns", "end_ns", "first_received_ns", "not_decoded", "outcomes",
        "release", "cost", "prompt",
    }  # fmt: skip
    assert item["outcomes"] == {"fail": 1}


def test_list_is_a_table(data_dir: Path) -> None:
    output = run(data_dir, "traces", "list").stdout
    assert "idle, incomplete, cut" in output
    assert "1 ✗ fail" in output


def test_show_has_head_spans_calls_and_evaluations(data_dir: Path) -> None:
    output = run(data_dir, "traces", "show", trace_id(2)).stdout
    assert f"trace {trace_id(2)}\n  service bank 1.0, tenant default\n" in output
    assert "complete; closed: settled, revision 2" in output
    assert f"invoke_agent support  1 s  +0 ns  {AGENT_SPAN}\n└── execute_tool create_order" in output
    assert "✗ TimeoutError no answer" in output
    # Each call is the first of its agent run; where there is one run, one number is enough.
    assert " ".join(output.split()).count("in trace in run tool call") == 1
    assert re.search(r"^ *2 +1 +lookup \(attempt 2\)", output, re.MULTILINE)
    assert "in run" not in run(data_dir, "traces", "show", trace_id(1)).stdout
    assert '{"total":3}' in output
    assert "✗ fail  checkout-order/tool-call-order" in output


def test_show_says_what_an_incomplete_trace_lacks_and_what_cut_it(data_dir: Path) -> None:
    output = run(data_dir, "traces", "show", trace_id(3)).stdout
    assert "incomplete, missing root; closed: idle, revision 2, cut by span_cap" in output


def test_show_draws_spans_whose_parent_is_missing_and_circles(tmp_path: Path) -> None:
    root, child = spans(1)
    orphan = replace(child, span_id=b"o" * 8, parent_span_id=b"m" * 8, name="orphan")
    one = replace(child, span_id=b"1" * 8, parent_span_id=b"2" * 8, name="circle one")
    two = replace(child, span_id=b"2" * 8, parent_span_id=b"1" * 8, name="circle two")
    store_with(tmp_path, replace(judged(1), spans=encode_spans([root, orphan, one, two], [])))
    output = run(tmp_path, "traces", "show", trace_id(1)).stdout
    assert f"parent {(b'm' * 8).hex()} is missing" in output
    assert "circle one" in output
    assert "circle two" in output


def test_show_prints_everything_as_one_object(data_dir: Path) -> None:
    (item,) = run_json(data_dir, "traces", "show", trace_id(1))
    assert item["trace"]["session"] == "conversation-7"
    assert item["evaluations"] == [evaluation(1)]
    assert item["tool_calls"] == [tool_call()]
    assert [span["name"] for span in item["spans"]] == ["invoke_agent support", "execute_tool create_order"]
    assert item["spans"][0]["parent_span_id"] is None


def test_show_of_an_unknown_trace_ends_with_1(data_dir: Path) -> None:
    result = run(data_dir, "traces", "show", trace_id(77))
    assert result.exit_code == 1
    assert result.stderr == f"Trace {trace_id(77)} is not in the store; 'tracegrade why' says what may be the cause.\n"


def test_text_in_square_brackets_is_no_markup(tmp_path: Path) -> None:
    store_with(tmp_path, judged(1, service="[red]shop[/red]", tool_calls=[tool_call(name="[bold]x")]))
    output = run(tmp_path, "traces", "show", trace_id(1)).stdout
    assert "[red]shop[/red]" in output
    assert "[bold]x" in output


class TestExport:
    def test_what_is_written_is_read_again(self, data_dir: Path, tmp_path: Path) -> None:
        file = tmp_path / "traces.jsonl"
        assert run(data_dir, "traces", "export", trace_id(2), "-o", str(file)).exit_code == 0
        assert len(file.read_text().splitlines()) == 1
        said = CliRunner().invoke(main, ["extract", str(file), "--format", "json"]).output
        (extracted,) = map(json.loads, said.splitlines())
        assert extracted["trace_id"] == trace_id(2)
        assert [call["name"] for call in extracted["tool_calls"]] == ["create_order"]

    def test_without_ids_the_options_choose(self, data_dir: Path) -> None:
        lines = run(data_dir, "traces", "export", "--outcome", "fail").stdout.splitlines()
        assert [trace_id(2) in line for line in lines] == [True]
        assert len(run(data_dir, "traces", "export").stdout.splitlines()) == 3

    def test_a_trace_that_is_not_there_ends_with_1_and_the_others_are_written(self, data_dir: Path) -> None:
        result = run(data_dir, "traces", "export", trace_id(77), trace_id(1))
        assert result.exit_code == 1
        assert len(result.stdout.splitlines()) == 1
        assert f"Not in the store: {trace_id(77)}." in result.stderr


def test_what_has_no_end_is_shown_as_not_ended(tmp_path: Path) -> None:
    store_with(tmp_path, judged(1, end_ns=0, tool_calls=[tool_call(end_ns=0)]))
    assert "not ended" in run(tmp_path, "traces", "list").stdout
    shown = run(tmp_path, "traces", "show", trace_id(1)).stdout
    assert "UTC, not ended\n" in shown
    assert " s, " not in shown
    assert shown.count("not ended") == 2


def test_details_name_expected_calls_and_no_keys_of_programs(tmp_path: Path) -> None:
    details = {"explained_tool_calls_outputs": {"find_0": True, "find_1": "different"}}
    store_with(tmp_path, judged(1, evaluations=[evaluation(1, "fail", details=details)]))
    shown = run(tmp_path, "traces", "show", trace_id(1)).stdout
    assert "expected calls:" in shown
    assert "find (expected call 2): different" in shown
    assert "explained_tool_calls" not in shown
