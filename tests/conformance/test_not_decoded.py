"""Captures of real frameworks, judged by no rule: they are stored as they came, and read as if they had been decoded.

The captures are those of `test_corpus.py`.
"""

from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from conformance.test_corpus import BESIDE
from pipeline.test_not_decoded import seen_of
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings, without_bounds
from tracegrade.codec.whole_results import whole_result
from tracegrade.model.trace_result import TraceResult
from tracegrade.otlp.files.report import SourceReport
from tracegrade.otlp.files.sources import read_sources
from tracegrade.pipeline.record_judge import Mode, RecordJudge
from tracegrade.pipeline.trace_result import result_of
from tracegrade.pipeline.whole_traces import records_of
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet


@pytest.fixture(scope="module")
def captures(request: pytest.FixtureRequest) -> list[list[Path]]:
    """The files of each capture."""
    folder: Path = request.config.getoption("--corpus") or BESIDE
    if not folder.is_dir():
        pytest.skip("no captures: name their folder with --corpus DIR")
    found = [path for path in sorted(folder.glob("*/*.binpb")) if ".logs." not in path.name]
    beside = [(path, path.with_suffix(".logs.binpb")) for path in found]
    return [[path, *([logs] if logs.exists() else [])] for path, logs in beside]


def judged(files: list[Path], *, decodes_all: bool = False, **match: Any) -> list[TraceResult]:
    evaluate = [{"evaluator": "tool-call-count", "tool_calls_count": {"search": [">=", 0]}}]
    rule = Rule.model_validate({"id": "asked", "scope": "trace", "match": match, "evaluate": evaluate})
    settings = without_bounds(TracesSettings())
    judge = RecordJudge(settings, RuleSet([rule]), ClosedTraces(), Mode(decodes_all=decodes_all))
    records = records_of(read_sources([str(file) for file in files], SourceReport()))
    found = [*chain.from_iterable(map(judge.read, records)), *judge.end()]
    results = [result_of(item, "live", "") for item in found]
    return sorted(results, key=lambda result: result.trace.trace_id)


def test_captures_that_no_rule_judges_are_read_as_if_they_had_been_decoded(captures: list[list[Path]]) -> None:
    left_out = together = 0
    for files in captures:
        lazy = judged(files, service="no such service")
        full = judged(files, service="no such service", decodes_all=True)
        assert [seen_of(result) for result in lazy] == [seen_of(result) for result in full], files
        left_out += sum(result.trace.not_decoded is not None for result in lazy)
        together += len(lazy)
    assert left_out > 0.95 * together  # of the others it is not clear which session they are of


def test_every_tool_that_a_capture_calls_stands_in_its_bytes(captures: list[list[Path]]) -> None:
    for files in captures:
        for result in judged(files, service="no such service"):
            calls = whole_result(result.packed, result.spans).tool_calls
            for name in {name for call in calls for name in (call.name, call.raw_name)}:
                asked = {other.trace.trace_id: other for other in judged(files, tools=name)}
                assert asked[result.trace.trace_id].trace.not_decoded is None, (files, name)


def test_a_capture_that_does_not_call_a_tool_is_not_decoded_for_it(captures: list[list[Path]]) -> None:
    found = [result for files in captures for result in judged(files, tools="no_such_tool")]
    assert sum(result.trace.not_decoded is not None for result in found) > 20
