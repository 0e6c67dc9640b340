"""What comes of closed traces and of sessions, in the order in which it comes."""

from dataclasses import dataclass
from typing import TypeAlias

from tracegrade.assemble.closed_traces import TraceKey
from tracegrade.judge import Judgement
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.session import Session, session_trace_id
from tracegrade.model.trace import Trace


@dataclass(slots=True)
class JudgedClosing:
    """One closed trace and its judgement; ``sequence`` counts results from 1."""

    sequence: int
    trace: Trace
    judgement: Judgement

    @property
    def key(self) -> TraceKey:
        """What results of a higher revision replace these by."""
        return self.trace.tenant, self.trace.trace_id

    @property
    def decisions(self) -> list[Decision]:
        """One for every (subject, rule) pair that matched."""
        return self.judgement.decisions


@dataclass(slots=True)
class JudgedSession:
    """One session, as it stood, and its decisions."""

    sequence: int
    session: Session
    decisions: list[Decision]

    @property
    def key(self) -> TraceKey:
        """What results of a higher revision replace these by: a trace id of its own."""
        return self.session.tenant, session_trace_id(self.session.tenant, self.session.id)


Judged: TypeAlias = JudgedClosing | JudgedSession


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
