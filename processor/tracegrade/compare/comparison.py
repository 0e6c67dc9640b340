"""The comparison of two sides, rule by rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tracegrade.compare.holm import holm
from tracegrade.compare.shares import Difference, independent
from tracegrade.compare.tally import RuleKey, SideTallies, Tally
from tracegrade.compare.verdict import MARGIN, Verdict, exit_code, verdict
from tracegrade.model.json_value import JsonValue


@dataclass(frozen=True, slots=True)
class Compared:
    """The two pass rates of a rule or of an evaluation, and how they differ; ``reason`` says why that is not known."""

    a: Tally
    b: Tally
    difference: Difference | None
    reason: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        """Both sides and the difference."""
        found = self.difference
        return {
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "difference": None if found is None else found.value,
            "low": None if found is None else found.low,
            "high": None if found is None else found.high,
            "p": None if found is None else found.p,
            "method": None if found is None else found.method,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class ComparedRule:
    """One rule on both sides: as a whole, which has a verdict, and by evaluation."""

    rule_id: str
    rule_hash: str
    level: str
    whole: Compared
    evaluations: Mapping[str, Compared]
    adjusted_p: float
    verdict: Verdict

    def to_json(self) -> dict[str, JsonValue]:
        """The rule, its verdict, its numbers, and those of its evaluations."""
        return {
            "rule_id": self.rule_id,
            "rule_hash": self.rule_hash,
            "level": self.level,
            "verdict": self.verdict,
            "adjusted_p": self.adjusted_p,
            **self.whole.to_json(),
            "evaluations": {name: compared.to_json() for name, compared in self.evaluations.items()},
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides, rule by rule.

    ``left_out`` says, by rule id, which results are not compared and why.
    """

    a: str
    b: str
    rules: Sequence[ComparedRule]
    left_out: Mapping[str, str]
    margin: float = MARGIN
    allow_within_margin: bool = False
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def exit_code(self) -> int:
        """1 when a rule is worse, 3 when nothing can be told of one or there is none, else 0."""
        return exit_code((rule.verdict for rule in self.rules), allow_within_margin=self.allow_within_margin)

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
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Numbers:
    """One rule on both sides before all rules are seen together."""

    key: RuleKey
    level: str
    whole: Compared
    evaluations: Mapping[str, Compared]


def decided(numbers: Sequence[Numbers], margin: float) -> list[ComparedRule]:
    """The verdict of each rule; p-values are adjusted over those of which something is known."""
    known = [found.whole.difference.p for found in numbers if found.whole.difference is not None]
    adjusted = iter(holm(known))
    rules = []
    for found in numbers:
        p = 1.0 if found.whole.difference is None else next(adjusted)
        word = verdict(found.whole.difference, p, margin)
        rules.append(ComparedRule(*found.key, found.level, found.whole, found.evaluations, p, word))
    return rules


def by_counts(a: SideTallies, b: SideTallies, compared: Sequence[RuleKey], levels: Mapping[str, str]) -> list[Numbers]:
    """The rules of both sides from their counts: every result as a subject of its own."""
    found = []
    for key in compared:
        of_a, of_b = a[key], b[key]
        names = sorted({*of_a.evaluations, *of_b.evaluations})
        evaluations = {name: apart(of_a.of(name), of_b.of(name)) for name in names}
        found.append(Numbers(key, levels.get(key[0], ""), apart(of_a.whole, of_b.whole), evaluations))
    return found


def apart(a: Tally, b: Tally) -> Compared:
    """Two tallies as results of different subjects, each by itself."""
    share_a, share_b = a.share, b.share
    if share_a is None or share_b is None:
        return Compared(a, b, None, f"nothing could be judged on {'A' if share_a is None else 'B'}")
    return Compared(a, b, independent(share_a, share_b))
