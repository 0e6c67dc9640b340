"""The judging thread: it fetches records, judges, appends results and commits positions, in this order.

So a kill at any moment loses nothing (records are read again) and doubles nothing (ids are derived, and writes are
idempotent).
"""

import time
from dataclasses import dataclass

from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.pipeline.set_aside import SetAside
from tracegrade.serve.judging.deletions import JudgeDeletions
from tracegrade.serve.judging.gathered_results import GatheredResults
from tracegrade.serve.judging.hand_over import HandOver
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.serve.judging.results_writer import ResultsWriter
from tracegrade.serve.judging.source import Sessions, Source
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.serve.tuning import RareGarbageCollection


@dataclass(frozen=True, slots=True)
class JudgingParts:
    """What a judging loop shares with the rest of its process.

    ``writer`` makes results durable; ``hand_over`` says what sinks have taken, and when to stop; ``heartbeat`` is for
    the watchdog; ``rules`` are those in force; ``deletions`` end a run when there are some to carry out; ``set_aside``
    has what has ended a judge.
    """

    writer: ResultsWriter
    hand_over: HandOver
    heartbeat: Heartbeat
    metrics: JudgeMetrics
    rules: RuleReload
    deletions: JudgeDeletions
    set_aside: SetAside


class JudgeLoop:
    """Judges what a source has, from its committed positions on."""

    def __init__(self, parts: JudgingParts, source: Source, sessions: Sessions | None) -> None:
        """Prepare.

        Args:
            parts: of this process.
            source: of records.
            sessions: those that are judged by turns; None where no other judge closes traces of our sessions.
        """
        self._parts = parts
        self._source = source
        self._sessions = sessions
        self._results = GatheredResults(parts.writer, parts.metrics, source)
        self._garbage = RareGarbageCollection()

    def run(self) -> None:
        """Judge until stopped, or until there is something to delete. The store holds all results when it begins."""
        with self._source.reading():
            goes_on = True
            while goes_on and not self._parts.hand_over.stopping.is_set():
                goes_on = self._round()
                if self._parts.deletions.are_waiting():
                    break
            if goes_on and self._results.append():
                self._all_durable()

    def _round(self) -> bool:
        """Fetch, judge, and make durable what is due; False when stopped meanwhile."""
        fetched = self._source.fetch()
        for part in fetched:
            part.judge.use(self._parts.rules.in_force)
            if not self._results.add(part.judge, part.judged):
                return False
        if self._sessions is not None and not self._sessions.take(fetched, self._results):
            return False
        if not (self._results.append() if self._source.has_suspects else self._results.append_when_due()):
            return False
        self._parts.heartbeat.beat(self._source.read_position)
        if self._results.is_empty:
            self._all_durable()
        self._source.publish()
        self._parts.writer.release_stored()
        self._garbage.collect_when_due(time.monotonic())
        self._source.end_round()
        return True

    def _all_durable(self) -> None:
        judged_to_ns = self._source.all_durable(self._results.end)
        if judged_to_ns is not None:
            self._parts.hand_over.judged(judged_to_ns, self._results.end)
