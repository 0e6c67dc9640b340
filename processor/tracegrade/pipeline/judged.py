"""Closed traces and sessions with their judgements, in the order in which they were judged."""

from dataclasses import dataclass
from typing import TypeAlias

from tracegrade.judge import Judgement
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.session import Session, session_trace_id
from tracegrade.model.trace import Trace, TraceKey


@dataclass(slots=True)
class JudgedTrace:
    """One closed trace with all its spans, and its judgement; ``sequence`` counts results from 1.

    It stays inside the pipeline. `pipeline.trace_result` packs it into a `model.trace_result.TraceResult`, the record
    that leaves the judge: that one holds a summary and encoded spans instead of the trace itself.
    """

    sequence: int
    trace: Trace
    judgement: Judgement

    @property
    def key(self) -> TraceKey:
        """The key by which the results of a higher revision replace these: tenant and trace id."""
        return self.trace.tenant, self.trace.trace_id

    @property
    def decisions(self) -> list[Decision]:
        """One for every (subject, rule) pair that matched."""
        return self.judgement.decisions


@dataclass(slots=True)
class JudgedSession:
    """One session as it was when it was judged, and its decisions; inside the pipeline only, as `JudgedTrace`."""

    sequence: int
    session: Session
    decisions: list[Decision]

    @property
    def key(self) -> TraceKey:
        """The key by which later results replace these: tenant, and a trace id made from the session's id."""
        return self.session.tenant, session_trace_id(self.session.tenant, self.session.id)


Judged: TypeAlias = JudgedTrace | JudgedSession


def evaluations_of(judged: Judged) -> list[Evaluation]:
    """The evaluations of all decisions, in their order."""
    return [evaluation for decision in judged.decisions for evaluation in decision.evaluations]


class ResultNumbers:
    """Counts results, of traces and of sessions alike, from 1."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        """The number of the next one."""
        self.last += 1
        return self.last
