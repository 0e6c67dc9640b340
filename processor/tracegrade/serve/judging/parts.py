"""What judging works with, wherever its records come from."""

from dataclasses import dataclass

from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.pipeline.set_aside import SetAside
from tracegrade.serve.judging.deletions import JudgeDeletions
from tracegrade.serve.judging.hand_over import HandOver
from tracegrade.serve.judging.metrics import JudgeMetrics
from tracegrade.serve.judging.results_writer import ResultsWriter
from tracegrade.serve.rule_reload import RuleReload


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
