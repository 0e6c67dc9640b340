"""One trace judged: extract -> match -> evaluate. Pure: the same trace and rules give the same judgement anywhere.

This is the front door of the middle: `serve`, `replay`, `rules test`, `why` and notebooks all come through here.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import chain

from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evidence, Score
from tracegrade.evaluate.gate import gate
from tracegrade.extract.registry import extract
from tracegrade.match.evaluation_spec import EvaluationSpec
from tracegrade.match.load import RuleSet
from tracegrade.match.rule import Rule
from tracegrade.match.select import match
from tracegrade.model.evaluation import Decision, Evaluation, Outcome, evaluation_id
from tracegrade.model.extraction import Extraction
from tracegrade.model.subject import Subject
from tracegrade.model.trace import Trace

# Scores are sums of fractions: 0.1 + 0.2 must reach a threshold of 0.3.
PASS_TOLERANCE = 1e-9

HUNG = "hung"


@dataclass(slots=True)
class Judgement:
    """Everything that came of judging one trace; ``decisions`` has every (subject, rule) pair that matched."""

    extraction: Extraction
    decisions: list[Decision] = field(default_factory=list)

    @property
    def evaluations(self) -> list[Evaluation]:
        """The evaluations of all decisions, in their order."""
        return list(chain.from_iterable(decision.evaluations for decision in self.decisions))


def judge(
    trace: Trace,
    rule_set: RuleSet,
    *,
    run: str = "live",
    gated: bool = True,
    hung: Collection[tuple[str, str]] = (),
    working_on: Callable[[Rule], None] | None = None,
) -> Judgement:
    """Judge one trace by every rule that matches it.

    Args:
        trace: a closed trace.
        rule_set: the rules in force.
        run: ``live`` or an experiment's name; part of every evaluation's id.
        gated: answer not_evaluable where a call lacks what the evaluator reads, instead of scoring what is there.
        hung: (hex trace id, rule id) pairs that are not tried again: their decision is ``error: hung``.
        working_on: told each rule before its evaluators run, so that a watchdog can name what hangs.

    Returns:
        The judgement. Nothing raises: a crash inside an evaluator is an evaluation with outcome error.
    """
    extraction = extract(trace)
    trace_id = trace.trace_id.hex()
    judgement = Judgement(extraction)
    for matched in match(rule_set, extraction):
        rule, subject = matched.rule, matched.subject
        context = _Context(rule, subject, trace, trace_id, run, extraction.release)
        if hung and (trace_id, rule.id) in hung:
            decision = context.decide(
                "error", [context.evaluation(spec, "error", HUNG) for spec in rule.evaluate], HUNG
            )
        elif matched.not_evaluable is not None:
            why = matched.not_evaluable
            evaluations = [context.evaluation(spec, "not_evaluable", why) for spec in rule.evaluate]
            decision = context.decide("not_evaluable", evaluations, why)
        else:
            if working_on is not None:
                working_on(rule)
            evidence = Evidence(subject.calls, subject.prompt, subject.final_answer)
            evaluations = [_evaluate(context, spec, evidence, gated) for spec in rule.evaluate]
            decision = context.decide(*_combine(evaluations))
        judgement.decisions.append(decision)
    return judgement


@dataclass(slots=True)
class _Context:
    """What all evaluations of one (subject, rule) pair share."""

    rule: Rule
    subject: Subject
    trace: Trace
    trace_id: str
    run: str
    release: str | None

    def evaluation(self, spec: EvaluationSpec, outcome: Outcome, reason: str, score: Score | None = None) -> Evaluation:
        rule, subject, trace = self.rule, self.subject, self.trace
        return Evaluation(
            id=evaluation_id(
                tenant=trace.tenant,
                run=self.run,
                trace_id=self.trace_id,
                subject_kind=subject.kind,
                subject_id=subject.id,
                rule_id=rule.id,
                rule_hash=rule.hash,
                evaluation=spec.name,
                case_id=None,
                revision=trace.revision,
            ),
            tenant=trace.tenant,
            run=self.run,
            rule_id=rule.id,
            rule_hash=rule.hash,
            evaluation=spec.name,
            evaluator=spec.evaluator.name,
            case=None,
            subject_kind=subject.kind,
            subject_id=subject.id,
            trace_id=self.trace_id,
            span_id=subject.span_id,
            session=subject.session,
            agent=subject.agent,
            service=trace.resource.service,
            release=self.release,
            level=rule.level,
            score=score.score if score is not None else None,
            label=outcome,
            threshold=spec.threshold,
            outcome=outcome,
            reason=reason,
            explanation=score.explanation if score is not None else reason,
            details=score.details if score is not None else {},
            close_reason=trace.close_reason,
            complete=trace.complete,
            missing=trace.missing,
            revision=trace.revision,
            probability=1.0,
            time=_latest_end(subject),
        )

    def decide(self, outcome: Outcome, evaluations: list[Evaluation], reason: str) -> Decision:
        evaluated = outcome in ("pass", "fail")
        return Decision(
            rule_id=self.rule.id,
            rule_hash=self.rule.hash,
            subject_kind=self.subject.kind,
            subject_id=self.subject.id,
            kind="evaluated" if evaluated else "error" if outcome == "error" else "not_evaluable",
            outcome=outcome if evaluated else None,
            reason=reason,
            evaluations=evaluations,
        )


def _evaluate(context: _Context, spec: EvaluationSpec, evidence: Evidence, gated: bool) -> Evaluation:
    evaluator = spec.evaluator
    try:
        if gated and (lack := gate(evaluator, spec.criteria, spec.settings, evidence.calls)) is not None:
            return context.evaluation(spec, "not_evaluable", lack)
        score = evaluator.evaluate(evidence, spec.criteria, spec.settings)
    except EvaluatorError as error:
        return context.evaluation(spec, "error", f"{error.type}: {error}")
    except Exception as error:  # a bug in one evaluator must not take the others along; it is named in the result
        return context.evaluation(spec, "error", f"{type(error).__name__}: {error}")
    if score.score is None:
        return context.evaluation(spec, "not_evaluable", score.explanation, score)
    return context.evaluation(spec, "pass" if score.score >= spec.threshold - PASS_TOLERANCE else "fail", "", score)


def _combine(evaluations: list[Evaluation]) -> tuple[Outcome, list[Evaluation], str]:
    """A rule's outcome on a subject: fail if any fails, else error, else not_evaluable, else pass."""
    for outcome in ("fail", "error", "not_evaluable"):
        for evaluation in evaluations:
            if evaluation.outcome == outcome:
                return evaluation.outcome, evaluations, evaluation.reason
    return "pass", evaluations, ""


def _latest_end(subject: Subject) -> int:
    """The latest end judged, ns: results carry it as their time, so that a resend is identical."""
    ends = [call.end_ns for call in subject.calls]
    if subject.run is not None:
        ends.append(subject.run.end_ns)
    if subject.kind == "trace" or not any(ends):
        ends += [span.end_ns for span in subject.trace.spans]
    return max(ends, default=0)
