"""Which rules judge which subjects of a trace, and why the others do not."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tracegrade.cel.expression import CelExpression
from tracegrade.evaluate.following import Begin, begin
from tracegrade.evaluate.not_evaluable_reasons import sentence
from tracegrade.match.case_choice import choose
from tracegrade.match.facts import FactReader, Facts, session_facts
from tracegrade.match.index import Index, indexes
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import Session
from tracegrade.model.span import Span
from tracegrade.model.subject import Subject
from tracegrade.model.trace import Trace, TraceOutline
from tracegrade.model.tri import Tri, Unknown, all_of, negated
from tracegrade.rule.case import Case
from tracegrade.rule.rule import Rule, RuleScope, TraceScope
from tracegrade.rule.rule_set import RuleSet
from tracegrade.semconv import SUITE_SCOPE


@dataclass(slots=True)  # not frozen: making a frozen one takes three times as long
class Match:
    """A rule that matches a subject; ``not_evaluable`` says why it cannot judge it, None when it can.

    ``facts`` are the subject's, as clauses read them. ``case`` is the case that it meets, if any, or why it is unknown
    which case of the rule that is. ``begin`` is where what ``then`` judges begins, None without ``when``.
    """

    rule: Rule
    subject: Subject
    facts: Facts
    not_evaluable: str | None = None
    case: Case | Unknown | None = None
    begin: Begin | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether a rule judges a subject: ``clause`` is the first that did not hold, None when all do.

    Clauses are named as in the file: ``service``, ``attributes.tenant.tier``, ``unless``, ``when`` (no such call was
    made), ``cases`` (none is met).
    ``not_evaluable`` as in `Match`.
    """

    subject: Subject
    clause: str | None
    not_evaluable: str | None = None


def match_trace(rule_set: RuleSet, extraction: Extraction) -> Iterator[Match]:
    """The pairs of rule and subject to evaluate, by scope (agent, trace, tool-call), subject and rule id.

    A subject is matched when its first pair is asked for.

    The pairs of one subject follow each other and share one `Subject` object. Sessions are matched by `match_session`.

    Pairs that do not match are left out: `explain` names them. The cost grows with the rules that match.
    """
    reader = FactReader(extraction)
    by_scope = rule_set.once(indexes)
    for scope in SUBJECTS:
        if (index := by_scope.get(scope)) is not None:
            for depth in index.depths:
                for subject in subjects_of(extraction, scope, depth):
                    yield from _match(index, reader.read(subject), depth)


def match_session(rule_set: RuleSet, session: Session) -> list[Match]:
    """The rules of scope session that judge `session`, by rule id; none for one without runs."""
    if not session.parts or (index := rule_set.once(indexes).get("session")) is None:
        return []
    return _match(index, session_facts(session, session_subject(session)))


def _match(index: Index, facts: Facts, depth: int = 0) -> list[Match]:
    found = []
    for rule in index.candidates(facts):
        if rule.depth != depth:
            continue
        met = _met(rule, facts)
        if met.clause is None:
            found.append(Match(rule, facts.subject, facts, met.not_evaluable, met.case, met.begin))
    return found


def explain(rule: Rule, extraction: Extraction) -> list[Explanation]:
    """For every subject of the rule's scope in this trace, whether the rule judges it; empty when there is none.

    A trace has no subject of scope session, since a session may go on in other traces: see `explain_session`.
    """
    return next(explain_each([rule], extraction))[1]


def explain_each(rules: Iterable[Rule], extraction: Extraction) -> Iterator[tuple[Rule, list[Explanation]]]:
    """Each rule with its `explain`; the facts of subjects are read once for all rules."""
    reader = FactReader(extraction)
    known: dict[tuple[RuleScope, int], list[Facts]] = {("session", 0): []}
    for rule in rules:
        key = rule.scope, rule.depth
        if (subjects := known.get(key)) is None and rule.scope != "session":
            subjects = known[key] = [
                reader.read(subject) for subject in subjects_of(extraction, rule.scope, rule.depth)
            ]
        yield rule, [_explanation(rule, facts) for facts in subjects or ()]


def explain_session(rule: Rule, session: Session) -> list[Explanation]:
    """Whether the rule judges `session`; empty for a rule of another scope and for a session without runs."""
    if rule.scope != "session" or not session.parts:
        return []
    return [_explanation(rule, session_facts(session, session_subject(session)))]


def _explanation(rule: Rule, facts: Facts) -> Explanation:
    met = _met(rule, facts)
    return Explanation(facts.subject, met.clause, met.not_evaluable)


@dataclass(slots=True)
class _Met:
    """Whether a subject meets a rule; the fields are as in `Explanation` and `Match`."""

    clause: str | None
    not_evaluable: str | None = None
    case: Case | Unknown | None = None
    begin: Begin | None = None


def _met(rule: Rule, facts: Facts) -> _Met:
    clause, holds = unmatched(rule, facts)
    if clause is not None:
        return _Met(clause)
    start = None
    if rule.begins_after is not None:
        start = begin(facts.evidence, rule.begins_after)
        if (is_met := start.is_met) is False:
            return _Met("when")
        holds = is_met if holds is True else holds
    case = None
    if rule.cases is not None:
        case = None if _is_within_case(facts.subject) else choose(rule.cases, facts)
        if not rule.evaluate and not rule.then:
            if case is None:
                return _Met("cases")
            holds = case if holds is True and isinstance(case, Unknown) else holds
    return _Met(None, sentence(holds) if isinstance(holds, Unknown) else None, case, start)


def _case_root(trace: Trace | TraceOutline) -> Span | None:
    """The root of a run of a case of a suite, which stands for the agent as a whole: all calls are its; else None."""
    root = trace.root
    return root if root is not None and root.scope == SUITE_SCOPE else None


def _is_within_case(subject: Subject) -> bool:
    """Whether it is an agent that worked for the one which was asked, and is no second answer to the case."""
    if subject.kind != "agent" or (root := _case_root(subject.trace)) is None:
        return False
    return subject.span_id != root.span_id.hex()


def unmatched(rule: Rule, facts: Facts) -> tuple[str | None, Tri]:
    """The first clause that does not hold, None where none is false; and whether all hold.

    Of several values and names that cannot be read, the last one that ``match`` asks for is the reason.
    """
    found: Tri = True
    for clause, patterns in rule.match_clauses:
        holds = facts.match(clause, patterns)
        if holds is False:
            return clause, False
        if holds is not True:
            found = holds
    if (cel := rule.match.cel) is not None and (found := all_of((found, facts.holds(cel)))) is False:
        return "cel", False
    if rule.unless is None:
        return None, found
    excluded = _excluded(rule, rule.unless.cel, facts)
    if excluded is True:
        return "unless", False
    return None, found if excluded is False else all_of((found, negated(excluded)))


def _excluded(rule: Rule, cel: CelExpression | None, facts: Facts) -> Tri:
    """Whether all clauses of ``unless`` hold; the reason is as of `unmatched`."""
    found: Tri = True
    for clause, patterns in rule.unless_clauses:
        holds = facts.match(clause, patterns)
        if holds is False:
            return False
        if holds is not True:
            found = holds
    return found if cel is None else all_of((found, facts.holds(cel)))


def subjects_of(extraction: Extraction, scope: TraceScope, depth: int = 0) -> list[Subject]:
    """The subjects of a scope; of an agent, with the calls of its sub-agents down to `depth`."""
    subjects = SUBJECTS[scope](extraction)
    return _with_calls_of_sub_agents(extraction, subjects, depth) if depth else subjects


def _with_calls_of_sub_agents(extraction: Extraction, subjects: list[Subject], depth: int) -> list[Subject]:
    """`subjects`, agent runs, each with the calls of the runs that it started, and of theirs, down to `depth`."""
    parents = {run.span_id: run.parent_span_id for run in extraction.runs}
    within: dict[str, set[str]] = {run: {run} for run in parents}
    for run in parents:
        above: str | None = run
        for _ in range(depth):
            if (above := parents.get(above or "")) is None or run in within.setdefault(above, {above}):
                break
            within[above].add(run)
    for subject in subjects:
        runs = within.get(subject.id, set())
        # The root of a suite's case has all calls already, however deep.
        if len(runs) > 1 and subject.calls is not extraction.calls:
            subject.calls = [call for call in extraction.calls if call.agent_span_id in runs]
            subject.sub_runs = runs - {subject.id}
    return subjects


def _agent_subjects(extraction: Extraction) -> list[Subject]:
    root = _case_root(extraction.trace)
    whole = root.span_id.hex() if root is not None else None
    return [
        Subject(
            kind="agent",
            id=run.span_id,
            trace=extraction.trace,
            run=run,
            calls=run.calls if run.span_id != whole else extraction.calls,
            agent=run.agent,
            span_id=run.span_id,
            session=run.session or extraction.session,
            prompt=run.prompt,
            final_answer=run.final_answer,
            sub_runs=() if run.span_id != whole else [each.span_id for each in extraction.runs],
        )
        for run in extraction.runs
    ]


def _trace_subject(extraction: Extraction) -> list[Subject]:
    """The trace; none where nothing ran, as in one that only makes an agent."""
    trace = extraction.trace
    if (run := _outermost(extraction.runs)) is None:
        return []
    return [
        Subject(
            kind="trace",
            id=trace.trace_id.hex(),
            trace=trace,
            run=run,
            calls=extraction.calls,
            agent=run.agent,
            span_id=(trace.root or trace.spans[0]).span_id.hex(),
            session=extraction.session,
            prompt=run.prompt,
            final_answer=run.final_answer,
        )
    ]


def _tool_call_subjects(extraction: Extraction) -> list[Subject]:
    runs = {run.span_id: run for run in extraction.runs}
    subjects = []
    for call in extraction.calls:
        run = runs.get(call.agent_span_id)
        subjects.append(
            Subject(
                kind="tool-call",
                id=call.subject_id,
                trace=extraction.trace,
                run=run,
                calls=[call],
                agent=call.agent,
                span_id=call.span_id,
                session=(run.session if run else None) or extraction.session,
                prompt=run.prompt if run else None,
                final_answer=run.final_answer if run else None,
            )
        )
    return subjects


def session_subject(session: Session) -> Subject:
    """A session as a subject of rules."""
    last = session.last.trace
    first = _outermost(session.parts[0].runs)
    answers = [run.final_answer for part in session.parts if (run := _outermost(part.runs)) is not None]
    return Subject(
        kind="session",
        id=session.id,
        trace=last,
        run=first,
        calls=session.calls,
        agent=first.agent if first else "",
        span_id=(last.root.span_id if last.root is not None else last.first_span_id).hex(),
        session=session.id,
        prompt=first.prompt if first else None,
        final_answer=answers[-1],
    )


def _outermost(runs: list[AgentRun]) -> AgentRun | None:
    return next((run for run in runs if run.parent_span_id is None), runs[0] if runs else None)


SUBJECTS: dict[TraceScope, Callable[[Extraction], list[Subject]]] = {
    "agent": _agent_subjects,
    "trace": _trace_subject,
    "tool-call": _tool_call_subjects,
}
