"""One rule tried on traces, step by step: what was read, what each clause found, what was judged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tracegrade.extract.session import part_of, session_ids
from tracegrade.history.stored_extraction import session_of
from tracegrade.judge import judge_extraction, judge_session
from tracegrade.match.steps import Matching, matching, matching_session
from tracegrade.model.evaluation import Decision
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import Session, SessionPart
from tracegrade.model.usage import CostOf
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet


@dataclass(frozen=True, slots=True)
class Trial:
    """One subject as the rule looked at it; ``decision`` is None where it did not match."""

    matching: Matching
    decision: Decision | None

    def to_json(self) -> dict[str, Any]:
        """The documented object of ``rules try``."""
        subject, decision = self.matching.subject, self.decision
        return {
            "subject": {"kind": subject.kind, "id": subject.id, "agent": subject.agent},
            "calls": [call.name for call in subject.calls],
            "steps": [
                {
                    "clause": step.clause,
                    "asks": step.asks,
                    "found": step.found,
                    "holds": step.holds if isinstance(step.holds, bool) else None,
                    "unknown": step.unknown,
                }
                for step in self.matching.steps
            ],
            "decision": "not_matched" if decision is None else decision.kind,
            "clause": self.matching.clause,
            "outcome": decision.outcome if decision is not None else None,
            "reason": decision.reason if decision is not None else "",
            "evaluations": [
                {
                    "evaluation": item.evaluation,
                    "case": item.case,
                    "outcome": item.outcome,
                    "score": item.score,
                    "threshold": item.threshold,
                    "explanation": item.full_explanation or item.reason,
                    "details": item.details,
                }
                for item in (decision.evaluations if decision is not None else ())
            ],
        }


def tried(rule: Rule, extraction: Extraction, cost_of: CostOf) -> list[Trial]:
    """The rule on every subject of its scope in a trace; on a session see `tried_on_session`."""
    return _joined(matching(rule, extraction), judge_extraction(extraction, _alone(rule), cost_of=cost_of).decisions)


def tried_on_session(rule: Rule, session: Session, cost_of: CostOf) -> list[Trial]:
    """The rule on one session."""
    return _joined(matching_session(rule, session), judge_session(session, _alone(rule), cost_of=cost_of))


def sessions_in(extractions: Iterable[Extraction]) -> list[Session]:
    """The sessions of these traces, as far as these show them, in order of their first trace."""
    parts: dict[tuple[str, str], list[SessionPart]] = {}
    for extraction in extractions:
        for name in session_ids(extraction):
            if (part := part_of(extraction, name)) is not None:
                parts.setdefault((extraction.trace.tenant, name), []).append(part)
    return [session_of(some, name, tenant, {}) for (tenant, name), some in parts.items()]


def _alone(rule: Rule) -> RuleSet:
    """The rule by itself, of all traces: who tries it wants to see it judge."""
    return RuleSet([rule.model_copy(update={"sample": type(rule.sample)()})])


def _joined(found: Sequence[Matching], decisions: Sequence[Decision]) -> list[Trial]:
    decided = {(decision.pair.subject.kind, decision.pair.subject.id): decision for decision in decisions}
    return [Trial(one, decided.get((one.subject.kind, one.subject.id))) for one in found]
