"""Rules that judge nothing, and why."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from tracegrade.display import count
from tracegrade.doctor.finding import Finding
from tracegrade.extract.session import part_of, session_ids
from tracegrade.history.stored_extraction import session_of
from tracegrade.match.select import Explanation, explain, explain_session
from tracegrade.model.evaluation import Decision
from tracegrade.model.extraction import Extraction
from tracegrade.model.json_value import JsonValue
from tracegrade.model.session import Session, SessionPart
from tracegrade.rule.load import ready_made_hash
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

# Matching every rule against every trace again would take too long; the newest traces are enough.
_EXPLAINED_TRACES = 200

_SCOPES = {"agent": "an agent run", "trace": "a trace", "tool-call": "a tool call"}


def idle_rules(
    rule_set: RuleSet, extractions: Sequence[Extraction], sessions: int, decisions: Iterable[Decision]
) -> Iterator[Finding]:
    """Rules that never matched, were never evaluable, or always ended in an error, among the traces looked at.

    Args:
        rule_set: the rules in force.
        extractions: of the traces looked at, the newest first.
        sessions: how many sessions, judged as a whole, were looked at.
        decisions: that were stored for these traces and sessions.
    """
    if not len(rule_set):
        yield Finding("rules", "warning", "", "no rules: nothing is judged", "name rule files in rules.paths")
        return
    decided: dict[str, dict[str, _Decided]] = {}  # by rule and service
    for decision in decisions:
        of_rule = decided.setdefault(decision.pair.rule_id, {})
        of_rule.setdefault(decision.pair.subject.service, _Decided()).add(decision)
    quiet = True
    looked_at = count(len(extractions), "trace") + (f" and {count(sessions, 'session')}" if sessions else "")
    seen = _Seen(extractions, looked_at)
    for rule in rule_set.rules if extractions else ():
        for finding in _of_rule(rule, seen, decided.get(rule.id, {})):
            quiet = False
            yield finding
    if quiet and extractions:
        yield Finding("rules", "ok", "", f"all {len(rule_set)} rules judged something in {looked_at}")


class _Decided:
    """The decisions of one rule on the subjects of one service."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()

    def add(self, decision: Decision) -> None:
        self.kinds[decision.kind] += 1
        if decision.kind != "evaluated":
            self.reasons[decision.reason] += 1

    @property
    def blind(self) -> str:
        """The one kind of decision that there was, where no subject was judged; "" elsewhere."""
        return "" if len(self.kinds) != 1 or self.kinds["evaluated"] else next(iter(self.kinds))


class _Seen:
    """The traces looked at, the newest first, and the sessions that they are part of."""

    def __init__(self, extractions: Sequence[Extraction], looked_at: str) -> None:
        self.looked_at = looked_at  # in words
        self.newest = extractions[:_EXPLAINED_TRACES]
        self.in_newest = f"the newest {count(len(self.newest), 'trace')}"

    @cached_property
    def sessions(self) -> list[Session]:
        """As far as the newest traces show them."""
        parts: dict[tuple[str, str], list[SessionPart]] = {}
        for extraction in self.newest:
            for name in session_ids(extraction):
                if (part := part_of(extraction, name)) is not None:
                    parts.setdefault((extraction.trace.tenant, name), []).append(part)
        return [session_of(some, name, tenant, {}) for (tenant, name), some in parts.items()]

    def explained(self, rule: Rule) -> Iterator[Explanation]:
        """How each subject of the newest traces, or of their sessions, matches."""
        for extraction in self.newest:
            yield from explain(rule, extraction)
        for session in self.sessions if rule.scope == "session" else ():
            yield from explain_session(rule, session)


_BLIND = {
    "not_evaluable": (
        "was never evaluable",
        "see the checks 'content' and 'unread spans' for what is not recorded, or cannot be read",
    ),
    "error": ("always ended in an error", "fix the rule"),
}


def _of_rule(rule: Rule, seen: _Seen, decided: Mapping[str, _Decided]) -> Iterator[Finding]:
    if not decided:
        yield _never_matched(rule, seen)
        return
    for service, of_service in sorted(decided.items()):
        if (blind := _BLIND.get(of_service.blind)) is not None:
            (reason, times), matched = of_service.reasons.most_common(1)[0], of_service.kinds.total()
            words, advice = blind
            text = f"matched {count(matched, 'time')} in {seen.looked_at} and {words}; mostly "
            text += f"({count(times, 'time')}): {reason}"
            where = f"{rule.id}, {service or 'an unnamed service'}"
            evidence: dict[str, JsonValue] = {"decisions": matched, "reason": reason, "service": service}
            # Of a ready-made rule, that nobody sends what it reads is no fault of this installation.
            is_fault = of_service.blind == "error" or ready_made_hash(rule.id) != rule.hash
            yield Finding("rules", "warning" if is_fault else "note", where, text, advice, evidence)


def _never_matched(rule: Rule, seen: _Seen) -> Finding:
    clauses: Counter[str] = Counter()
    matching = 0
    for explained in seen.explained(rule):
        if explained.clause is None:
            matching += 1
        else:
            clauses[explained.clause] += 1
    if matching:
        why = "it is new, or changed"
        if rule.sample.share < 1:
            why += f", or none of them is in its sample of {rule.sample.share:g}"
        of_newest = f"{count(matching, 'subject')} of {seen.in_newest} {'matches' if matching == 1 else 'match'} now"
        text = f"judged nothing in {seen.looked_at}, though {of_newest}: {why}"
        return Finding("rules", "note", rule.id, text, "'tracegrade replay' judges stored traces by it")
    if not clauses and rule.scope == "session":
        text = f"none of {seen.in_newest} says which session it is part of"
        return Finding("rules", "note", rule.id, text, "let the agent send gen_ai.conversation.id")
    if not clauses:
        text = f"none of {seen.in_newest} has {_SCOPES[rule.scope]} to judge"
        return Finding("rules", "note", rule.id, text, "check the rule's scope")
    clause, times = clauses.most_common(1)[0]
    name = "unless" if clause == "unless" else f"match.{clause}"
    of_newest = f"{times} of {clauses.total()} subjects of {seen.in_newest}"
    text = f"matched nothing in {seen.looked_at}; mostly ({of_newest}) because of {name}"
    advice = f"compare {name} with what 'tracegrade traces list' and 'tracegrade extract' show"
    return Finding("rules", "note", rule.id, text, advice, {"clauses": dict(clauses)})
