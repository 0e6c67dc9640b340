"""Both sides judged again, by rules that are new or changed since."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from build import store_with
from build.commands import run
from build.judged_traces import evaluation, judged, spans
from tracegrade.assemble.settings import TracesSettings
from tracegrade.codec.kept_spans import decode_spans, encode_spans
from tracegrade.model.span import Resource
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.record_judge import attribute_filter_for
from tracegrade.rule.load import load_rules

SIDES = ("release:1.0", "release:2.0")
RULE = """\
id: order-checked
title: An order was made before stock was looked up
level: high
match: {tools: [create_order]}
evaluate: [{evaluator: tool-call-count, tool_calls_count: {create_order: ['=', 1]}}]
"""


def stored(number: int, release: str, calls: int = 1, **attributes: Any) -> TraceResult:
    """A trace whose spans call `create_order` so often; it was judged by a rule that is gone."""
    root, call = spans(number)
    resource = Resource({"service.name": "shop", "service.version": release})
    made = [replace(call, span_id=bytes([place]) * 8, resource=resource) for place in range(1, calls + 1)]
    root = replace(root, resource=resource, attributes={**root.attributes, **attributes})
    found = judged(number, evaluations=[evaluation(number, rule_id="gone", release=release)], release=release)
    return replace(found, spans=encode_spans([root, *made], []))


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    store_with(
        tmp_path,
        *(stored(number, "1.0") for number in range(1, 31)),
        *(stored(number, "2.0", calls=2 if number > 50 else 1) for number in range(41, 71)),
    )
    (tmp_path / "order.rule.yaml").write_text(RULE)
    return tmp_path


def rejudged(data_dir: Path, *options: str, exit_code: int = 1) -> dict[str, Any]:
    rules = ["--rules", str(data_dir / "order.rule.yaml")]
    result = run(data_dir, "compare", *SIDES, "--rejudge", *rules, "--format", "json", *options)
    assert result.exit_code == exit_code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_new_rule_judges_both_sides(data_dir: Path) -> None:
    found = rejudged(data_dir)
    (rule,) = found["rules"]
    assert (rule["rule_id"], rule["level"], rule["verdict"]) == ("order-checked", "high", "worse")
    assert [(rule[side]["pass"], rule[side]["fail"]) for side in ("a", "b")] == [(30, 0), (10, 20)]
    assert found["notes"] == []
    assert found["measures"]["calls"]["b"]["mean"] == pytest.approx(50 / 30)
    (tool,) = found["behaviour"]["tools"]
    assert (tool["calls_a"], tool["calls_b"]) == (1.0, pytest.approx(50 / 30))


def test_sarif_names_the_file_of_a_rule_that_judged_again(data_dir: Path) -> None:
    path = str(data_dir / "order.rule.yaml")
    result = run(data_dir, "compare", *SIDES, "--rejudge", "--rules", path, "--format", "sarif")
    (found,) = json.loads(result.stdout)["runs"][0]["results"]
    assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == path


def test_filters_hold_for_what_is_judged_again(data_dir: Path) -> None:
    assert rejudged(data_dir, "--agent", "support")["rules"] != []
    result = run(data_dir, "compare", *SIDES, "--rejudge", "--rules", str(data_dir), "--service", "bank")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: release:1.0: no rule matches any of its 30 stored traces\n",
    )


def test_a_part_by_time(data_dir: Path) -> None:
    (rule,) = rejudged(data_dir, "--until", "2026-01-01T00:50:00Z", exit_code=3)["rules"]
    assert (rule["a"]["results"], rule["b"]["results"]) == (30, 9)


def test_what_the_store_did_not_keep_is_left_out(data_dir: Path) -> None:
    reads = RULE.replace("match: {tools: [create_order]}", "match: {attributes: {shop.tier: gold}}")
    (data_dir / "order.rule.yaml").write_text(reads)
    result = run(data_dir, "compare", *SIDES, "--rejudge", "--rules", str(data_dir / "order.rule.yaml"))
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: release:1.0: the store did not keep what the rules read of any of its 30 traces, and there is no "
        f"journal in {data_dir}\n",
    )


def test_the_rules_in_force_judge_without_a_path(data_dir: Path) -> None:
    config = data_dir / "config.yaml"
    config.write_text(f"rules: {{paths: [{data_dir / 'order.rule.yaml'}]}}\n")
    result = run(data_dir, "compare", *SIDES, "--rejudge", "-c", str(config))
    assert "order-checked" in result.stdout
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rules", "builtin:all"], "--rules needs --rejudge"),
        (["--rejudge", "--rates-only"], "--rates-only reads counts, and --rejudge makes new results"),
        (["--rejudge", "--rules", "missing.yaml"], "missing.yaml"),
    ],
)
def test_what_makes_no_sense_is_refused(data_dir: Path, options: list[str], message: str) -> None:
    result = run(data_dir, "compare", *SIDES, *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_the_same_side_twice_is_refused(data_dir: Path) -> None:
    result = run(data_dir, "compare", "live", "live", "--rejudge", "--rules", str(data_dir / "order.rule.yaml"))
    assert result.stderr == "Error: A and B are the same, 'live': name two different sides\n"


def test_an_attribute_that_the_store_kept_is_read(tmp_path: Path) -> None:
    path = tmp_path / "order.rule.yaml"
    path.write_text(RULE.replace("match: {tools: [create_order]}", "match: {attributes: {shop.tier: gold}}"))
    kept = attribute_filter_for(load_rules([path]), TracesSettings()).hash
    made = [
        stored(number, release, **{"shop.tier": "gold" if number % 2 else "silver"})
        for release, first in (("1.0", 1), ("2.0", 41))
        for number in range(first, first + 10)
    ]
    with_filter = [
        replace(one, spans=encode_spans(decode_spans(one.spans).spans, [], (), kept if number else ""))
        for number, one in enumerate(made)
    ]
    store_with(tmp_path, *with_filter)
    found = rejudged(tmp_path, exit_code=3)
    (rule,) = found["rules"]
    assert (rule["a"]["results"], rule["b"]["results"]) == (4, 5)
    assert found["notes"] == [
        f"A: 1 trace left out: the store did not keep what the rules read, and there is no journal in {tmp_path}"
    ]
