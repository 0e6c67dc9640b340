"""The comparison of two sides, rule by rule."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from types import MappingProxyType
from typing import Protocol

from tracegrade.compare.behaviour import Behaviour
from tracegrade.compare.bootstrap import times_for
from tracegrade.compare.collected import Unit, UnitKey
from tracegrade.compare.measures import Measures
from tracegrade.compare.needed import Needed, results_needed
from tracegrade.compare.pairing import Found, SamplingRates, apart, difference_of
from tracegrade.compare.tally import RuleKey, SideTallies
from tracegrade.compare.verdict import FAMILIES, Family, Verdict, exit_code, family_of, holm, is_failure, verdict
from tracegrade.model.field_schema import json_of
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tally import Tally
from tracegrade.rule.gate import MARGIN
from tracegrade.store.schema import WHOLE_RULE

# In JSON, the members of a `Difference`.
_OF_DIFFERENCE = ("difference", "low", "high", "p", "method")


@dataclass(frozen=True, slots=True)
class Compared:
    """A rule, or an evaluation, on both sides: its results, and how the pass rates differ."""

    a: Tally
    b: Tally
    found: Found

    @property
    def rates(self) -> tuple[float | None, float | None]:
        """The two pass rates whose difference is shown: of pairs where there are pairs, else of all results."""
        pairs = self.found.pairs
        return (self.a.pass_rate, self.b.pass_rate) if pairs is None else (pairs.pass_rate_a, pairs.pass_rate_b)

    def to_json(self) -> dict[str, JsonValue]:
        """Both sides and the difference."""
        found = self.found
        numbers = [None] * len(_OF_DIFFERENCE) if found.difference is None else astuple(found.difference)
        return {
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            **dict(zip(_OF_DIFFERENCE, numbers, strict=True)),
            "reason": found.reason,
            "clustered_by": found.clustered_by,
            "pairs": None if found.pairs is None else json_of(found.pairs),
        }


@dataclass(frozen=True, slots=True)
class ComparedRule:
    """One rule on both sides: as a whole, which has a verdict, and by evaluation where it has several.

    ``adjusted_p`` and ``verdict`` take into account that ``rules_in_family`` rules of its ``family`` are compared;
    ``verdict_alone`` is what would be said of this rule alone. ``needed`` says of "cannot tell" how many times as many
    results would tell, about, and what; None where nobody knows.
    """

    rule_id: str
    rule_hash: str
    level: str
    whole: Compared
    evaluations: Mapping[str, Compared]
    adjusted_p: float
    verdict: Verdict
    family: Family
    rules_in_family: int
    verdict_alone: Verdict
    needed: Needed | None

    def to_json(self) -> dict[str, JsonValue]:
        """The rule, its verdict, its numbers, and those of its evaluations."""
        return {
            "rule_id": self.rule_id,
            "rule_hash": self.rule_hash,
            "level": self.level,
            "verdict": self.verdict,
            "family": self.family,
            "rules_in_family": self.rules_in_family,
            "adjusted_p": self.adjusted_p,
            "verdict_alone": self.verdict_alone,
            "results_needed": None if self.needed is None else self.needed[0],
            "results_needed_for": None if self.needed is None else self.needed[1],
            **self.whole.to_json(),
            "evaluations": {name: compared.to_json() for name, compared in self.evaluations.items()},
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides, rule by rule.

    ``left_out`` says, by rule id, which results are not compared and why. ``measures`` and ``behaviour`` are None where
    they were not asked for. ``rule_paths`` are the files of rules by id, where they are known. ``unread`` says what of
    the input could not be read, which may be what is worse; "" where everything was read.
    """

    a: str
    b: str
    rules: Sequence[ComparedRule]
    left_out: Mapping[str, str]
    margin: float = MARGIN
    allow_within_margin: bool = False
    measures: Measures | None = None
    behaviour: Behaviour | None = None
    rule_paths: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = field(default_factory=tuple)
    unread: str = ""

    def is_failure(self, rule: ComparedRule) -> bool:
        """Whether this rule ends the comparison with 1."""
        return is_failure(rule.verdict, allow_within_margin=self.allow_within_margin)

    @property
    def exit_code(self) -> int:
        """1 when a rule is worse, 3 when nothing can be told of one, there is none or something is unread, else 0."""
        code = exit_code((rule.verdict for rule in self.rules), allow_within_margin=self.allow_within_margin)
        return 3 if self.unread and not code else code

    @property
    def all_notes(self) -> list[str]:
        """The notes, and what could not be read."""
        return [*self.notes, *filter(None, [self.unread])]

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object."""
        return {
            "a": self.a,
            "b": self.b,
            "exit_code": self.exit_code,
            "margin": self.margin,
            "allow_within_margin": self.allow_within_margin,
            "rules": [rule.to_json() for rule in self.rules],
            "left_out": dict(self.left_out),
            "measures": None if self.measures is None else {name: of.to_json() for name, of in self.measures.items()},
            "behaviour": None if self.behaviour is None else json_of(self.behaviour),
            "notes": [*self.all_notes],
        }


@dataclass(frozen=True, slots=True)
class Numbers:
    """One rule on both sides before all rules are seen together."""

    key: RuleKey
    level: str
    whole: Compared
    evaluations: Mapping[str, Compared]


def decided(
    numbers: Sequence[Numbers], margin: float, margins: Mapping[str, float] = MappingProxyType({})
) -> list[ComparedRule]:
    """The verdict of each rule; p-values are adjusted over the rules of a family of which something is known.

    Args:
        numbers: the rules.
        margin: by so much a pass rate may fall before it matters.
        margins: by rule id, of those that have one of their own.
    """
    rules: dict[RuleKey, ComparedRule] = {}
    for family in FAMILIES:
        of_family = [found for found in numbers if family_of(*found.key) == family]
        rules |= {
            (rule.rule_id, rule.rule_hash): rule for rule in _decided_together(of_family, family, margin, margins)
        }
    return [rules[found.key] for found in numbers]


def _decided_together(
    numbers: Sequence[Numbers], family: Family, margin: float, margins: Mapping[str, float]
) -> Iterator[ComparedRule]:
    differences = [found.whole.found.difference for found in numbers]
    known = [difference.p for difference in differences if difference is not None]
    adjusted, place = holm(known), 0
    for found, difference in zip(numbers, differences, strict=True):
        least = margins.get(found.key[0], margin)
        p, alone, needed = 1.0, verdict(None, 1.0), None
        if difference is not None:
            p, alone = adjusted[place], verdict(difference, difference.p, least)
            if verdict(difference, p, least) == "cannot_tell":
                needed = results_needed(found.whole.found, [*known[:place], *known[place + 1 :]], least)
            place += 1
        yield ComparedRule(
            rule_id=found.key[0],
            rule_hash=found.key[1],
            level=found.level,
            whole=found.whole,
            evaluations=found.evaluations,
            adjusted_p=p,
            verdict=verdict(difference, p, least),
            family=family,
            rules_in_family=len(known),
            verdict_alone=alone,
            needed=needed,
        )


def by_counts(a: SideTallies, b: SideTallies, compared: Sequence[RuleKey], levels: Mapping[str, str]) -> list[Numbers]:
    """The rules of both sides from their counts: every result as if it were a subject by itself."""
    return _numbers(a, b, compared, levels, lambda _, of_a, of_b, kept: Compared(of_a, of_b, apart(of_a, of_b, kept)))


class SideResults(Protocol):
    """The outcomes of one side by rule, and its results one by one."""

    @property
    def tallies(self) -> SideTallies:
        """The outcomes of its rules."""

    @property
    def units(self) -> Mapping[UnitKey, Sequence[Unit]]:
        """The passes and fails of rules and evaluations."""


def by_results(
    a: SideResults, b: SideResults, compared: Sequence[RuleKey], levels: Mapping[str, str], rules: int = 0
) -> list[Numbers]:
    """The rules of both sides from their results: pairs, and clusters, where there are any.

    `rules` is how many are decided together, where that is more than these.
    """
    times = times_for(max(rules, len(compared)))

    def of(key: UnitKey, of_a: Tally, of_b: Tally, kept: SamplingRates) -> Compared:
        units_a, units_b = a.units.get(key, ()), b.units.get(key, ())
        return Compared(of_a, of_b, difference_of(units_a, units_b, of_a, of_b, times, kept))

    return _numbers(a.tallies, b.tallies, compared, levels, of)


def _numbers(
    a: SideTallies,
    b: SideTallies,
    compared: Sequence[RuleKey],
    levels: Mapping[str, str],
    compare: Callable[[UnitKey, Tally, Tally, SamplingRates], Compared],
) -> list[Numbers]:
    found = []
    for key in compared:
        of_a, of_b = a[key], b[key]
        kept = of_a.kept, of_b.kept
        whole = compare((*key, WHOLE_RULE), of_a.whole, of_b.whole, kept)
        names = sorted({*of_a.evaluations, *of_b.evaluations})
        evaluations = {name: compare((*key, name), of_a.of(name), of_b.of(name), kept) for name in names}
        found.append(Numbers(key, levels.get(key[0], ""), whole, evaluations))
    return found
