"""The results of a test, and the assertions on them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from tracegrade.display import count
from tracegrade.document.problem import did_you_mean
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.pipeline.judged import Judged, JudgedSession, JudgedTrace, evaluations_of
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

_ROUNDING = 1e-9
_HAS_RESULT = ("evaluated", "not_evaluable", "error")
_WORST_FIRST = ("fail", "error", "not_evaluable", "incomplete", "pass")


class JudgedTest:
    """The traces and sessions that a test has made, judged by a set of rules.

    Attributes:
        traces: each with its spans, tool calls and decisions, in the order in which they began.
        sessions: those that rules of scope session judged.
    """

    def __init__(self, judged: Sequence[Judged], rule_set: RuleSet, fail: Callable[[str], NoReturn]) -> None:
        self.rules = rule_set
        traces = (item for item in judged if isinstance(item, JudgedTrace))
        self.traces = sorted(traces, key=lambda item: item.trace.spans[0].start_ns)
        self.sessions = [item for item in judged if isinstance(item, JudgedSession)]
        self._judged = judged
        self._fail = fail

    @property
    def evaluations(self) -> list[Evaluation]:
        """All evaluations of all rules, as ``tracegrade results`` shows them."""
        return [evaluation for judged in self._judged for evaluation in evaluations_of(judged)]

    def outcomes(self, rule: str) -> list[str]:
        """What this rule says of each subject that it matched: pass, fail, not_evaluable, error or incomplete.

        ``incomplete``: the rule passes on a trace that lacks spans, so it may fail on the whole one.
        """
        __tracebackhide__ = True
        found = self._rule(rule)
        return [_outcome(decision, found) for _, decision in self._decisions(found)]

    def assert_passes(self, rule: str | None = None, *, at_least: float = 1.0, runs: int = 1) -> None:
        """Fail the test unless `rule` passes.

        Only a pass counts as one: what was not evaluable, an error, or of an incomplete trace does not.

        Args:
            rule: its id; without one, every rule that matched anything has to pass.
            at_least: the share of passes among all that the rule judged, 0 to 1.
            runs: the least number of subjects (agent runs, traces, sessions, tool calls) that it has to judge.
        """
        __tracebackhide__ = True
        if rule is not None:
            self._assert(self._rule(rule), at_least, runs)
            return
        matched = [known for known in self.rules.rules if any(True for _ in self._decisions(known))]
        if not matched:
            self._fail(self._nothing_matched(self.rules.rules))
        for known in matched:
            self._assert(known, at_least, runs)

    def _assert(self, rule: Rule, at_least: float, runs: int) -> None:
        __tracebackhide__ = True
        from tracegrade.cli.why_failed import explained

        if not 0 <= at_least <= 1:
            raise ValueError(f"at_least: expected a share from 0 to 1, found {at_least!r}")
        outcomes = Counter(self.outcomes(rule.id))
        judged = outcomes.total()
        if not judged:
            self._fail(self._nothing_matched([rule]))
        share = outcomes["pass"] / judged
        if judged >= runs and share >= at_least - _ROUNDING:
            return
        numbers = ", ".join(f"{outcomes[word]} {word}" for word in _WORST_FIRST if outcomes[word])
        what = f"{rule.id}: {outcomes['pass']} of {judged} passed ({share:.4g}), expected at least {at_least:g}"
        if judged < runs:
            what = f"{rule.id}: {count(judged, _noun(rule))} judged, expected at least {runs}"
        self._fail("\n".join([f"{what}: {numbers}", *explained(self._lacking(rule), self.rules, [rule], self.traces)]))

    def _rule(self, rule_id: str) -> Rule:
        __tracebackhide__ = True
        if (found := self.rules.rule(rule_id)) is not None:
            return found
        known = [rule.id for rule in self.rules.rules]
        self._fail(f"no rule {rule_id!r} among those that judged{did_you_mean(rule_id, known)}")

    def _decisions(self, rule: Rule) -> Iterator[tuple[Judged, Decision]]:
        for judged in self._judged:
            for decision in judged.decisions:
                if decision.pair.rule_id == rule.id and decision.kind in _HAS_RESULT:
                    yield judged, decision

    def _lacking(self, rule: Rule) -> list[Judged]:
        """The traces and sessions that did not pass, the worst first."""
        found = [(_outcome(decision, rule), judged) for judged, decision in self._decisions(rule)]
        found.sort(key=lambda item: _WORST_FIRST.index(item[0]))
        return list({id(judged): judged for outcome, judged in found if outcome != "pass"}.values())

    def _nothing_matched(self, rules: Sequence[Rule]) -> str:
        from tracegrade.cli.why_failed import explained

        names = rules[0].id if len(rules) == 1 else f"each of the {len(rules)} rules"
        calls = sum(len(judged.judgement.extraction.calls) for judged in self.traces)
        head = (
            f"{names} matched nothing: {count(len(self.traces), 'trace')} collected, in which "
            f"{count(calls, 'tool call')} {'was' if calls == 1 else 'were'} read"
        )
        return "\n".join([head, *explained([*self.traces, *self.sessions], self.rules, rules, self.traces)])


def _noun(rule: Rule) -> str:
    return {"agent": "agent run", "tool-call": "tool call"}.get(rule.scope, rule.scope)


def _outcome(decision: Decision, rule: Rule) -> str:
    outcome = decision.outcome or decision.kind
    is_whole = decision.pair.subject.complete or rule.incomplete == "count"
    return outcome if is_whole or outcome != "pass" else "incomplete"
