import csv
import json
from pathlib import Path

import pytest

from build import each, store_with
from build.commands import run, run_json
from build.judged_traces import evaluation, judged, tool_call, trace_id


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    bank = [evaluation(3, rule_id="refund-without-lookup", service="bank", agent="billing")]
    store_with(tmp_path, judged(1), judged(2, "fail"), judged(3, evaluations=bank, service="bank"), judged(4, "error"))
    return tmp_path


def listed(data_dir: Path, *options: str) -> list[int]:
    return [int(str(item["trace_id"]), 16) for item in run_json(data_dir, "results", "list", *options)]


@each(
    ("options", "expected"),
    [
        ([], [4, 3, 2, 1]),
        (["--limit", "2"], [4, 3]),
        (["--rule", "refund-without-lookup"], [3]),
        (["--outcome", "fail"], [2]),
        (["--service", "bank"], [3]),
        (["--agent", "support", "--outcome", "pass"], [1]),
        (["--trace-id", trace_id(2).upper()], [2]),
        (["--since", "2026-01-01T00:03:00Z"], [4, 3]),
        (["--until", "2026-01-01T00:02:00"], [1]),
        (["--since", "1h"], []),
    ],
)
def test_list_shows_what_the_options_choose_newest_first(
    data_dir: Path, options: list[str], expected: list[int]
) -> None:
    assert listed(data_dir, *options) == expected


def test_list_prints_the_documented_object_a_line(data_dir: Path) -> None:
    assert run_json(data_dir, "results", "list", "--outcome", "fail") == [evaluation(2, "fail")]


def test_list_is_a_table_that_reads_without_colour(data_dir: Path) -> None:
    output = run(data_dir, "results", "list").stdout
    assert "✗ fail" in output
    assert "✓ pass" in output
    assert trace_id(2) in output


def test_list_says_that_there_is_more(data_dir: Path) -> None:
    assert "--limit shows more" in run(data_dir, "results", "list", "--limit", "2").stderr
    assert run(data_dir, "results", "list", "--limit", "5").stderr == ""


def test_nothing_found_is_said_and_no_error(data_dir: Path) -> None:
    result = run(data_dir, "results", "list", "--rule", "unknown")
    assert (result.exit_code, result.stdout) == (0, "No such evaluations.\n")


def test_show_explains_every_evaluation_of_the_trace(data_dir: Path) -> None:
    output = run(data_dir, "results", "show", trace_id(2)).stdout
    assert "✗ fail  checkout-order/tool-call-order  score 0.25, threshold 0.9" in output
    assert "1 of 4 expected calls came in order." in output
    assert 'expected: ["validate_user"]' in output


def test_show_unfolds_details_and_leaves_out_empty_ones(tmp_path: Path) -> None:
    details = {"explained": {"create_order_0": "Actual: not called", "count": 2}, "differences": [], "nothing": {}}
    store_with(tmp_path, judged(1, evaluations=[evaluation(1, details=details)]))
    lines = run(tmp_path, "results", "show", trace_id(1)).stdout.splitlines()
    assert lines[2:] == ["    explained:", "      create_order_0: Actual: not called", "      count: 2", ""]


def test_show_of_a_trace_without_results_ends_with_1(data_dir: Path) -> None:
    result = run(data_dir, "results", "show", trace_id(77))
    assert result.exit_code == 1
    assert result.stderr == f"No evaluations of trace {trace_id(77)}; 'tracegrade why' says why.\n"
    assert run(data_dir, "results", "show", trace_id(1), "--rule", "other").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "xyz"], "'xyz': no stored trace or session has this id"),
        (["list", "--since", "yesterday"], "expected a time such as"),
        (["list", "--outcome", "bad"], "'bad' is not one of 'pass', 'fail', 'not_evaluable', 'error'"),
    ],
)
def test_wrong_usage_says_what_was_expected_and_ends_with_2(data_dir: Path, arguments: list[str], message: str) -> None:
    result = run(data_dir, "results", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_data_folder_without_a_store_ends_with_2(tmp_path: Path) -> None:
    result = run(tmp_path, "results", "list")
    assert result.exit_code == 2
    assert "no such store; 'tracegrade serve' makes it" in result.stderr


def test_the_settings_file_says_where_the_store_is(data_dir: Path) -> None:
    settings = data_dir / "config.yaml"
    settings.write_text(f"store: {{url: 'sqlite:///{data_dir}/tracegrade.db'}}\n")
    assert len(run_json(data_dir / "elsewhere", "results", "list", "-c", str(settings))) == 4


def test_a_wrong_settings_file_ends_with_2_and_its_line(data_dir: Path) -> None:
    settings = data_dir / "config.yaml"
    settings.write_text("stor: {}\n")
    result = run(data_dir, "results", "list", "-c", str(settings))
    assert result.exit_code == 2
    assert "config.yaml:1:1: stor: unknown key 'stor'" in result.stderr


def test_stats_counts_outcomes_and_gives_pass_rates(data_dir: Path) -> None:
    whole = [item for item in run_json(data_dir, "results", "stats") if not item["evaluation"]]
    assert [(item["rule_id"], item["passed"], item["failed"], item["errors"], item["pass_rate"]) for item in whole] == [
        ("checkout-order", 1, 1, 1, 0.5),
        ("refund-without-lookup", 1, 0, 0, 1.0),
    ]
    shown = run(data_dir, "results", "stats").stdout
    assert "50.0%" in shown
    assert len(shown.strip().splitlines()) == 2 + len(whole)  # a rule with one evaluation is one line


def test_values_that_orjson_cannot_write_are_printed_exactly(tmp_path: Path) -> None:
    big = evaluation(1, details={"found": 2**70})
    store_with(tmp_path, judged(1, evaluations=[big], tool_calls=[tool_call(arguments={"n": 2**70})]))
    assert run_json(tmp_path, "results", "list")[0]["details"] == {"found": 2**70}
    assert str(2**70) in run(tmp_path, "results", "show", trace_id(1)).stdout


class TestExport:
    def test_all_that_the_options_choose_a_line_each(self, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tracegrade.cli.results._EXPORTED_AT_A_TIME", 2)
        lines = run(data_dir, "results", "export").stdout.splitlines()
        assert [json.loads(line) for line in lines] == run_json(data_dir, "results", "list")
        assert len(lines) == 4
        assert run(data_dir, "results", "export", "--rule", "unknown").stdout == ""

    def test_csv_has_a_column_a_field(self, data_dir: Path, tmp_path: Path) -> None:
        file = tmp_path / "results.csv"
        assert run(data_dir, "results", "export", "--format", "csv", "-o", str(file)).exit_code == 0
        with file.open(newline="") as opened:
            rows = list(csv.DictReader(opened))
        assert [row["outcome"] for row in rows] == ["error", "pass", "fail", "pass"]
        (found,) = (row for row in rows if row["outcome"] == "fail")
        full = evaluation(2, "fail")
        assert (found["subject_kind"], found["subject_id"]) == (full["subject"]["kind"], full["subject"]["id"])
        assert json.loads(found["details"]) == full["details"]
        assert float(found["score"]) == full["score"]


def test_stats_tell_tenants_apart_where_there_are_several(tmp_path: Path) -> None:
    store_with(tmp_path, judged(1), judged(2, "fail", tenant="shop"))
    heading, _, *rows = run(tmp_path, "results", "stats").stdout.strip().splitlines()
    assert heading.split()[0] == "tenant"
    assert {row.split()[0] for row in rows if row.strip()} == {"default", "shop"}
    assert "tenant" not in run(tmp_path, "results", "stats", "--tenant", "shop").stdout
