"""One stored trace judged by the changed rules, and by those of the other side: what a worker hands back."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tracegrade.compare.rejudging.traces import ReadFilter
from tracegrade.judge import judge_extraction, judge_session
from tracegrade.model.evaluation import Decision
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import Session
from tracegrade.pipeline.judged import Judged, JudgedSession
from tracegrade.pipeline.packed import LeftOut
from tracegrade.rule.prices import Price, Prices
from tracegrade.rule.reading import RuleReading
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.schema import OUTCOMES, SUBJECT_KINDS


class RuleResult(NamedTuple):
    """What one rule said of one subject.

    ``word`` is the outcome, or ``sampled_out``. ``evaluations``: name, outcome (an index into `OUTCOMES`) and score of
    each. ``measured``: what the rule's alerts watch beside, by name.
    """

    rule_id: str
    kind: int
    subject: str
    agent: str
    service: str
    release: str | None
    word: str
    probability: float
    explanation: str = ""
    evaluations: tuple[tuple[str, int, float | None], ...] = ()
    measured: tuple[tuple[str, float | None], ...] = ()


class RuleResultsOfTrace(NamedTuple):
    """What the changed rules said of a trace or session, and what the others did: None, live did.

    ``decisions``: those of the changed rules whole, when they are to be stored. Of a session, ``trace_id`` is that of
    its last trace. ``complete`` says whether nothing is missing.
    """

    trace_id: bytes
    complete: bool
    after: list[RuleResult]
    before: list[RuleResult] | None
    decisions: Sequence[Decision] = ()


@dataclass(frozen=True)
class OtherRules:
    """The rules of the other side as plain data, so that a worker reads them itself, once."""

    paths: tuple[str, ...]
    ids: frozenset[str]
    reading: RuleReading
    prices: tuple[tuple[str, Price], ...]

    def judge(self, found: Extraction | Session) -> Sequence[Decision]:
        """What these rules decide of a trace or session."""
        rule_set, prices = _rules_and_prices(self)
        if isinstance(found, Session):
            return judge_session(found, rule_set, cost_of=prices)
        return judge_extraction(found, rule_set, cost_of=prices).decisions


@cache
def _rules_and_prices(other: OtherRules) -> tuple[RuleSet, Prices]:
    rule_set = other.reading.load(other.paths).only(other.ids)
    return rule_set, Prices(dict(other.prices))


@dataclass(frozen=True, slots=True)
class Showing:
    """Shows a judged trace or session: `pipeline.workers.ReplayJob.show`.

    ``read`` says of which. ``whole``: show decisions whole, to store them.
    """

    other: OtherRules | None
    read: ReadFilter
    whole: bool = False

    def __call__(self, judged: Judged) -> RuleResultsOfTrace | LeftOut:
        """What was said of a trace or a session."""
        of = judged.session if isinstance(judged, JudgedSession) else judged.judgement.extraction
        if not self.read.takes(of):
            return LeftOut(chosen=False)
        before = None if self.other is None else list(map(rule_result, self.other.judge(of)))
        decisions = [item for item in judged.decisions if item.kind != "sampled_out"] if self.whole else ()
        last, complete = (of.last.trace, of.complete) if isinstance(of, Session) else (of.trace, of.trace.complete)
        return RuleResultsOfTrace(last.trace_id, complete, list(map(rule_result, judged.decisions)), before, decisions)


def rule_result(decision: Decision) -> RuleResult:
    """What a decision says."""
    pair, word = decision.pair, decision.outcome or decision.kind
    subject = pair.subject
    return RuleResult(
        pair.rule_id,
        SUBJECT_KINDS.index(subject.kind),
        subject.id,
        subject.agent,
        subject.service,
        subject.release,
        word,
        pair.probability,
        explanation_of(decision),
        tuple((item.evaluation, OUTCOMES.index(item.outcome), item.score) for item in decision.evaluations),
        decision.measured,
    )


def explanation_of(decision: Decision) -> str:
    """Why a rule failed, or could not be judged; "" when it passed."""
    if decision.outcome == "pass":
        return ""
    word = decision.outcome or decision.kind
    texts: Sequence[str] = [item.explanation or item.reason for item in decision.evaluations if item.outcome == word]
    return next(filter(None, texts), decision.reason)
