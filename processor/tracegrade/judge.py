"""One trace or session judged: extract -> match -> evaluate. Pure: the same trace and rules give the same judgement.

This is the front door of the middle: `serve`, `replay`, `rules test`, `why` and notebooks all come through here.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evidence import Evidence, Score, SubjectFacts, TraceContext
from tracegrade.evaluate.following import Begin, following
from tracegrade.evaluate.not_evaluable_reasons import sentence
from tracegrade.evaluate.registry import packages
from tracegrade.extract.extract import extract
from tracegrade.extract.trace_context import ExtractionContext, SessionContext, SubjectContext
from tracegrade.match.select import Match, match_session, match_trace
from tracegrade.model.evaluation import (
    Decision,
    Evaluation,
    JudgedSubject,
    Measure,
    Outcome,
    Pair,
    evaluation_id,
    pair_key,
    subject_key,
)
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import Session, session_trace_id
from tracegrade.model.subject import Subject
from tracegrade.model.trace import Trace
from tracegrade.model.trace_result import NotDecoded
from tracegrade.model.tri import Unknown
from tracegrade.model.usage import CostOf, no_prices
from tracegrade.rule.case import Case
from tracegrade.rule.evaluation_spec import EvaluationSpec
from tracegrade.rule.evaluator_file import named_line
from tracegrade.rule.fail_sentence import of_fail
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

NOTHING_SET_ASIDE: Mapping[tuple[str, str], str] = {}


_WORST_FIRST: tuple[Outcome, ...] = ("fail", "error", "not_evaluable")


@dataclass(slots=True)
class Judgement:
    """The result of judging one trace; ``decisions`` has every (subject, rule) pair that matched.

    ``not_decoded`` says why no rule judges it, where that is known without reading its spans; its runs and calls are
    not read then. ``cost_of`` are the prices in force.
    """

    extraction: Extraction
    decisions: list[Decision] = field(default_factory=list)
    not_decoded: NotDecoded | None = None
    cost_of: CostOf = no_prices

    @property
    def evaluations(self) -> list[Evaluation]:
        """The evaluations of all decisions, in their order."""
        return list(chain.from_iterable(decision.evaluations for decision in self.decisions))


def judge(
    trace: Trace,
    rule_set: RuleSet,
    *,
    run: str = "live",
    set_aside: Mapping[tuple[str, str], str] = NOTHING_SET_ASIDE,
    working_on: Callable[[Rule], None] | None = None,
    tool_name: Callable[[str], str] | None = None,
    cost_of: CostOf = no_prices,
) -> Judgement:
    """Judge one trace by every rule that matches it.

    Args:
        trace: a closed trace.
        rule_set: the rules in force.
        run: ``live`` or an experiment's name; part of every evaluation's id.
        set_aside: (hex trace id, rule id) pairs that are not tried again, and the reason of their decision, an error.
        working_on: called with each rule before its evaluators run, so that a watchdog can name what hangs.
        tool_name: gives the name that rules use for a tool that has several names, such as `ToolAliases`.
        cost_of: says what model calls cost, such as `Prices`.

    Returns:
        The judgement. Nothing raises: a crash inside an evaluator is an evaluation with outcome error.
    """
    extraction = extract(trace, tool_name)
    return judge_extraction(extraction, rule_set, run=run, set_aside=set_aside, working_on=working_on, cost_of=cost_of)


def judge_extraction(
    extraction: Extraction,
    rule_set: RuleSet,
    *,
    run: str = "live",
    set_aside: Mapping[tuple[str, str], str] = NOTHING_SET_ASIDE,
    working_on: Callable[[Rule], None] | None = None,
    cost_of: CostOf = no_prices,
) -> Judgement:
    """As `judge`, of what was read of the trace: by several rule sets it is read once."""
    decisions = decide(extraction, rule_set, run=run, set_aside=set_aside, working_on=working_on, cost_of=cost_of)
    return Judgement(extraction, list(decisions), cost_of=cost_of)


def decide(
    extraction: Extraction,
    rule_set: RuleSet,
    *,
    run: str = "live",
    set_aside: Mapping[tuple[str, str], str] = NOTHING_SET_ASIDE,
    working_on: Callable[[Rule], None] | None = None,
    cost_of: CostOf = no_prices,
) -> Iterator[Decision]:
    """The decisions of `judge_extraction`, each made when it is asked for."""
    trace_id = extraction.trace.trace_id.hex()
    evidences, trace_context = Evidences(redacted=extraction.redacted), ExtractionContext(extraction, cost_of)
    subject: _Judged | None = None
    for matched in match_trace(rule_set, extraction):
        if subject is None or subject.subject is not matched.subject:
            context = SubjectContext(trace_context, matched.subject)
            evidence = evidences.of(matched.subject, context, matched.facts)
            subject = _Judged(matched, evidence, _facts_in(matched, extraction, run), trace_id)
        yield _decide(subject, matched, trace_id, trace_id, set_aside, working_on)


def judge_session(
    session: Session,
    rule_set: RuleSet,
    *,
    run: str = "live",
    set_aside: Mapping[tuple[str, str], str] = NOTHING_SET_ASIDE,
    working_on: Callable[[Rule], None] | None = None,
    cost_of: CostOf = no_prices,
) -> list[Decision]:
    """Judge one session, with its traces so far, by every rule of scope session that matches; otherwise as `judge`.

    In `set_aside` it has its own trace id (`session_trace_id`).
    """
    trace_id = session_trace_id(session.tenant, session.id).hex()
    subject: _Judged | None = None
    decisions = []
    for matched in match_session(rule_set, session):
        if subject is None:
            facts = _facts_of_session(matched, session, run)
            evidence = Evidences(redacted=session.redacted).of(
                matched.subject, SessionContext(session, cost_of), matched.facts
            )
            subject = _Judged(matched, evidence, facts, "")
        decisions.append(_decide(subject, matched, session.id, trace_id, set_aside, working_on))
    return decisions


def _decide(
    subject: "_Judged",
    matched: Match,
    sampled_by: str,
    trace_id: str,
    set_aside: Mapping[tuple[str, str], str],
    working_on: Callable[[Rule], None] | None,
) -> Decision:
    """The decision on one (subject, rule) pair that matched."""
    rule = matched.rule
    pair = _JudgedPair(subject, rule)
    sample = rule.sample
    sampled = sample.holds(sampled_by)
    if not sampled and not sample.keep_failures:
        decision = pair.sampled_out()
    elif set_aside and (reason := set_aside.get((trace_id, rule.id))) is not None:
        decision = pair.decide_alike("error", reason, matched.case)
    elif matched.not_evaluable is not None:
        decision = pair.decide_alike("not_evaluable", matched.not_evaluable, matched.case)
    else:
        if working_on is not None:
            working_on(rule)
        evaluations = [_evaluate(pair, spec, pair.evidence) for spec in rule.evaluate]
        if matched.begin is not None:
            evaluations += _evaluate_following(pair, matched.begin)
        if matched.case is not None and rule.cases is not None:
            if isinstance(matched.case, Unknown):
                evaluations.append(pair.unscored(rule.cases.unchosen, "not_evaluable", sentence(matched.case)))
            else:
                evaluations.append(_evaluate(pair, matched.case.spec, pair.evidence))
        decision = pair.decide(*_combine(evaluations))
    if decision.outcome == "fail" and sample.keep_failures:
        decision.pair.probability = 1.0
    elif not sampled:
        return pair.sampled_out()
    if rule.measures:
        decision.measured = _measured(rule, pair.evidence.trace_context)
    return decision


def _measured(rule: Rule, trace_context: TraceContext | None) -> tuple[tuple[Measure, float | None], ...]:
    """What the rule's alerts watch of a subject beside outcomes."""
    return tuple((name, _MEASURED[name](trace_context) if trace_context else None) for name in rule.measures)


def _duration_s(trace_context: TraceContext) -> float | None:
    duration_ns = trace_context.duration_ns()
    return None if duration_ns is None else duration_ns / 1e9


_MEASURED: dict[Measure, Callable[[TraceContext], float | None]] = {
    "tokens": lambda trace_context: trace_context.tokens(),
    "cost": lambda trace_context: trace_context.cost().amount,
    "duration": _duration_s,
}


def _facts_in(matched: Match, extraction: Extraction, run: str) -> JudgedSubject:
    """The facts that all results for a subject of a trace carry."""
    subject, trace = matched.subject, extraction.trace
    return JudgedSubject(
        trace.tenant,
        run,
        trace.trace_id.hex(),
        trace.revision,
        trace.close_reason,
        trace.complete,
        trace.missing,
        extraction.release,
        subject.kind,
        subject.id,
        subject.span_id,
        subject.session,
        subject.agent,
        matched.facts.service,
        _latest_end(subject),
    )


def _facts_of_session(matched: Match, session: Session, run: str) -> JudgedSubject:
    """The facts that all results for a session carry."""
    subject = matched.subject
    return JudgedSubject(
        session.tenant,
        run,
        subject.trace.trace_id.hex(),
        session.revision,
        session.close_reason,
        session.complete,
        session.missing,
        session.parts[0].release,
        subject.kind,
        subject.id,
        subject.span_id,
        subject.session,
        subject.agent,
        matched.facts.service,
        subject.trace.end_ns,
    )


class Evidences:
    """The evidence of a trace's subjects; the facts of a run are shared by its calls."""

    def __init__(self, *, redacted: bool) -> None:
        """`redacted`: something of the trace was, or of the session's traces."""
        self._redacted = redacted
        self._runs: dict[int, Evidence] = {}

    def of(
        self, subject: Subject, trace_context: TraceContext | None = None, facts: SubjectFacts | None = None
    ) -> Evidence:
        """The evidence of `subject`, which must be of the same trace as all earlier ones."""
        run = None
        if subject.kind == "tool-call" and subject.run is not None and subject.run.calls:
            calls = subject.run.calls
            if (run := self._runs.get(id(calls))) is None:
                run = self._runs[id(calls)] = Evidence(calls, redacted=self._redacted)
        return Evidence(
            subject.calls,
            subject.prompt,
            subject.final_answer,
            trace_context,
            run,
            facts,
            redacted=self._redacted,
        )


class _Judged:
    """A subject's evidence, and the facts that all its results carry: made once, for all rules.

    ``trace_id`` (hex) is the trace in which its id is unique, "" when the id is unique by itself.
    """

    __slots__ = ("evidence", "facts", "key", "subject")

    def __init__(self, matched: Match, evidence: Evidence, facts: JudgedSubject, trace_id: str) -> None:
        self.subject = matched.subject
        self.evidence = evidence
        self.facts = facts
        self.key = subject_key(facts.tenant, facts.run, trace_id, facts.kind, facts.id)


class _JudgedPair:
    """One subject and one rule that judges it: makes the decision and its evaluations."""

    __slots__ = ("_key", "_pair", "evidence", "rule")

    def __init__(self, judged: _Judged, rule: Rule) -> None:
        facts = judged.facts
        self.evidence = judged.evidence
        self.rule = rule
        self._pair = Pair(facts, rule.id, rule.hash, rule.level, rule.sample.share)
        self._key = pair_key(judged.key, rule.id, rule.hash, facts.revision)

    def unscored(self, spec: EvaluationSpec, outcome: Outcome, reason: str) -> Evaluation:
        """An evaluation without a score, which has only a `reason`."""
        return self.evaluation(spec, outcome, reason, Score(None, {}, reason))

    def evaluation(self, spec: EvaluationSpec, outcome: Outcome, reason: str, score: Score) -> Evaluation:
        """The evaluation of one item of the rule."""
        return Evaluation(  # by position: named arguments take three times as long
            self._pair,
            evaluation_id(self._key, spec.name, spec.case),
            spec.name,
            spec.evaluator.name,
            spec.case,
            spec.threshold,
            score.score,
            outcome,
            reason,
            score.explanation,
            score.details,
            None if score.pairing is None else score.pairing.pairs,
        )

    def sampled_out(self) -> Decision:
        """The decision for a trace that is not in the rule's sample."""
        return Decision(self._pair, "sampled_out", None, "", [])

    def decide_alike(self, outcome: Outcome, reason: str, case: Case | Unknown | None) -> Decision:
        """The decision when nothing is evaluated: all evaluations have the same outcome."""
        specs = [*self.rule.evaluate, *self.rule.then, *([case.spec] if isinstance(case, Case) else ())]
        if not specs and self.rule.cases is not None:
            specs = [self.rule.cases.unchosen]
        return self.decide(outcome, [self.unscored(spec, outcome, reason) for spec in specs], reason)

    def decide(self, outcome: Outcome, evaluations: list[Evaluation], reason: str) -> Decision:
        """The decision that `evaluations` lead to."""
        if outcome == "pass" or outcome == "fail":
            return Decision(self._pair, "evaluated", outcome, reason, evaluations)
        return Decision(self._pair, outcome, None, reason, evaluations)


def _evaluate_following(pair: _JudgedPair, begin: Begin) -> list[Evaluation]:
    """The evaluations of ``then``; not evaluable where an earlier call that cannot be read could change one."""
    assert begin.certain is not None, "only then there is something to judge"
    after = following(pair.evidence, begin.certain)
    found = [_evaluate(pair, spec, after) for spec in pair.rule.then]
    if begin.possible is None:
        return found
    assert begin.unknown is not None, "so there is a reason"
    earlier = following(pair.evidence, begin.possible)
    return [
        evaluation
        if _evaluate(pair, spec, earlier).outcome == evaluation.outcome
        else pair.unscored(spec, "not_evaluable", sentence(begin.unknown))
        for spec, evaluation in zip(pair.rule.then, found, strict=True)
    ]


def _evaluate(pair: _JudgedPair, spec: EvaluationSpec, evidence: Evidence) -> Evaluation:
    evaluator, criteria, settings = spec.evaluator, spec.criteria, spec.settings
    try:
        score = evaluator.evaluate(evidence, criteria, settings)
    except EvaluatorError as error:
        return pair.unscored(spec, "error", f"{error.type}: {error}")
    except (Exception, SystemExit) as bug:  # in one evaluator: the others go on, and the result names it
        return pair.unscored(spec, "error", f"{type(bug).__name__}: {bug}".removesuffix(": ") + _where(spec, bug))
    outcome = score.outcome(spec.threshold)
    if outcome == "not_evaluable" and score.range is not None:
        return pair.unscored(spec, outcome, score.range.why)
    if outcome == "fail" and pair.rule.explain:
        score = _in_own_words(score, pair.rule, evidence)
    return pair.evaluation(spec, outcome, score.explanation if outcome == "not_evaluable" else "", score)


def _in_own_words(score: Score, rule: Rule, evidence: Evidence) -> Score:
    """The score of a fail with the sentence that the rule has for it."""
    of_call, is_of_one = rule.scope == "tool-call", rule.has_one_evaluator
    said = of_fail(rule.explain, evidence, score.details, of_call=of_call, is_of_one=is_of_one)
    return score if said is None else Score(score.score, said[1], said[0], pairing=score.pairing)


def _where(spec: EvaluationSpec, bug: BaseException) -> str:
    """The last line that `bug` came through of a file beside the rule or of a package; "" of an evaluator of ours.

    A package's is named by its module, never by a path, so that all machines say the same.
    """
    if spec.file is not None:
        return f" ({spec.file.where(bug)})"
    if spec.evaluator.name not in packages():
        return ""
    module = sys.modules[spec.evaluator.Criteria.__module__]
    written = f"{module.__name__.replace('.', '/')}.py"
    line = named_line(written, module.__file__ or "", bug)
    return "" if line == written else f" ({line})"


def _combine(evaluations: list[Evaluation]) -> tuple[Outcome, list[Evaluation], str]:
    """A rule's outcome on a subject: fail if any fails, else error, else not_evaluable, else pass."""
    outcomes = [evaluation.outcome for evaluation in evaluations]
    for outcome in _WORST_FIRST:
        if outcome in outcomes:
            return outcome, evaluations, evaluations[outcomes.index(outcome)].reason
    return "pass", evaluations, ""


def _latest_end(subject: Subject) -> int:
    """The latest end judged, ns: results carry it as their time, so that a resend is identical."""
    ends = [call.end_ns for call in subject.calls]
    if subject.run is not None:
        ends.append(subject.run.end_ns)
    if subject.kind == "trace" or not any(ends):
        ends.append(subject.trace.end_ns)
    return max(ends, default=0)
