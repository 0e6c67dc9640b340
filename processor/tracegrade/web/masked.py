"""What callers without the right ``read-values`` see: names, paths, ids, times and scores, and no values.

`seen_by` is the one function that hides. Values are the arguments and outputs of calls, prompts, answers and messages,
what errors quote, and the attributes of spans that may hold any of those; in suites, their system prompt and what their
cases say and expect; in what models were asked, and other tools reported, every text that is not a name.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from tracegrade.access.caller import Caller
from tracegrade.codec.without_values import (
    HIDDEN,
    call_without_values,
    decision_without_values,
    evaluation_without_values,
    hidden,
    hidden_text,
    resource_without_values,
    summary_without_values,
)
from tracegrade.evaluate.criteria.expected import Difference
from tracegrade.extract.registry import in_force
from tracegrade.history.runs.experiments import EntryStanding, ScoredRun, Standing, Timeline
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.extraction import Extraction
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Resource, Span, SpanEvent
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace_result import TraceResult, TraceSummary
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.heads import SessionSums, TraceHead
from tracegrade.store.incidents import Incident
from tracegrade.store.runs import Entry, Run
from tracegrade.suites.runs.cases import CaseGroup, SuiteRun
from tracegrade.suites.runs.evals import Eval, EvalStanding, EvalTimeline
from tracegrade.suites.runs.results import CaseResult
from tracegrade.suites.store.jobs import Job
from tracegrade.suites.store.suites import StoredCase, StoredSuite
from tracegrade.web.alignment import Alignment, Row

Found = TypeVar("Found")

_VALUES_OF_CASES = ("prompt", "expected_params", "mock_responses", "scoring_config", "argument_source")

_NAMES_OF_CONFIGURATION = frozenset(
    {"experiment", "labels", "model", "model_id", "models", "provider_key", "suite", "tool_choice"}
)


def seen_by(caller: Caller, found: Found) -> Found:
    """`found`, as `caller` may see it: a record of what is stored, or a list of such.

    Raises:
        TypeError: it is a record of which is not known what are its values.
    """
    return found if caller.may("read-values") else _without_values(found)


def _without_values(found: Any) -> Any:
    if isinstance(found, list | tuple):
        return [_without_values(item) for item in found]
    if (without := _WITHOUT.get(type(found))) is None:
        raise TypeError(f"it is not known what the values of {type(found).__name__} are")
    return without(found)


def _as_it_is(found: Found) -> Found:
    """A record that holds no value."""
    return found


def _attributes(attributes: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    declared = in_force().declared
    beside = declared.structure_beside(attributes)
    return {
        key: value if key in declared.structure or key in beside else hidden(value) for key, value in attributes.items()
    }


def _resource(resource: Resource) -> Resource:
    return replace(resource, attributes=resource_without_values(resource.attributes))


def _event(event: SpanEvent) -> SpanEvent:
    return replace(event, attributes=_attributes(event.attributes))


def _span(span: Span) -> Span:
    return replace(
        span,
        status_message=hidden_text(span.status_message),
        attributes=_attributes(span.attributes),
        events=_without_values(span.events),
        resource=_resource(span.resource),
    )


def _run(run: AgentRun) -> AgentRun:
    return replace(
        run, prompt=run.prompt and HIDDEN, final_answer=run.final_answer and HIDDEN, calls=_without_values(run.calls)
    )


def _extraction(extraction: Extraction) -> Extraction:
    return replace(extraction, runs=_without_values(extraction.runs), calls=_without_values(extraction.calls))


def _result(result: TraceResult) -> TraceResult:
    """Without its spans, too: who reads them hides their values."""
    return replace(
        result,
        trace=summary_without_values(result.trace),
        tool_calls=_without_values(result.tool_calls),
        decisions=_without_values(result.decisions),
        backfilled=_without_values(result.backfilled),
        packed=b"",
    )


def _alignment(alignment: Alignment) -> Alignment:
    return replace(alignment, rows=_without_values(alignment.rows))


def _row(row: Row) -> Row:
    call = None if row.call is None else call_without_values(row.call)
    return replace(row, call=call, differences=_without_values(row.differences), folded=_without_values(row.folded))


def _difference(difference: Difference) -> Difference:
    return replace(difference, found=hidden(difference.found), lookups=())


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
    return replace(group, results=_without_values(group.results))


def _suite_run(run: SuiteRun) -> SuiteRun:
    return replace(run, cases=_without_values(run.cases))


def _suite(suite: StoredSuite) -> StoredSuite:
    return replace(suite, system_prompt=hidden_text(suite.system_prompt), cases=_without_values(suite.cases))


def _configuration(value: Any, name: str = "") -> Any:
    """How models were asked: numbers and names, and no other text, such as a system prompt."""
    if name in _NAMES_OF_CONFIGURATION or value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: _configuration(item, key) for key, item in value.items()}
    return [_configuration(item) for item in value] if isinstance(value, list | tuple) else hidden(value)


def _job(job: Job) -> Job:
    return replace(job, request=_configuration(job.request), message=hidden_text(job.message))


def _stored_run(run: Run) -> Run:
    return replace(run, problem=hidden_text(run.problem))


def _scored(scored: ScoredRun) -> ScoredRun:
    return replace(scored, run=_stored_run(scored.run))


def _standing(standing: Standing) -> Standing:
    return replace(standing, scored=_scored(standing.scored))


def _eval(item: Eval) -> Eval:
    entry = None if item.entry is None else _entry(item.entry)
    return replace(item, runs=_without_values(item.runs), job=None if item.job is None else _job(item.job), entry=entry)


def _entry(entry: Entry) -> Entry:
    return replace(entry, configuration=_configuration(entry.configuration))


def _eval_standing(standing: EvalStanding) -> EvalStanding:
    return replace(standing, eval=_eval(standing.eval))


def _entry_standing(standing: EntryStanding) -> EntryStanding:
    return replace(standing, entry=_entry(standing.entry))


def _eval_timeline(found: EvalTimeline) -> EvalTimeline:
    baseline = None if found.baseline is None else _eval(found.baseline)
    evals, entries = _without_values(found.evals), _without_values(found.entries)
    return replace(found, evals=evals, entries=entries, baseline=baseline)


def _timeline(found: Timeline) -> Timeline:
    outside = None if found.outside is None else _standing(found.outside)
    standings, entries = _without_values(found.standings), _without_values(found.entries)
    return replace(found, standings=standings, entries=entries, outside=outside)


def _alert(alert: StoredAlert) -> StoredAlert:
    reasons = [replace(reason, example="", trace_id="") for reason in alert.facts.reasons]
    return replace(alert, facts=replace(alert.facts, reasons=reasons))


def _incident(incident: Incident) -> Incident:
    return replace(incident, members=_without_values(incident.members))


_WITHOUT: dict[type, Callable[[Any], Any]] = {
    AgentRun: _run,
    Alignment: _alignment,
    CaseGroup: _case_group,
    CaseResult: _case_result,
    Decision: decision_without_values,
    Difference: _difference,
    EntryStanding: _entry_standing,
    EvalStanding: _eval_standing,
    EvalTimeline: _eval_timeline,
    Evaluation: evaluation_without_values,
    Extraction: _extraction,
    Incident: _incident,
    Job: _job,
    Resource: _resource,
    Row: _row,
    Run: _stored_run,
    ScoredRun: _scored,
    SessionSums: _as_it_is,
    Span: _span,
    SpanEvent: _event,
    Standing: _standing,
    StoredAlert: _alert,
    StoredCase: _case,
    StoredSuite: _suite,
    SuiteRun: _suite_run,
    Timeline: _timeline,
    ToolCall: call_without_values,
    TraceHead: _as_it_is,
    TraceResult: _result,
    TraceSummary: summary_without_values,
}
