"""How the rules of a gate stand against their baselines: by the statistics of ``tracegrade compare``, all together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tracegrade.compare.comparison import ComparedRule, Comparison, Numbers, SideResults, by_results, decided
from tracegrade.compare.gate.results import Results
from tracegrade.compare.sides import Side
from tracegrade.compare.tally import RuleKey, RuleTallies, SideTallies, rules_on_both
from tracegrade.compare.verdict import is_failure
from tracegrade.compare.words import p_text, points, times_text
from tracegrade.display import count
from tracegrade.pipeline.gate import Against, Bounds, Counted, Held, Word, held_by, why_not_gated
from tracegrade.rule.gate import MARGIN


@dataclass(frozen=True, slots=True)
class Baseline:
    """What ``not_worse_than`` names; without ``results``, ``problem`` says in a sentence why nothing can be told.

    ``side`` is where they are stored; None of a saved file.
    """

    name: str
    results: Results | None
    problem: str = ""
    side: Side | None = None


def against(
    bounds: Bounds, rules: Sequence[Counted], here: Results, baseline_of: Callable[[str], Baseline]
) -> dict[str, Against]:
    """How each rule that may not be worse than a baseline stands, by rule id.

    p-values are adjusted over all of these rules, whichever baseline each has.

    Args:
        bounds: what the command line requires.
        rules: the outcomes of the rules that are gated.
        here: their results.
        baseline_of: the baseline of a name; asked once for each.
    """
    held = {counted.rule_id: held_by(bounds, counted) for counted in rules if why_not_gated(bounds, counted) is None}
    by_name: dict[str, list[Counted]] = {}
    for counted in rules:
        name = held.get(counted.rule_id, Held()).not_worse_than
        if name is not None:
            by_name.setdefault(name, []).append(counted)
    baselines = {name: baseline_of(name) for name in by_name}
    found: dict[str, Against] = {}
    numbers: list[Numbers] = []
    for name, of_name in by_name.items():
        base = baselines[name]
        for counted in of_name:
            if (reason := _why_not_compared(base, counted)) is not None:
                found[counted.rule_id] = Against(name, "cannot_tell", reason)
        if base.results is not None:
            able = [(counted.rule_id, counted.rule_hash) for counted in of_name if counted.rule_id not in found]
            numbers += by_results(base.results, _filled(here, able), able, here.levels, len(rules))
    margins = {rule_id: of.margin for rule_id, of in held.items()}
    names = {counted.rule_id: name for name, of_name in by_name.items() for counted in of_name}
    for rule in decided(numbers, MARGIN, margins):
        found[rule.rule_id] = _decided(names[rule.rule_id], held[rule.rule_id], bounds, rule)
    return found


def compared(base: Baseline, here: Results, text: str, bounds: Bounds) -> Comparison:
    """All that `base` and `here` have in common, rule by rule: what ``replay --compare`` shows.

    `text` names what is here. ``bounds`` says the margin, and whether a fall within it fails.
    """
    margin = MARGIN if bounds.margin is None else bounds.margin
    if base.results is None:
        return Comparison(base.name, text, [], {}, margin, bounds.allow_within_margin, notes=[base.problem])
    both, left_out = rules_on_both(base.results.tallies, _with_results(here))
    return Comparison(
        base.name,
        text,
        decided(by_results(base.results, here, both, here.levels), margin),
        left_out,
        margin,
        bounds.allow_within_margin,
        notes=[*(f"A: {note}" for note in base.results.notes), *(f"B: {note}" for note in here.notes)],
    )


def _decided(name: str, held: Held, bounds: Bounds, rule: ComparedRule) -> Against:
    """How one rule stands against the baseline `name`, and what a gate says of it."""
    word, reason = _word_and_reason(name, held, bounds, rule)
    return Against(name, word, reason, rule.to_json())


def _word_and_reason(name: str, held: Held, bounds: Bounds, rule: ComparedRule) -> tuple[Word, str]:
    found = rule.whole.found
    if not rule.whole.b.judged:
        return "cannot_tell", f"nothing passed or failed, and {name} has {count(rule.whole.a.judged, 'result')}"
    if not rule.whole.a.judged:
        return "cannot_tell", f"nothing passed or failed in {name}"
    if found.difference is None:
        return "cannot_tell", f"against {name}: {found.reason}"
    difference = found.difference
    numbers = f"{points(difference.value)} points, {points(difference.low)} to {points(difference.high)}"
    margin = f"{held.margin * 100:g} points"
    match rule.verdict:
        case "worse" | "worse_within_margin":
            failed = is_failure(rule.verdict, allow_within_margin=bounds.allow_within_margin)
            within = f" by less than {margin}" if rule.verdict == "worse_within_margin" else ""
            return "fail" if failed else "pass", f"worse than {name}{within} ({numbers})"
        case "cannot_tell" if difference.high < 0:
            together = f"{p_text(rule.adjusted_p)} over {count(rule.rules_in_family, f'{rule.family} rule')}"
            reason = f"a fall below {name} that chance may explain, adjusted p {together} ({numbers})"
            return "cannot_tell", f"{reason}{_needed(rule)}"
        case "cannot_tell":
            too_few = f"too few results to exclude a fall by {margin} below {name} ({numbers})"
            return "cannot_tell", f"{too_few}{_needed(rule)}"
        case "better":
            return "pass", f"better than {name} ({numbers})"
        case "not_worse":
            return "pass", f"not worse than {name} ({numbers})"


def _needed(rule: ComparedRule) -> str:
    """How many more results would tell; "" where that is not known."""
    return "" if rule.needed is None else f"; {times_text(rule.needed[0])} as many results would tell"


def _why_not_compared(base: Baseline, counted: Counted) -> str | None:
    if base.results is None:
        return base.problem
    if (counted.rule_id, counted.rule_hash) in base.results.tallies:
        return None
    if others := base.results.hashes(counted.rule_id):
        return (
            f"{base.name} has results of another content of the rule, {', '.join(others)}, and not of "
            f"{counted.rule_hash}: save the baseline again"
        )
    return f"{base.name} has no result of the rule: save the baseline again"


def _filled(here: Results, keys: Sequence[RuleKey]) -> SideResults:
    """`here` with a tally of each of these rules, also of those that matched nothing."""
    empty = {key: RuleTallies() for key in keys}
    return replace(here, tallies={**empty, **here.tallies})


def _with_results(here: Results) -> SideTallies:
    """The rules that matched something."""
    return {key: tallies for key, tallies in here.tallies.items() if tallies.whole.subjects}
