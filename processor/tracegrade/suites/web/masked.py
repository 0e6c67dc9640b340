"""Suites, evals and jobs as callers without the right ``read-values`` see them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tracegrade.codec.without_values import hidden, hidden_text
from tracegrade.suites.runs.cases import CaseGroup, SuiteRun
from tracegrade.suites.runs.evals import Eval, EvalStanding, EvalTimeline
from tracegrade.suites.runs.results import CaseResult
from tracegrade.suites.store.jobs import Job
from tracegrade.suites.store.suites import StoredCase, StoredSuite
from tracegrade.web.masked import configuration_without_values, entry_without_values, without_values

_VALUES_OF_CASES = ("prompt", "expected_params", "mock_responses", "scoring_config", "argument_source")


def _case(case: StoredCase) -> StoredCase:
    body = {key: hidden(value) if key in _VALUES_OF_CASES else value for key, value in case.body.items()}
    return replace(case, body=body)


def _case_result(result: CaseResult) -> CaseResult:
    expected = result.expected
    if expected is not None:
        expected = {key: hidden(value) if key in _VALUES_OF_CASES else value for key, value in expected.items()}
    return replace(
        result,
        explanation=hidden_text(result.explanation),
        calls=[{**call, "arguments": hidden(call.get("arguments"))} for call in result.calls],
        notes=[],
        prompt=hidden_text(result.prompt),
        expected=expected,
        stderr="",
    )


def _case_group(group: CaseGroup) -> CaseGroup:
    return replace(group, results=without_values(group.results))


def _suite_run(run: SuiteRun) -> SuiteRun:
    return replace(run, cases=without_values(run.cases))


def _suite(suite: StoredSuite) -> StoredSuite:
    return replace(suite, system_prompt=hidden_text(suite.system_prompt), cases=without_values(suite.cases))


def _job(job: Job) -> Job:
    return replace(job, request=configuration_without_values(job.request), message=hidden_text(job.message))


def _eval(item: Eval) -> Eval:
    entry = None if item.entry is None else entry_without_values(item.entry)
    return replace(item, runs=without_values(item.runs), job=None if item.job is None else _job(item.job), entry=entry)


def _eval_standing(standing: EvalStanding) -> EvalStanding:
    return replace(standing, eval=_eval(standing.eval))


def _eval_timeline(found: EvalTimeline) -> EvalTimeline:
    baseline = None if found.baseline is None else _eval(found.baseline)
    evals, entries = without_values(found.evals), without_values(found.entries)
    return replace(found, evals=evals, entries=entries, baseline=baseline)


WITHOUT_VALUES: dict[type, Callable[[Any], Any]] = {
    CaseGroup: _case_group,
    CaseResult: _case_result,
    Eval: _eval,
    EvalStanding: _eval_standing,
    EvalTimeline: _eval_timeline,
    Job: _job,
    StoredCase: _case,
    StoredSuite: _suite,
    SuiteRun: _suite_run,
}
"""What is shown of each type."""
