from dataclasses import replace
from pathlib import Path

import pytest

from cli.stored import run, run_json, store
from store.judged_traces import AGENT_SPAN, evaluation, judged, spans, tool_call, trace_id
from tracegrade.store.kept_spans import encode_spans


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    failed = tool_call(
        name="lookup",
        raw_name="lookup",
        error={"type": "TimeoutError", "message": "no answer"},
        output=None,
        output_status="absent",
        attempt=2,
    )
    store(
        tmp_path,
        judged(1, session="conversation-7"),
        judged(2, "fail", tool_calls=[tool_call(), failed], service="bank"),
        judged(3, complete=False, missing=["root"], close_reason="idle", cut_by="span_cap"),
    )
    return tmp_path


@pytest.mark.parametrize(
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
        "span_count", "call_count", "start_ns", "end_ns", "first_received_ns", "outcomes",
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
    assert "lookup (attempt 2)" in output
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
    record = judged(1)
    record.spans = encode_spans([root, orphan, one, two], [])
    store(tmp_path, record)
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
    store(tmp_path, judged(1, service="[red]shop[/red]", tool_calls=[tool_call(name="[bold]x")]))
    output = run(tmp_path, "traces", "show", trace_id(1)).stdout
    assert "[red]shop[/red]" in output
    assert "[bold]x" in output
