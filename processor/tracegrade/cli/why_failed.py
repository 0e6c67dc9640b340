"""Why traces fail: what ``why`` says of each, and what to do."""

import io
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout

from tracegrade.cli.why import print_judgement
from tracegrade.doctor.content import Content
from tracegrade.history.earlier_turns import NoTurns
from tracegrade.history.why import StoredJudgement, derived_pairs, stored_pairs, worst_first
from tracegrade.pipeline.judged import Judged, JudgedSession, JudgedTrace
from tracegrade.pipeline.replay import NOT_STORED
from tracegrade.pipeline.trace_result import result_of
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

_SHOWN = 3  # traces and sessions
_INCOMPLETE = (
    "A trace is incomplete while a span that encloses others has not ended, or where it was sent elsewhere: judge "
    "after it has ended, and see that all spans come here."
)


def explained(
    lacking: Sequence[Judged], rule_set: RuleSet, rules: Sequence[Rule], traces: Sequence[JudgedTrace]
) -> Iterator[str]:
    """Lines for people.

    Args:
        lacking: what is to be explained, the most important first.
        rule_set: what it was judged by.
        rules: those of them that are asked about.
        traces: everything that was judged, for advice.
    """
    for judged in lacking[:_SHOWN]:
        yield _why(judged, rule_set, rules)
    if (more := len(lacking) - _SHOWN) > 0:
        yield f"... and {more} more"
    yield from _advice(traces)


def _why(judged: Judged, rule_set: RuleSet, rules: Sequence[Rule]) -> str:
    read = _as_stored(judged)
    wanted = {rule.id for rule in rules if (rule.scope == "session") == isinstance(judged, JudgedSession)}
    pairs = worst_first([*stored_pairs(read), *derived_pairs(read, rule_set)])
    with redirect_stdout(io.StringIO()) as printed:
        print_judgement(read, [pair for pair in pairs if pair["rule_id"] in wanted], rule_set)
    lines = [line.rstrip() for line in printed.getvalue().splitlines()]
    return "\n".join(["", *filter(None, lines)])


def _as_stored(judged: Judged) -> StoredJudgement:
    """As it would be stored; what earlier turns of a session called is not looked up."""
    stored = result_of(judged, NOT_STORED, "")
    if isinstance(judged, JudgedSession):
        return StoredJudgement(stored, None, {judged.session.id: lambda: judged.session}, judged.decisions, NoTurns())
    return StoredJudgement(stored, judged.judgement.extraction, {}, judged.decisions, NoTurns())


def _advice(traces: Sequence[JudgedTrace]) -> Iterator[str]:
    content = Content()
    for judged in traces:
        content.add(judged.judgement.extraction)
    for finding in content.findings():
        if finding.level != "ok" and finding.check not in ("clocks", "prompts"):
            yield f"\n{finding.where}: {finding.found};\n  {finding.advice}"
    if any(judged.trace.missing for judged in traces):
        yield f"\n{_INCOMPLETE}"
