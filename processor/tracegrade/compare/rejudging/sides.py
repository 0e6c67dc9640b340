"""Judges the stored traces and sessions of a side again, so that both sides are judged by the same rules.

A session is of the side that has its trace that came last, and of the release of its first trace, as where it was
judged live. So a session that goes on from one side to the other counts once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from tracegrade.codec.json_text import rows_to_json
from tracegrade.compare.progress import Progress
from tracegrade.compare.rejudging.sessions import RejudgeSessions
from tracegrade.compare.rejudging.traces import NotJudged, ReadFilter, RejudgeTraces, Rejudging
from tracegrade.compare.sides import Side
from tracegrade.compare.store.sides import SideRow, SideSeries
from tracegrade.extract.run_summaries import run_summaries
from tracegrade.model.evaluation import Decision
from tracegrade.model.session import Session, session_trace_id
from tracegrade.pipeline.judged import Judged, JudgedSession
from tracegrade.pipeline.packed import LeftOut
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import OUTCOMES, SUBJECT_KINDS
from tracegrade.store.write import call_rows, run_rows

_RUN = "compare"
_A_SESSION = "{}"  # `SideRow.members` of a session; which traces it has is not asked


@dataclass(slots=True)
class Rejudged:
    """The traces and sessions of a side, their series by number, and what was left out, since too little was kept."""

    rows: list[SideRow] = field(default_factory=list)
    chosen: dict[int, SideSeries] = field(default_factory=dict)
    not_judged: NotJudged = field(default_factory=NotJudged)
    sessions_not_judged: NotJudged = field(default_factory=NotJudged)


class _JudgedAgain(NamedTuple):
    """What a worker hands back of one trace or session: its row, without a number and results, and these."""

    row: SideRow
    results: list["_Result"]


class _Result(NamedTuple):
    """A decision, or with a name an evaluation, on one subject."""

    series: SideSeries
    service: str
    case: str | None
    kind: int
    subject: str
    outcome: int


def rejudge(connection: Connection, side: Side, by: Rejudging, most: int, progress: Progress) -> Rejudged:
    """Judge the newest traces of a side again, at most `most`, and its sessions; `progress` shows how far it is.

    Raises:
        CannotTell: a process that judges was killed, or crashed.
    """
    found = Rejudged()
    chosen = side.result_filter
    of_any_service = replace(chosen, service=None)
    series_numbers: dict[SideSeries, int] = {}
    read = ReadFilter(release=chosen.release)
    how = (_RUN, partial(_judged_again, read), read)
    if of_traces := by.only([rule.id for rule in by.rule_set.rules if rule.scope != "session"]):
        traces = RejudgeTraces(connection, of_any_service, of_traces, *how)
        for kept, judged in traces.traces(f"{side.text}: traces judged", progress, most):
            found.rows.append(_row(kept.number, judged, chosen, series_numbers))
        found.not_judged = traces.not_judged
    if of_sessions := by.only([rule.id for rule in by.rule_set.rules if rule.scope == "session"]):
        sessions = RejudgeSessions(connection, of_any_service, of_sessions, *how)
        for session, judged in sessions.sessions(f"{side.text}: sessions judged", progress):
            found.rows.append(_row(session.number, judged, chosen, series_numbers))
        found.sessions_not_judged = sessions.not_judged
    found.chosen = {number: series for series, number in series_numbers.items()}
    return found


def _judged_again(read: ReadFilter, judged: Judged) -> _JudgedAgain | LeftOut:
    """What is needed of a trace or session that was judged again: plain values, which a worker hands back."""
    of = judged.session if isinstance(judged, JudgedSession) else judged.judgement.extraction
    if not read.takes(of):
        return LeftOut(chosen=False)
    results = [result for decision in judged.decisions for result in _results(decision)]
    if isinstance(of, Session):
        own_id = session_trace_id(of.tenant, of.id)
        return _JudgedAgain(SideRow(0, own_id, of.tenant, of.id, of.complete, members=_A_SESSION), results)
    trace = of.trace
    row = SideRow(
        0,
        trace.trace_id,
        trace.tenant,
        of.session,
        trace.complete,
        trace.start_ns,
        trace.end_ns,
        tool_calls=rows_to_json(call_rows(of.calls)),
        agent_runs=rows_to_json(run_rows(run_summaries(of))),
    )
    return _JudgedAgain(row, results)


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
    return again.row._replace(number=number, evaluations=rows_to_json(evaluations), decisions=rows_to_json(decisions))


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
