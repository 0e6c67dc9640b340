"""What is shown of a trace whose values were deleted, because they are older than they may be."""

import json
import re
from pathlib import Path

import pytest

from build import store_with
from build.commands import run, run_json
from build.judged_traces import START_NS, judged, trace_id
from build.site import Site, serving, text_of
from tracegrade.rule.load import load_rules
from tracegrade.store.delete import delete_old_values
from tracegrade.store.open import open_store

DEMO = "builtin:demo"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    store_with(tmp_path, judged(1, "fail"))
    engine = open_store(store_with(tmp_path))
    assert delete_old_values(engine, None, START_NS + 10**15) is not None
    engine.dispose()
    return tmp_path


def test_the_page_has_scores_and_names_and_says_what_is_gone(data: Path) -> None:
    assert load_rules([DEMO]).rules
    with serving(data, DEMO) as site:
        shown = text_of(_page(site, f"/traces/{trace_id(1)}"))
        assert "were deleted, since they are older than store.values_retention" in shown
        assert "create_order" in shown
        assert re.search(r"create_order\W+(\S+ )?(order-agent)?\W*deleted\W+deleted", shown), shown
        assert "score" in shown
        answer = site.get(f"/traces/{trace_id(1)}/spans/{1:016x}")
        assert answer.status == 410
        assert "its scores stay" in text_of(answer.text)
        (found,) = json.loads(_page(site, f"/api/v1/traces/{trace_id(1)}"))["items"]
        assert found["values_deleted"] is True
        assert found["spans"] == []
        assert found["evaluations"]
        assert text_of(_page(site, "/traces?range=30d"))


def _page(site: Site, address: str) -> str:
    answer = site.get(address)
    assert answer.status == 200, answer.text
    return answer.text


def test_commands_say_it_in_a_sentence(data: Path) -> None:
    shown = run(data, "traces", "show", trace_id(1))
    assert "its spans, prompts, arguments and outputs were deleted (store.values_retention)" in shown.stdout
    why = run(data, "why", trace_id(1), "--rules", DEMO)
    assert why.exit_code == 0, why.stderr
    assert "were deleted (store.values_retention), so what did not match is not shown" in why.stdout
    exported = run(data, "traces", "export", trace_id(1))
    assert (exported.stdout, exported.exit_code) == ("", 0)
    assert "1 trace left out: their spans were deleted (store.values_retention)." in exported.stderr
    assert run_json(data, "results", "list")
    rule = data / "mine.rule.yaml"
    rule.write_text("id: mine\nevaluate: [{evaluator: tool-call-order, tool_calls_order: [a, b]}]\n")
    promoted = run(data, "promote", trace_id(1), "--rule", "mine", "--rules", str(rule))
    assert promoted.exit_code == 2
    assert "older than store.values_retention" in promoted.stderr
