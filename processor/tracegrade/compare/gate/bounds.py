"""What a gate requires: of the command line, of rule files, and of both together for one rule."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar, get_args

from tracegrade.compare.verdict import MARGIN
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tally import Tally
from tracegrade.rule.gate import ANY_BASELINE, Gate
from tracegrade.rule.rule import Level, Rule, Status

Value = TypeVar("Value")

Source: TypeAlias = Literal["command line", "rule file"]

MIN_RESULTS = 30
LEVELS: tuple[Level, ...] = get_args(Level)
DEFAULT_BASELINE = "main"
"""What ``not_worse_than: baseline`` means unless ``--baseline`` names another one."""


@dataclass(frozen=True, slots=True)
class Counted:
    """One rule and its outcomes; a rule that matched no subject has none.

    ``gate`` is what its file requires. ``missing`` says why there are no results where there should be some: then a
    gate cannot tell. ``unmet_cases`` are those of its cases that no subject met.
    """

    rule_id: str
    status: Status
    level: Level
    tally: Tally
    gate: Gate | None = None
    rule_hash: str = ""
    missing: str = ""
    unmet_cases: Sequence[str] = ()

    @classmethod
    def of(cls, rule: Rule, tally: Tally, missing: str = "", met_cases: Collection[str] = ()) -> "Counted":
        """The outcomes of `rule`, of whose cases these were met."""
        cases = () if rule.cases is None else rule.cases.all
        unmet = [case.id for case in cases if case.id not in met_cases]
        return cls(rule.id, rule.status, rule.level, tally, rule.gate, rule.hash, missing, unmet)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the command line requires; where it says nothing, the file of a rule does.

    Attributes:
        each: the least pass rate of each stable rule by itself.
        overall: the least pass rate over the outcomes of all rules together.
        min_results: with fewer results of a rule, a least pass rate cannot be told.
        level: rules below it count for nothing.
        required: ids of rules for which the gate must be able to tell, each of their cases included.
        each_from: the least pass rate of rules from a level on, in place of `each`.
        baseline: no stable rule may be worse than in this baseline.
        margin: by so much a pass rate may be lower than that of a baseline.
        allow_within_margin: a fall that is sure, and surely less than the margin, does not fail.
        rule_files: whether what rule files require holds.
        no_fails: a stable rule of which nothing else is required may not fail at all.
    """

    each: float | None = None
    overall: float | None = None
    min_results: int = MIN_RESULTS
    level: Level = LEVELS[0]
    required: Collection[str] = field(default_factory=frozenset)
    each_from: Mapping[Level, float] = field(default_factory=dict)
    baseline: str | None = None
    margin: float | None = None
    allow_within_margin: bool = False
    rule_files: bool = True
    no_fails: bool = False

    @property
    def holds_each(self) -> bool:
        """Whether something is required of rules one by one."""
        return self.each is not None or bool(self.each_from) or self.baseline is not None or self.no_fails


@dataclass(frozen=True, slots=True)
class Held:
    """What is required of one rule, and where each of it is written; None where nothing is.

    ``no_fails``: that it has none.
    """

    at_least: float | None = None
    at_least_by: Source | None = None
    not_worse_than: str | None = None
    not_worse_than_by: Source | None = None
    margin: float = MARGIN
    margin_by: Source | None = None
    no_fails: bool = False

    @property
    def is_gate(self) -> bool:
        """Whether anything is required."""
        return self.asks_numbers or self.no_fails

    @property
    def asks_numbers(self) -> bool:
        """Whether a pass rate is required, or that it is not worse than in a baseline."""
        return self.at_least is not None or self.not_worse_than is not None

    def is_only(self, at_least: float | None) -> bool:
        """Whether this least pass rate, of the command line, is all that is required."""
        by_command = self.at_least == at_least and self.at_least_by == "command line"
        return by_command and self.not_worse_than is None

    def to_json(self) -> dict[str, JsonValue]:
        """All of it; the margin only where something is compared."""
        compares = self.not_worse_than is not None
        return {
            "at_least": self.at_least,
            "at_least_by": self.at_least_by,
            "not_worse_than": self.not_worse_than,
            "not_worse_than_by": self.not_worse_than_by,
            "margin": self.margin if compares else None,
            "margin_by": self.margin_by if compares else None,
            "no_fails": self.no_fails,
        }


def held_by(bounds: Bounds, counted: Counted) -> Held:
    """What is required of one rule: what the command line says, else what its file says."""
    gate = counted.gate if bounds.rule_files else None
    at_least, at_least_by = _first(_least_rate(bounds, counted.level), None if gate is None else gate.at_least)
    baseline, baseline_by = _first(bounds.baseline, None if gate is None else gate.not_worse_than)
    margin, margin_by = _first(bounds.margin, None if gate is None else gate.margin)
    return Held(
        at_least,
        at_least_by,
        (bounds.baseline or DEFAULT_BASELINE) if baseline == ANY_BASELINE else baseline,
        baseline_by,
        MARGIN if margin is None else margin,
        margin_by,
        bounds.no_fails and at_least is None and baseline is None,
    )


def asks(bounds: Bounds, rules: Iterable[Rule]) -> bool:
    """Whether anything is required of any rule that a gate counts, or of all together."""
    counted = (Counted.of(rule, Tally()) for rule in rules)
    each = any(held_by(bounds, of).is_gate for of in counted if why_not_gated(bounds, of) is None)
    return each or bounds.holds_each or bounds.overall is not None


def needs_baseline(bounds: Bounds, rules: Iterable[Rule]) -> bool:
    """Whether any rule may not be worse than a baseline."""
    counted = (Counted.of(rule, Tally()) for rule in rules)
    return any(held_by(bounds, of).not_worse_than is not None for of in counted if why_not_gated(bounds, of) is None)


def why_not_gated(bounds: Bounds, counted: Counted) -> str | None:
    """Why no gate counts this rule, whatever it did; None where one may."""
    if counted.status != "stable":
        return counted.status
    return None if is_of_level(counted.level, bounds.level) else f"below level {bounds.level}"


def is_of_level(level: Level, least: Level) -> bool:
    """Whether `level` is `least` or above."""
    return LEVELS.index(level) >= LEVELS.index(least)


def _least_rate(bounds: Bounds, level: Level) -> float | None:
    """The bound of the highest level that this one reaches."""
    reached = [least for least in bounds.each_from if is_of_level(level, least)]
    return bounds.each_from[max(reached, key=LEVELS.index)] if reached else bounds.each


def _first(by_command: Value | None, by_file: Value | None) -> tuple[Value | None, Source | None]:
    if by_command is not None:
        return by_command, "command line"
    return by_file, None if by_file is None else "rule file"
