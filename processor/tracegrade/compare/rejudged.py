"""Judges the stored traces of a side again, so that both sides are judged by the same rules.

Traces are judged by themselves: rules of scope session, which need several, are left out. So is a trace of which the
store did not keep what the rules read.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection

from tracegrade.assemble.settings import TracesSettings
from tracegrade.codec.json_text import rows_to_json
from tracegrade.compare.progress import LookedThrough, Progress
from tracegrade.compare.sides import Side
from tracegrade.extract.run_summaries import run_summaries
from tracegrade.model.evaluation import Decision
from tracegrade.pipeline.judged import Judged, JudgedTrace
from tracegrade.pipeline.rejudge import KeptEnough, rejudged
from tracegrade.pipeline.workers import ReplayJob
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.kept_traces import kept_traces
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.rows import call_rows, run_rows
from tracegrade.store.rule_texts import rule_sets_so_far
from tracegrade.store.run_numbers import numbers_of
from tracegrade.store.schema import OUTCOMES, SUBJECT_KINDS
from tracegrade.store.sides import SideRow, SideSeries

_RUN = "compare"


@dataclass(frozen=True, slots=True)
class Rejudging:
    """The rules that judge again, where they are, the settings that judging reads, and how many processes judge."""

    rule_set: RuleSet
    rule_paths: Sequence[str]
    semantic_model: str | None
    settings: TracesSettings
    jobs: int


@dataclass(slots=True)
class Rejudged:
    """The traces of a side, their series by number, and how many traces were left out: what rules read is not kept."""

    rows: list[SideRow] = field(default_factory=list)
    chosen: dict[int, SideSeries] = field(default_factory=dict)
    not_kept: int = 0


class _JudgedAgain(NamedTuple):
    """What a worker hands back of one trace; calls and runs as `SideRow` has them."""

    tenant: str
    trace_id: bytes
    session: str | None
    complete: bool
    start_ns: int
    end_ns: int
    results: list["_Result"]
    tool_calls: str
    agent_runs: str


# The number of a trace; None when what rules read was not kept of it.
_Shown: TypeAlias = tuple[int, _JudgedAgain | None]


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
    chosen = side.result_filter
    enough = KeptEnough(by.rule_set, by.settings, rule_sets_so_far(connection))
    job = ReplayJob(
        by.rule_paths,
        by.semantic_model,
        by.rule_set.hash,
        _RUN,
        by.settings.tool_aliases,
        by.settings.prices,
        partial(_shown, enough, chosen.release),
    )
    series_numbers: dict[SideSeries, int] = {}
    traces = kept_traces(connection, replace(chosen, service=None))
    looked = LookedThrough(numbers_of(connection, chosen), most)
    with progress(f"{side.text}: traces judged", looked.total) as advance:
        for number, again in rejudged(traces, job, by.rule_set, by.jobs):
            if again is None:
                found.not_kept += 1
                continue
            found.rows.append(_row(number, again, chosen, series_numbers))
            advance(looked.steps_to(number, len(found.rows)))
            if len(found.rows) >= most:
                break
    found.chosen = {number: series for series, number in series_numbers.items()}
    return found


def _shown(enough: KeptEnough, release: str | None, judged: Judged) -> _Shown | None:
    """What is needed of a trace that was judged again: plain values, which a worker hands back."""
    if not isinstance(judged, JudgedTrace):
        return None
    trace, extraction = judged.trace, judged.judgement.extraction
    if release is not None and extraction.release != release:
        return None
    if not enough.says(trace.filter_hash):
        return judged.sequence, None
    return judged.sequence, _JudgedAgain(
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
    number: int, again: _JudgedAgain, result_filter: ResultFilter, series_numbers: dict[SideSeries, int]
) -> SideRow:
    evaluations, decisions = [], []
    for result in _wanted(again.results, result_filter):
        series = series_numbers.setdefault(result.series, len(series_numbers) + 1)
        if result.series.evaluation:
            evaluations.append(("", series, result.case, result.kind, result.subject, result.outcome, None, 0))
        else:
            decisions.append((series, result.kind, result.subject, 0, result.outcome))
    return SideRow(
        number,
        again.trace_id,
        again.tenant,
        again.session,
        again.complete,
        again.start_ns,
        again.end_ns,
        None,
        rows_to_json(evaluations),
        rows_to_json(decisions),
        again.tool_calls,
        again.agent_runs,
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
