"""The outcomes of one rule, or of one of its evaluations, on one side."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlalchemy import Connection

from tracegrade.compare.sides import CompareError, Side, nothing_in
from tracegrade.compare.store.sides import SideSeries
from tracegrade.display import count
from tracegrade.model.tally import NO_RESULTS, Tally
from tracegrade.rule.rule import Rule
from tracegrade.store.runs import Run
from tracegrade.store.schema import LIVE
from tracegrade.store.tallies import tallies

RuleKey: TypeAlias = tuple[str, str]  # rule id and present hash


@dataclass(slots=True)
class RuleTallies:
    """One rule on one side: as a whole, and by evaluation where it has several.

    ``kept`` is how often a pass is kept for each fail that is, where there are only passes or only fails.
    """

    whole: Tally = NO_RESULTS
    evaluations: dict[str, Tally] = field(default_factory=dict)
    kept: float = 1.0

    def of(self, evaluation: str) -> Tally:
        """The tally of one evaluation, or of the whole rule for ""."""
        return self.evaluations.get(evaluation, NO_RESULTS) if evaluation else self.whole

    def add(self, evaluation: str, tally: Tally) -> None:
        """Add results of one evaluation, or of the whole rule for ""."""
        if evaluation:
            self.evaluations[evaluation] = self.of(evaluation).plus(tally)
        else:
            self.whole = self.whole.plus(tally)


SideTallies: TypeAlias = Mapping[RuleKey, RuleTallies]


class RuleTexts:
    """How results of rules count, as the rules themselves say; a rule of which nothing is stored says nothing."""

    def __init__(self, rules: Mapping[str, Rule], runs: Iterable[Run] = ()) -> None:
        """What `rules` say, by hash; rules that judged `runs` alone are as those say."""
        self._rules = rules
        self._incomplete = {rule["hash"]: rule["incomplete"] for run in runs for rule in run.rules.values()}
        self._incomplete |= {rule_hash: rule.incomplete for rule_hash, rule in self._rules.items()}

    def counts_incomplete(self, rule_hash: str) -> bool:
        """Whether results of incomplete traces count."""
        return self._incomplete.get(rule_hash) == "count"

    def kept(self, rule_hash: str) -> float:
        """Sampling rate of passes relative to fails."""
        rule = self._rules.get(rule_hash)
        return 1.0 if rule is None else rule.sample.kept_passes

    def empty(self, rule_hash: str) -> RuleTallies:
        """The tallies of a rule without results."""
        return RuleTallies(kept=self.kept(rule_hash))


def counted_side(connection: Connection, side: Side, chosen: Mapping[int, SideSeries], texts: RuleTexts) -> SideTallies:
    """The outcomes of a side from the counts: as fast at ten million results as at ten.

    Raises:
        CompareError: there is none, or nothing is counted by what the side is: a model, or a part of a run.
    """
    if side.model is not None:
        raise CompareError(f"{side.text}: results are not counted by model; compare in full, not rates alone")
    chosen_times = (side.result_filter.since_ns, side.result_filter.until_ns)
    if side.result_filter.run != LIVE and chosen_times != (None, None):
        raise CompareError(f"{side.text}: results of a run are not counted by time; compare in full, not rates alone")
    found: dict[RuleKey, RuleTallies] = {}
    several = with_several_evaluations(chosen.values())
    counting = [of.rule_hash for of in chosen.values() if texts.counts_incomplete(of.rule_hash)]
    every = replace(side.result_filter, evaluation=None)
    for (number,), tally in tallies(connection, every, ["number"], of="both", incomplete=counting).items():
        of = chosen[number]
        key = (of.rule_id, of.rule_hash)
        if of.evaluation and key not in several:
            continue
        if key not in found:
            found[key] = texts.empty(of.rule_hash)
        found[key].add(of.evaluation, tally)
    if not found:
        raise nothing_in(connection, side)
    return found


def with_several_evaluations(chosen: Iterable[SideSeries]) -> set[RuleKey]:
    """The rules with more than one evaluation: of the others, that says what the whole rule says."""
    names: defaultdict[RuleKey, set[str]] = defaultdict(set)
    for of in chosen:
        if of.evaluation:
            names[of.rule_id, of.rule_hash].add(of.evaluation)
    return {key for key, found in names.items() if len(found) > 1}


def rules_on_both(a: SideTallies, b: SideTallies) -> tuple[list[RuleKey], dict[str, str]]:
    """The rules that judged both sides alike, and why others are left out, by rule id.

    Of a rule whose hash changed within both sides, the hash with the most results on its smaller side is compared.
    """
    by_rule: defaultdict[str, list[str]] = defaultdict(list)
    for rule_id, rule_hash in sorted({*a, *b}):
        by_rule[rule_id].append(rule_hash)
    compared: list[RuleKey] = []
    left_out = {}
    for rule_id, hashes in by_rule.items():
        sizes = {
            rule_hash: min(a[rule_id, rule_hash].whole.judged, b[rule_id, rule_hash].whole.judged)
            for rule_hash in hashes
            if (rule_id, rule_hash) in a and (rule_id, rule_hash) in b
        }
        best = max(sizes, key=lambda rule_hash: (sizes[rule_hash], rule_hash), default=None)
        if best is not None:
            compared.append((rule_id, best))
        others = [rule_hash for rule_hash in hashes if rule_hash != best]
        if others:
            left_out[rule_id] = _why_left_out(rule_id, best, others, a, b)
    return compared, left_out


def _why_left_out(rule_id: str, best: str | None, others: list[str], a: SideTallies, b: SideTallies) -> str:
    on_a, on_b = ([name for name in others if (rule_id, name) in side] for side in (a, b))
    if best is not None:
        tallies = [side[rule_id, name] for side in (a, b) for name in others if (rule_id, name) in side]
        results = count(sum(found.whole.judged for found in tallies), "result")
        return f"{results} of other contents of the rule are left out ({', '.join(others)}); {best} is compared"
    if on_a and on_b:
        return f"the rule changed, {', '.join(on_a)} judged A and {', '.join(on_b)} judged B"
    return f"no result on {'B' if on_a else 'A'}"
