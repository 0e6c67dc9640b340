"""Judges the stored traces of a side again, so that both sides are judged by the same rules.

Traces are judged by themselves: rules of scope session, which need several, are left out. So is a trace of which the
store did not keep what the rules read.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from tracegrade.codec.json_text import rows_to_json
from tracegrade.compare.sides import Side
from tracegrade.extract.run_summaries import run_summaries
from tracegrade.model.evaluation import Decision
from tracegrade.pipeline.judged import Judged, JudgedTrace
from tracegrade.pipeline.packed import Kept, LeftOut, NotKept, release_of
from tracegrade.pipeline.progress import Progress
from tracegrade.pipeline.rejudge import KeptEnough, NotJudged, Rejudge, Rejudging
from tracegrade.pipeline.workers import ReplayJob
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.rows import call_rows, run_rows
from tracegrade.store.rule_texts import rule_sets_so_far
from tracegrade.store.schema import OUTCOMES, SUBJECT_KINDS
from tracegrade.store.sides import SideRow, SideSeries

_RUN = "compare"


@dataclass(slots=True)
class Rejudged:
    """The traces of a side, their series by number, and what was left out: what rules read is not kept of it."""

    rows: list[SideRow] = field(default_factory=list)
    chosen: dict[int, SideSeries] = field(default_factory=dict)
    not_judged: NotJudged = field(default_factory=NotJudged)


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
        WorkerEnded: a process that judges was killed, or crashed.
    """
    found = Rejudged()
    chosen = side.result_filter
    enough = KeptEnough(by.rule_set, by.settings, rule_sets_so_far(connection))
    job: ReplayJob[_JudgedAgain | LeftOut] = ReplayJob(
        by.rule_paths,
        by.semantic_model,
        by.rule_set.hash,
        _RUN,
        by.settings.tool_aliases,
        by.settings.prices,
        partial(_shown, chosen.release),
        kept=Kept(enough.says, partial(_left_out, chosen.release)),
    )
    series_numbers: dict[SideSeries, int] = {}
    again = Rejudge(connection, replace(chosen, service=None), by, job, by.rule_set)
    for kept, judged in again.traces(f"{side.text}: traces judged", progress, most):
        found.rows.append(_row(kept.number, judged, chosen, series_numbers))
    found.chosen = {number: series for series, number in series_numbers.items()}
    found.not_judged = again.not_judged
    return found


def _shown(release: str | None, judged: Judged) -> _JudgedAgain | LeftOut:
    """What is needed of a trace that was judged again: plain values, which a worker hands back."""
    assert isinstance(judged, JudgedTrace)
    trace, extraction = judged.trace, judged.judgement.extraction
    if release is not None and extraction.release != release:
        return LeftOut(chosen=False)
    return _JudgedAgain(
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


def _left_out(release: str | None, found: NotKept) -> LeftOut:
    """What is said of a trace that cannot be judged."""
    chosen = release is None or found.of is None or release_of(found.of) == release
    return LeftOut(chosen, found.lacking, found.problems)


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
