"""Rules that judge nothing, and why."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tracegrade.doctor.finding import Finding
from tracegrade.match.rule import Rule
from tracegrade.match.rule_set import RuleSet
from tracegrade.match.select import explain
from tracegrade.model.evaluation import Decision
from tracegrade.model.extraction import Extraction

# Matching every rule against every trace again is not worth the wait; the newest ones tell.
_EXPLAINED_TRACES = 200


def idle_rules(
    rule_set: RuleSet, extractions: Sequence[Extraction], decisions: Iterable[Decision]
) -> Iterator[Finding]:
    """Rules that never matched, were never evaluable, or always ended in an error, among the traces looked at.

    Args:
        rule_set: the rules in force.
        extractions: of the traces looked at, the newest first.
        decisions: that were stored for them.
    """
    if not len(rule_set):
        yield Finding("rules", "warning", "", "no rules: nothing is judged", "name some in rules.paths")
        return
    outcomes: dict[str, Counter[str]] = {}
    reasons: dict[str, Counter[str]] = {}
    for decision in decisions:
        rule_id = decision.pair.rule_id
        outcomes.setdefault(rule_id, Counter())[decision.kind] += 1
        if decision.kind != "evaluated":
            reasons.setdefault(rule_id, Counter())[decision.reason] += 1
    quiet = True
    for rule in rule_set.rules if extractions else ():
        for finding in _of_rule(rule, extractions, outcomes.get(rule.id), reasons.get(rule.id)):
            quiet = False
            yield finding
    if quiet and extractions:
        yield Finding("rules", "ok", "", f"all {len(rule_set)} rules judged something")


def _of_rule(
    rule: Rule, extractions: Sequence[Extraction], kinds: Counter[str] | None, reasons: Counter[str] | None
) -> Iterator[Finding]:
    if not kinds:
        yield _never_matched(rule, extractions)
        return
    for kind, words in (("not_evaluable", "was never evaluable"), ("error", "always ended in an error")):
        if kinds[kind] == kinds.total() and reasons:
            reason, times = reasons.most_common(1)[0]
            text = f"matched {kinds.total()} times and {words}; mostly ({times} times): {reason}"
            advice = "see the check 'content' for what is not recorded" if kind == "not_evaluable" else "mend the rule"
            yield Finding("rules", "warning", rule.id, text, advice, {"decisions": kinds.total(), "reason": reason})


def _never_matched(rule: Rule, extractions: Sequence[Extraction]) -> Finding:
    clauses: Counter[str] = Counter()
    matching = 0
    looked_at = extractions[:_EXPLAINED_TRACES]
    for extraction in looked_at:
        for explained in explain(rule, extraction):
            if explained.clause is None:
                matching += 1
            else:
                clauses[explained.clause] += 1
    if matching:
        text = f"judged none of {len(extractions)} traces, though {matching} subjects match now: it is new, or changed"
        return Finding("rules", "note", rule.id, text, "'tracegrade replay' judges stored traces by it")
    if not clauses:
        text = f"none of {len(looked_at)} traces has a {rule.scope} to judge"
        return Finding("rules", "note", rule.id, text, "is the scope the right one?")
    clause, times = clauses.most_common(1)[0]
    name = "unless" if clause == "unless" else f"match.{clause}"
    text = (
        f"matched nothing in {len(looked_at)} traces; mostly ({times} of {clauses.total()} subjects) because of {name}"
    )
    advice = f"compare {name} with what 'tracegrade traces list' and 'tracegrade extract' show"
    return Finding("rules", "note", rule.id, text, advice, {"clauses": dict(clauses)})
