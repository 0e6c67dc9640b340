"""What is shown of traces that no rule judges is the same whether or not they were decoded when they came."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from build import each, store_with
from build.harness import Run
from build.otlp import spans_of
from build.without_parts import of_all_parts
from pipeline.test_not_decoded import RESOURCES, RULES, SETTINGS, journal_of, logged_trace, order_trace
from tracegrade.cli import main
from tracegrade.codec.results import decode_result
from tracegrade.store.delete import delete_old_values
from tracegrade.store.open import open_store
from tracegrade.store.rule_texts import save_rule_texts
from tracegrade.store.write import StoreWriter

TRACES = range(1, 41)
TIMES = ("--since", "2026-01-01", "--until", "2026-11-01")
# Another rule, and one that no trace was judged by.
NEW = [
    {
        "id": "shop",
        "match": {"service": "shop"},
        "evaluate": [{"evaluator": "tool-call-count", "tool_calls_count": {"create_order": ["==", 2]}}],
    },
    {
        "id": "everything",
        "scope": "trace",
        "match": {"tools": "check_*"},
        "evaluate": [{"evaluator": "tool-call-count", "tool_calls_count": {"check_inventory": ["<=", 1]}}],
    },
    {
        "id": "sessions",
        "scope": "session",
        "evaluate": [{"evaluator": "tool-call-count", "tool_calls_count": {"check_inventory": ["<=", 1]}}],
    },
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data folders with the same traffic: with traces that were not decoded, and with all decoded."""
    contents = [
        content
        for trace in TRACES
        for content in (logged_trace(trace) if trace % 7 == 0 else order_trace(trace, f"session {trace // 3}"))
    ]
    resources = {span.trace_id + span.span_id: span.trace_id[-1] % len(RESOURCES) for span in spans_of(contents)}
    journal = journal_of([(1_790_000_000.0, contents)], resources)
    folders = {}
    for name in ("not decoded", "decoded"):
        run = Run(RULES, SETTINGS, decodes_all=name == "decoded")
        run.read(journal)
        run.end()
        folder = folders[name] = tmp_path_factory.mktemp(name.replace(" ", "-"))
        engine = open_store(store_with(folder))
        StoreWriter(engine).write([decode_result(record) for record in run.store.written])
        with engine.begin() as connection:
            save_rule_texts(connection, RULES, 1)
        engine.dispose()
        rules = folder / "rules"
        rules.mkdir()
        for rule in RULES.rules:
            written = rule.model_dump(mode="json", exclude_unset=True)
            (rules / f"{rule.id}.rule.yaml").write_text(json.dumps(written))
        new = folder / "new"
        new.mkdir()
        for described in NEW:
            (new / f"{described['id']}.rule.yaml").write_text(json.dumps(described))
        (folder / "config.yaml").write_text(
            json.dumps(
                {
                    "data_dir": str(folder),
                    "rules": {"paths": [str(rules)]},
                    "traces": {"tool_aliases": {"create_order": ["*__create_order"]}, "end_attribute": "app.done"},
                }
            )
        )
    return folders


def said(folder: Path, *arguments: str) -> Any:
    words = [str(folder / word[1:]) if word.startswith("@") else word for word in arguments]
    result = CliRunner().invoke(main, [*words, "--format", "json", "-c", str(folder / "config.yaml")])
    assert result.exit_code in (0, 1, 3), result.output
    assert result.stdout, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    return found if "list" in arguments or "why" in arguments else found[0]


def both(folders: dict[str, Path], *arguments: str) -> tuple[Any, Any]:
    return said(folders["not decoded"], *arguments), said(folders["decoded"], *arguments)


def not_decoded(folders: dict[str, Path]) -> set[str]:
    heads = said(folders["not decoded"], "traces", "list", "--limit", "1000")
    return {head["trace_id"] for head in heads if head["not_decoded"]}


def test_doctor_finds_the_same_in_stored_traces(folders: dict[str, Path]) -> None:
    found = []
    for folder in folders.values():
        result = CliRunner().invoke(main, ["doctor", "--format", "json", "-c", str(folder / "config.yaml")])
        findings = [
            item
            for item in map(json.loads, result.stdout.splitlines())
            if item["check"] not in ("disk", "journal", "store size")  # these say where the folder is
        ]
        assert any(item["check"] == "unread spans" for item in findings)
        found.append(findings)
    assert found[0] == found[1]


def test_lists_of_traces_differ_only_in_what_was_not_read(folders: dict[str, Path]) -> None:
    lazy, full = both(folders, "traces", "list", "--limit", "1000")
    assert len(lazy) == len(TRACES)
    assert {head["not_decoded"] for head in lazy} == {"not_matched", "sampled_out", None}
    for one, other in zip(lazy, full, strict=True):
        unread = {"not_decoded", "call_count", "prompt", "cost"} if one["not_decoded"] else set()
        assert {key: one[key] for key in one.keys() - unread} == {key: other[key] for key in other.keys() - unread}


def test_traces_are_shown_and_explained_alike(folders: dict[str, Path]) -> None:
    left_out = not_decoded(folders)
    assert len(left_out) > 10
    for trace in TRACES:
        shown, full = both(folders, "traces", "show", f"{trace:032x}")
        assert ("not_decoded" in shown["trace"]) == (f"{trace:032x}" in left_out)
        shown["trace"].pop("not_decoded", None)
        full["decisions"] = [item for item in full["decisions"] if item["kind"] != "sampled_out"]
        shown["decisions"] = [item for item in shown["decisions"] if item["kind"] != "sampled_out"]
        assert shown == full
        why, full_why = both(folders, "why", f"{trace:032x}")
        assert pairs_of(why) == pairs_of(full_why)


def test_a_rule_that_may_be_newer_than_the_trace_is_not_said_to_have_left_it_out(folders: dict[str, Path]) -> None:
    config = str(folders["not decoded"] / "config.yaml")
    trace_id = min(not_decoded(folders))
    newer = {"id": "newer", "scope": "trace", "sample": 0.0001, "evaluate": NEW[1]["evaluate"]}
    path = folders["not decoded"] / "newer.rule.yaml"
    path.write_text(json.dumps(newer))
    shown = CliRunner().invoke(main, ["why", trace_id, "--format", "json", "-c", config, "--rules", str(path)])
    (pair,) = map(json.loads, shown.stdout.splitlines())
    assert pair["decision"] == "sampled_out"
    assert pair["reason"] == "its sample leaves the trace out; it came under other rules, maybe without this one"


def test_of_one_whose_values_are_gone_it_is_not_said_that_it_had_no_calls(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    trace_id = min(not_decoded(folders))
    shutil.copy(folders["not decoded"] / "tracegrade.db", tmp_path)
    engine = open_store(store_with(tmp_path))
    delete_old_values(engine, None, 2_000_000_000 * 10**9)
    engine.dispose()
    shown = CliRunner().invoke(main, ["why", trace_id, "--data-dir", str(tmp_path)])
    assert "spans, tool calls were never read" in shown.stdout


def pairs_of(why: Any) -> list[str]:
    return sorted(json.dumps(pair, sort_keys=True) for pair in why)


@of_all_parts
@each(
    "arguments",
    [
        ("rules", "backtest", "@new", *TIMES),
        ("rules", "backtest", "@new", *TIMES, "--service", "other"),
        ("compare", "live", "release:2.1"),
        ("compare", "release:1.0", "release:2.1", "--rejudge", "--rules", "@new"),
        ("results", "list", "--limit", "1000"),
    ],
    ids=" ".join,
)
def test_commands_over_many_traces_say_the_same(folders: dict[str, Path], arguments: tuple[str, ...]) -> None:
    lazy, full = both(folders, *arguments)
    assert without_folders(lazy, folders["not decoded"]) == without_folders(full, folders["decoded"])


def without_folders(found: Any, folder: Path) -> Any:
    # What the sample of a rule in its earlier form left out is stored only of traces that were decoded.
    text = json.dumps(found).replace(str(folder), "FOLDER").replace('"before": "sampled_out"', '"before": null')
    return json.loads(text)
