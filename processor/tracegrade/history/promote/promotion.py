"""One recorded trace, or session, as a test of one rule: shortened, redacted, and what the rule says of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tracegrade.assemble.settings import TracesSettings
from tracegrade.display import explanation, time_text
from tracegrade.document.problem import did_you_mean
from tracegrade.extract.extract import extract
from tracegrade.history.promote.chosen import Recorded
from tracegrade.history.promote.redacted import Redacted, redacted
from tracegrade.history.promote.shortened import shorter_ones
from tracegrade.history.promote.verdict import evaluations, judged_as_files, outcomes
from tracegrade.history.why import clause_text
from tracegrade.match.select import explain
from tracegrade.model.errors import NotPossible
from tracegrade.model.evaluation import OUTCOMES, Outcome
from tracegrade.model.trace import Trace
from tracegrade.pipeline.judged import Judged
from tracegrade.pipeline.record_judge import attribute_filter_for
from tracegrade.pipeline.rule_tests import NOT_MATCHED, Found, expectation_text, found_in, worst
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.rule.tool_aliases import ToolAliases

_LONGEST_TEXT = 100


@dataclass(frozen=True, slots=True)
class How:
    """How traces become tests.

    ``keep``: paths whose values are not redacted. ``expect``: what is expected where it is not what the rule says now,
    each ``NAME=OUTCOME``, or one ``OUTCOME`` for all evaluations, or ``not_matched``; ``known_gap`` says why it cannot
    hold yet.
    """

    redacts: bool = True
    keep: Sequence[str] = ()
    expect: Sequence[str] = ()
    known_gap: str = ""


@dataclass(frozen=True, slots=True)
class Promotion:
    """A test to write.

    ``found`` is what the rule says of ``traces``, ``expect`` what the test says. ``spans_before`` were recorded.
    ``kept_more`` names what had to stay for the rule to say the same, "" where nothing had to. ``redaction`` counts
    what was replaced.
    """

    rule: Rule
    id: str
    traces: list[Trace]
    found: Found
    expect: Found
    description: str
    known_gap: str
    spans_before: int
    kept_more: str
    redaction: Redacted = field(repr=False)

    @property
    def spans(self) -> int:
        """How many spans are left."""
        return sum(trace.span_count for trace in self.traces)

    @property
    def outcome(self) -> Outcome | None:
        """The worst expected outcome; None for a trace that does not match."""
        return worst(self.expect.values()) if isinstance(self.expect, dict) else None


def promotion(recorded: Recorded, rule: Rule, settings: TracesSettings, how: How) -> Promotion:
    """The test that `recorded` makes for `rule`.

    Raises:
        NotPossible: the rule does not match the trace, what is expected is not what the rule says and no known gap is
            given, or a redacted trace would be judged otherwise.
    """
    before = judged_as_files(recorded.traces, rule, settings)
    found = found_in(rule, before)
    expect = _expected(found, how, rule)
    if found == NOT_MATCHED and not how.expect:
        raise NotPossible(_no_match(recorded, rule, settings, before))
    if expectation_text(expect) != expectation_text(found) and not how.known_gap:
        raise NotPossible(
            f"trace {recorded.id}: rule {rule.id} gives {expectation_text(found)}, expected "
            f"{expectation_text(expect)}; give --known-gap WHY to write it as what the rule does not see yet, or "
            "change the rule first"
        )
    shorter, kept_more = _shortened(recorded.traces, before, rule, settings)
    same = outcomes(before)

    def says_the_same(traces: list[Trace]) -> bool:
        return outcomes(judged_as_files(traces, rule, settings)) == same

    redaction = redacted(shorter, how.keep, says_the_same, rule.id) if how.redacts else Redacted(shorter)
    judged = judged_as_files(redaction.traces, rule, settings)
    return Promotion(
        rule,
        recorded.id,
        redaction.traces,
        found_in(rule, judged),
        expect,
        _description(recorded, expect, judged),
        how.known_gap if expectation_text(expect) != expectation_text(found) else "",
        sum(trace.span_count for trace in recorded.traces),
        kept_more,
        redaction,
    )


def _shortened(
    traces: list[Trace], before: Sequence[Judged], rule: Rule, settings: TracesSettings
) -> tuple[list[Trace], str]:
    """The shortest form of which the rule says the same, and what that keeps."""
    rule_set = RuleSet([rule])
    said = outcomes(before, scores=True)
    for shorter in shorter_ones(traces, attribute_filter_for(rule_set, settings), frozenset(rule_set.attributes_read)):
        if outcomes(judged_as_files(shorter.traces, rule, settings), scores=True) == said:
            return shorter.traces, shorter.kept
    return traces, "all spans and attributes"


def _expected(found: Found, how: How, rule: Rule) -> Found:
    if not how.expect:
        return found
    if list(how.expect) == [NOT_MATCHED]:
        return NOT_MATCHED
    names = [spec.name for spec in rule.specs]
    expected: dict[str, Outcome] = dict(found) if isinstance(found, dict) else {}
    for text in how.expect:
        name, _, written = text.rpartition("=")
        outcome = next((known for known in OUTCOMES if known == written), None)
        if outcome is None:
            raise NotPossible(
                f"--expect {text!r}: expected OUTCOME or NAME=OUTCOME with one of {', '.join(OUTCOMES)}; or "
                f"{NOT_MATCHED}"
            )
        if name and name not in names:
            raise NotPossible(
                f"--expect {text!r}: rule {rule.id} has no evaluation {name!r}{did_you_mean(name, names)}"
            )
        expected |= dict.fromkeys([name] if name else (list(expected) or names), outcome)
    return expected


def _no_match(recorded: Recorded, rule: Rule, settings: TracesSettings, judged: Sequence[Judged]) -> str:
    begins = f"rule {rule.id} does not judge trace {recorded.id}: "
    if any(decision.kind == "sampled_out" for one in judged for decision in one.decisions):
        return begins + "it is not in the rule's sample, so a test would not see it; choose another trace"
    reasons = set()
    for trace in recorded.traces:
        explained = explain(rule, extract(trace, ToolAliases(settings.tool_aliases)))
        reasons |= {clause_text(rule, item.clause) for item in explained if item.clause is not None}
    why = "; ".join(sorted(reasons)) or f"it has no {rule.scope} to judge"
    return f"{begins}{why}. Choose another trace, or give --expect {NOT_MATCHED} to test that it is left alone"


def _description(recorded: Recorded, expect: Found, judged: Sequence[Judged]) -> str:
    """The outcome, when it was recorded, and for a fail why: without values, and of the redacted trace."""
    day = time_text(min(trace.start_ns for trace in recorded.traces))[:10]
    outcome = worst(expect.values()) if isinstance(expect, dict) else NOT_MATCHED
    text = f"{outcome.replace('_', ' ')} on {day}"
    said = next((item for item in evaluations(judged) if item.outcome == outcome == "fail"), None)
    why = " ".join(explanation(said, False).split()) if said is not None else ""
    if len(text := f"{text}: {why}".rstrip(" .:")) <= _LONGEST_TEXT:
        return text
    return text[: _LONGEST_TEXT + 1].rpartition(" ")[0].rstrip(" .,;:(")
