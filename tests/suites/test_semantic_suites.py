"""Cases that compare by meaning: the model is that of the settings, whatever was read before or is read after."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from suites.semantic_package import install
from suites.test_stored import PARIS, WEATHER, read
from tracegrade.cli import main
from tracegrade.document.problem import FileError
from tracegrade.evaluate.evidence import Evidence
from tracegrade.model.tool_call import ToolCall
from tracegrade.rule.reading import FILES_ALONE, RuleReading
from tracegrade.suites.stored import runnable_suite, unset_needs

SUITE = {"name": "Meaning", "tools": [WEATHER], "test_cases": [{**PARIS, "param_scoring": "semantic"}]}


def scored(suite: Any) -> float | None:
    """The score of a call whose value has the letters of the expected one."""
    (case,) = suite.rule.cases.all
    call = ToolCall(
        name="get_weather",
        raw_name="get_weather",
        call_id=None,
        arguments={"city": "Sirap"},
        arguments_status="ok",
        output=None,
        output_status="absent",
        error=None,
        start_ns=0,
        end_ns=0,
        span_id="00000000000000aa",
        agent="",
        agent_span_id="",
    )
    spec = case.spec
    score: float | None = spec.evaluator.evaluate(Evidence([call]), spec.criteria, spec.settings).score
    return score


def test_a_suite_is_read_by_the_settings_that_are_given_and_keeps_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = read(SUITE)  # without a model: what it needs is asked for when it is run
    with pytest.raises(FileError, match="needs a model of text embeddings"):
        runnable_suite(stored)
    reading = RuleReading(install(tmp_path, monkeypatch))
    suite = runnable_suite(stored, (), reading)
    judged_by = suite.rule.hash
    FILES_ALONE.load(["builtin:default"])
    assert scored(suite) == 1.0
    assert suite.rule.hash == judged_by
    with pytest.raises(FileError, match="needs a model of text embeddings"):
        runnable_suite(stored)


def test_what_the_settings_do_not_name_is_said_without_loading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [{**PARIS, "param_scoring": "semantic"}, PARIS, {**PARIS, "scoring_config": {"mode": "contains"}}]
    stored = read({**SUITE, "test_cases": cases})
    said = {folder: unset_needs(stored.cases, RuleReading(folder)) for folder in (None, "/nowhere")}
    assert [[text.partition(": param_scoring")[0] for text in texts] for texts in said.values()] == [
        ["case 'case-1'"]
    ] * 2
    assert "in the setting rules.semantic_model" in said[None][0]
    assert "rules.semantic_model: no folder '/nowhere'" in said["/nowhere"][0]
    folder = install(tmp_path, monkeypatch)
    assert unset_needs(stored.cases, RuleReading(folder)) == []
    assert "model2vec" not in sys.modules


def test_evaluate_takes_the_model_as_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    criteria = json.dumps({"expected_tool": "a", "expected_params": {"x": "abc"}, "param_scoring": "semantic"})
    arguments = ["evaluate", "tool-case", "--criteria", criteria, "--calls", '[{"name": "a", "args": {"x": "cba"}}]']
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, "needs a model of text embeddings" in result.stderr) == (2, True)
    result = CliRunner().invoke(main, [*arguments, "--semantic-model", install(tmp_path, monkeypatch)])
    assert (result.exit_code, "✓ pass" in result.stdout) == (0, True), result.stderr
