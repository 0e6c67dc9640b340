"""Why a stored trace was judged as it was, or not at all; shown by ``tracegrade why`` and the page."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection

from tracegrade.assemble.settings import TracesSettings
from tracegrade.display import json_text
from tracegrade.extract.session import part_of, session_ids
from tracegrade.history.earlier_turns import EarlierTurns, Turns
from tracegrade.history.stored_extraction import extract_stored, session_of, stored_session_of
from tracegrade.match.select import Explanation, explain_each, explain_session
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import Session
from tracegrade.model.trace_result import TraceResult
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.read import sessions_of

# Which rules were in force is not stored with a trace, only whether they judged as those of now do.
_WHEN_IT_CAME = "its sample leaves the trace out; it came under other rules, maybe without this one"


@dataclass(frozen=True, slots=True)
class StoredJudgement:
    """A trace, or session, as it is stored, and the sessions that the trace is part of, by name.

    ``extraction`` is None of a session, and of a trace whose values were deleted. A session is read when it is asked
    for: that takes as long as it has traces.
    """

    stored: TraceResult
    extraction: Extraction | None
    sessions: dict[str, Callable[[], Session]]
    decisions: list[Decision]
    turns: Turns


def read_judgement(connection: Connection, stored: TraceResult, settings: TracesSettings) -> StoredJudgement:
    """The stored trace or session, with what `stored_pairs` and `derived_pairs` need to explain it.

    Raises:
        Unreadable: its spans are damaged, or were stored by another version.
    """
    turns = EarlierTurns(connection, stored, settings)

    def whole(session: TraceResult) -> Callable[[], Session]:
        return cache(lambda: stored_session_of(connection, session, settings))

    if stored.trace.members is not None:
        return StoredJudgement(stored, None, {stored.trace.session or "": whole(stored)}, stored.decisions, turns)
    if stored.values_are_gone:
        return StoredJudgement(stored, None, {}, stored.decisions, turns)
    extraction = extract_stored(stored, settings)
    judged = {session.trace.session or "": session for session in sessions_of(connection, stored)}
    sessions = {name: whole(session) for name, session in judged.items()}
    for name in session_ids(extraction):
        if name not in judged and (part := part_of(extraction, name)) is not None:
            alone = session_of([part], name, stored.trace.tenant, {})
            sessions[name] = lambda alone=alone: alone  # type: ignore[misc]
    decisions = [decision for item in (stored, *judged.values()) for decision in item.decisions]
    return StoredJudgement(stored, extraction, sessions, decisions, turns)


def stored_pairs(read: StoredJudgement) -> list[dict[str, Any]]:
    """The decisions made when the trace and its sessions were judged, and what earlier turns add to them now."""
    shown = ("evaluation", "case", "outcome", "score", "threshold", "explanation", "reason")
    return [
        {
            "rule_id": decision.pair.rule_id,
            "subject": {"kind": decision.pair.subject.kind, "id": decision.pair.subject.id},
            "decision": decision.kind,
            "outcome": decision.outcome,
            "reason": decision.reason,
            "evaluations": [
                {
                    **{name: getattr(item, name) for name in shown},
                    "explanation": item.full_explanation,
                    **_looked_up(read, item),
                }
                for item in decision.evaluations
            ],
        }
        for decision in read.decisions
    ]


def _looked_up(read: StoredJudgement, evaluation: Evaluation) -> dict[str, Any]:
    """For values that should come from elsewhere and did not: what was looked up, and what earlier turns called."""
    found = evaluation.details.get("differences") if evaluation.outcome == "fail" else None
    differences = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    shown = {
        "differences": [item for item in differences if "looked_up" in item],
        "earlier_turns": read.turns.that_called(evaluation),
    }
    return {name: value for name, value in shown.items() if value}


def derived_pairs(read: StoredJudgement, rule_set: RuleSet, *, judged_alike: bool = True) -> list[dict[str, Any]]:
    """What the rules in force say about the trace beyond what was stored: mostly which clause did not match.

    Nothing of one whose values were deleted. Of a trace that was not decoded also that a rule's sample leaves it out,
    which is stored of others; without `judged_alike`, other rules judged it.
    """
    if read.stored.values_are_gone:
        return []
    decided, afterwards = _subjects(read.decisions), _subjects(read.stored.backfilled)
    pairs = []
    in_trace: Iterable[tuple[Rule, list[Explanation]]] = (
        explain_each(rule_set.rules, read.extraction)
        if read.extraction is not None
        else ((rule, []) for rule in rule_set.rules if rule.scope == "session")
    )
    for rule, of_trace in in_trace:
        sessions = [] if rule.scope != "session" else [*read.sessions]
        undecided = [name for name in sessions if (rule.id, "session", name) not in decided]
        explained = [found for name in undecided for found in explain_session(rule, read.sessions[name]())] + of_trace
        if not explained and len(undecided) == len(sessions):
            pairs.append(_pair(rule.id, rule.scope, "", "not_matched", f"no subject: the trace has no {rule.scope}"))
        for item in explained:
            subject = item.subject
            if (rule.id, subject.kind, subject.id) in decided:
                continue
            if item.clause is not None:
                pairs.append(_pair(rule.id, subject.kind, subject.id, "not_matched", clause_text(rule, item.clause)))
            elif read.stored.trace.not_decoded is not None and _leaves_out(rule, read.stored.trace.trace_id):
                reason = "" if judged_alike else _WHEN_IT_CAME
                pairs.append(_pair(rule.id, subject.kind, subject.id, "sampled_out", reason))
            else:
                reason = "it matches, but was added or changed after the trace was judged"
                if (rule.id, subject.kind, subject.id) in afterwards:
                    reason += "; 'rules backtest --store' judged it afterwards: 'results show'"
                pairs.append(_pair(rule.id, subject.kind, subject.id, "not_judged", reason))
    return pairs


def _leaves_out(rule: Rule, trace_id: str) -> bool:
    return not rule.sample.keep_failures and not rule.sample.holds(trace_id)


def _subjects(decisions: Iterable[Decision]) -> set[tuple[str, str, str]]:
    """Rule, kind of subject and subject of each."""
    pairs = (decision.pair for decision in decisions)
    return {(pair.rule_id, pair.subject.kind, pair.subject.id) for pair in pairs}


def _pair(rule_id: str, kind: str, subject_id: str, decision: str, reason: str) -> dict[str, Any]:
    subject = {"kind": kind, "id": subject_id}
    return {
        "rule_id": rule_id,
        "subject": subject,
        "decision": decision,
        "outcome": None,
        "reason": reason,
        "evaluations": [],
    }


def clause_text(rule: Rule, clause: str) -> str:
    """In words, that a clause of the rule, as `match.select.Explanation` names it, does not hold."""
    if clause == "when":
        return "no call was made that 'when' means"
    if clause == "unless":
        return "excluded: all clauses of unless hold"
    expected: Any = rule.match.model_dump(mode="json")
    for name in clause.split(".", 1):
        expected = expected.get(name) if isinstance(expected, dict) else None
    return f"match.{clause} does not hold" + (f": expected {json_text(expected)}" if expected is not None else "")


_WORST_FIRST = ("fail", "error", "not_evaluable", "pass")


def worst_first(pairs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What failed first, then what could not be judged, what passed, and last what was not judged."""

    def rank(pair: dict[str, Any]) -> int:
        said = pair["outcome"] or pair["decision"]
        return _WORST_FIRST.index(said) if said in _WORST_FIRST else len(_WORST_FIRST)

    return sorted(pairs, key=rank)
