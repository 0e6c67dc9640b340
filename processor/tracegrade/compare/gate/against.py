"""How the rules of a gate stand against their baselines: by the statistics of ``tracegrade compare``, all together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tracegrade.compare.comparison import Comparison, Numbers, SideResults, by_results, decided
from tracegrade.compare.gate.bounds import Bounds, Counted, Held, held_by, why_not_gated
from tracegrade.compare.gate.decide import Against
from tracegrade.compare.gate.results import Results
from tracegrade.compare.sides import Side
from tracegrade.compare.tally import RuleKey, RuleTallies, SideTallies, rules_on_both
from tracegrade.compare.verdict import MARGIN


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
                found[counted.rule_id] = Against(name, None, reason)
        if base.results is not None:
            able = [(counted.rule_id, counted.rule_hash) for counted in of_name if counted.rule_id not in found]
            numbers += by_results(base.results, _filled(here, able), able, here.levels, len(rules))
    margins = {rule_id: of.margin for rule_id, of in held.items()}
    names = {counted.rule_id: name for name, of_name in by_name.items() for counted in of_name}
    for rule in decided(numbers, MARGIN, margins):
        found[rule.rule_id] = Against(names[rule.rule_id], rule)
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
