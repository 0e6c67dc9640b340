"""Judges the stored traces of a side again, so that both sides are judged by the same rules.

Traces are judged by themselves: rules of scope session, which need several, are left out. So is a trace of which the
store did not keep what the rules read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection

from tracegrade.assemble.settings import TracesSettings
from tracegrade.codec.json_text import rows_to_json
from tracegrade.codec.kept_spans import trace_of
from tracegrade.compare.progress import LookedThrough, Progress
from tracegrade.compare.sides import Side
from tracegrade.extract.registry import in_force
from tracegrade.extract.run_summaries import run_summaries
from tracegrade.judge import Judgement
from tracegrade.model.evaluation import Decision
from tracegrade.model.extraction import Extraction
from tracegrade.model.trace import Trace
from tracegrade.pipeline.judged import Judged, JudgedTrace
from tracegrade.pipeline.record_judge import attribute_filter_for
from tracegrade.pipeline.workers import ReplayJob, shown_by_workers
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.rows import call_rows, run_rows
from tracegrade.store.run_numbers import numbers_of
from tracegrade.store.schema import OUTCOMES, SUBJECT_KINDS
from tracegrade.store.sides import SideSeries, side_traces

_RUN = "compare"


@dataclass(frozen=True, slots=True)
class Rejudging:
    """The rules that judge again, where they are, the settings that judging reads, and how many processes judge."""

    rule_set: RuleSet
    rule_paths: Sequence[str]
    semantic_model: str | None
    settings: TracesSettings
    jobs: int


class RejudgedRow(NamedTuple):
    """A trace that was judged again, as a row of ``traces`` has it."""

    number: int
    trace_id: bytes
    tenant: str
    session: str | None
    complete: bool
    start_ns: int
    end_ns: int
    evaluations: str
    decisions: str
    tool_calls: str
    agent_runs: str
    members: None = None


@dataclass(slots=True)
class Rejudged:
    """The traces of a side, their series by number, and how many traces were left out: what rules read is not kept."""

    rows: list[RejudgedRow] = field(default_factory=list)
    chosen: dict[int, SideSeries] = field(default_factory=dict)
    not_kept: int = 0


# Of one trace: tenant, id, session, complete, start, end, results, calls, runs.
_Shown: TypeAlias = tuple[str, bytes, str | None, bool, int, int, list["_Result"], str, str]


class _Result(NamedTuple):
    """A decision, or with a name an evaluation, on one subject."""

    series: SideSeries
    service: str
    case: str | None
    kind: int
    subject: str
    outcome: int


def rejudge(connection: Connection, side: Side, by: Rejudging, most: int, progress: Progress) -> Rejudged:
    """Judge the newest traces of a side again, at most `most`; `progress` shows how far it is.

    Raises:
        KeptSpansError: the spans of one are damaged, or were stored by another version.
        WorkerEnded: a process that judges was killed, or crashed.
    """
    found = Rejudged()
    numbers: dict[tuple[str, bytes], int] = {}
    job = ReplayJob(
        by.rule_paths,
        by.semantic_model,
        by.rule_set.hash,
        _RUN,
        by.settings.tool_aliases,
        by.settings.prices,
        _shown,
    )
    series_numbers: dict[SideSeries, int] = {}
    traces = _traces(connection, side, by, most, numbers, found)
    looked = LookedThrough(numbers_of(connection, side.result_filter), most)
    with progress(f"{side.text}: traces judged", looked.total) as advance:
        for shown in shown_by_workers(traces, job, by.rule_set, by.jobs):
            found.rows.append(_row(shown, side.result_filter, numbers, series_numbers))
            advance(looked.steps_to(found.rows[-1].number, len(found.rows)))
    found.chosen = {number: series for series, number in series_numbers.items()}
    return found


def keeps_enough(rule_set: RuleSet, settings: TracesSettings) -> Callable[[Trace], bool]:
    """Whether the spans that are kept of a trace have all attributes that these rules read."""
    dialects, always = in_force(), RuleSet([]).attributes_read
    beyond = [
        name
        for name in rule_set.attributes_read - dialects.attributes - always
        if not name.startswith(dialects.prefixes)
    ]
    needed = attribute_filter_for(rule_set, settings).hash
    return lambda trace: not beyond or trace.filter_hash == needed


def _traces(
    connection: Connection,
    side: Side,
    by: Rejudging,
    most: int,
    numbers: dict[tuple[str, bytes], int],
    found: Rejudged,
) -> Iterator[Judged]:
    """The stored traces of a side, not judged yet; their numbers are put into `numbers`."""
    is_kept, release = keeps_enough(by.rule_set, by.settings), side.result_filter.release
    for number, stored in side_traces(connection, side.result_filter):
        if release is not None and stored.trace.release != release:
            continue
        trace = trace_of(stored)
        if not is_kept(trace):
            found.not_kept += 1
            continue
        numbers[trace.tenant, trace.trace_id] = number
        yield JudgedTrace(len(numbers), trace, Judgement(Extraction(trace, [], [])))
        if len(numbers) >= most:
            break


def _shown(judged: Judged) -> _Shown | None:
    """What is needed of a trace that was judged again: plain values, which a worker hands back."""
    if not isinstance(judged, JudgedTrace):
        return None
    trace, extraction = judged.trace, judged.judgement.extraction
    return (
        trace.tenant,
        trace.trace_id,
        extraction.session,
        trace.complete,
        trace.spans[0].start_ns,
        max(span.end_ns for span in trace.spans),
        [result for decision in judged.decisions for result in _results(decision)],
        rows_to_json(call_rows(extraction.calls)),
        rows_to_json(run_rows(run_summaries(extraction))),
    )


def _results(decision: Decision) -> Iterator[_Result]:
    pair, subject = decision.pair, decision.pair.subject

    def result(evaluation: str, case: str | None, outcome: str) -> _Result:
        level = pair.level if evaluation else ""
        series = SideSeries(pair.rule_id, pair.rule_hash, evaluation, level, pair.probability, subject.agent)
        kind = SUBJECT_KINDS.index(subject.kind)
        return _Result(series, subject.service, case, kind, subject.id, OUTCOMES.index(outcome))

    word = decision.outcome or decision.kind
    if word in OUTCOMES:
        yield from (result(item.evaluation, item.case, item.outcome) for item in decision.evaluations)
        yield result("", None, word)


def _row(
    shown: _Shown,
    result_filter: ResultFilter,
    numbers: Mapping[tuple[str, bytes], int],
    series_numbers: dict[SideSeries, int],
) -> RejudgedRow:
    tenant, trace_id, session, complete, start_ns, end_ns, results, calls, runs = shown
    evaluations, decisions = [], []
    for result in _wanted(results, result_filter):
        series = series_numbers.setdefault(result.series, len(series_numbers) + 1)
        if result.series.evaluation:
            evaluations.append(("", series, result.case, result.kind, result.subject, result.outcome, None, 0))
        else:
            decisions.append((series, result.kind, result.subject, 0, result.outcome))
    return RejudgedRow(
        numbers[tenant, trace_id],
        trace_id,
        tenant,
        session,
        complete,
        start_ns,
        end_ns,
        rows_to_json(evaluations),
        rows_to_json(decisions),
        calls,
        runs,
    )


def _wanted(results: Iterable[_Result], asked: ResultFilter) -> Iterator[_Result]:
    """The results that are asked for; all are of the release of their trace, which was asked before."""
    for result in results:
        known = (
            (asked.rule, result.series.rule_id),
            (asked.agent, result.series.agent),
            (asked.service, result.service),
        )
        if all(wanted is None or wanted == value for wanted, value in known):
            yield result
