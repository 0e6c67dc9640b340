"""A gate: do the pass rates of the rules allow this change? Pure: requirements and results in, a decision out.

What is required is said by the command line, by rule files, and by both together for one rule. Each stable rule is
decided by itself, so that many rules that pass do not hide one that fails. A rule with too few results neither passes
nor fails: the gate cannot tell. For all rules together, a fail counts first, then "cannot tell".
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, TypeVar, get_args

from tracegrade.display import count
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tally import Tally
from tracegrade.rule.gate import ANY_BASELINE, MARGIN, Gate
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


Word: TypeAlias = Literal["pass", "fail", "cannot_tell", "not_gated"]

_ROUNDING = 1e-9
_MAX_NAMED = 20  # cases
_WORST_FIRST: tuple[Word, ...] = ("fail", "cannot_tell", "pass", "not_gated")


@dataclass(frozen=True, slots=True)
class Against:
    """One rule against a baseline: the word, and in ``reason`` why.

    ``compared`` has the numbers, as ``tracegrade compare`` gives them; None where nothing can be compared.
    """

    baseline: str
    word: Word
    reason: str
    compared: dict[str, JsonValue] | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """The baseline and the numbers; the reason only where there are none."""
        reason = self.reason if self.compared is None else ""
        return {"baseline": self.baseline, "reason": reason, "compared": self.compared}


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """The gate's decision on one rule; ``reason`` says why, "" where the numbers do.

    ``held`` is what was required of it, ``against`` how it stands against its baseline.
    """

    counted: Counted
    word: Word
    reason: str
    held: Held
    against: Against | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """The rule, its numbers, what was required, and the gate's word."""
        counted, tally = self.counted, self.counted.tally
        low, high = tally.interval or (None, None)
        return {
            "gate": self.word,
            "reason": self.reason,
            "rule_id": counted.rule_id,
            "level": counted.level,
            "status": counted.status,
            "pass_rate": tally.pass_rate,
            "low": low,
            "high": high,
            "results": tally.judged,
            **tally.by_outcome(),
            "bounds": self.held.to_json(),
            "against": None if self.against is None else self.against.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision of a gate: ``word`` on everything, ``reasons`` in sentences, and each rule by itself."""

    word: Word
    reasons: Sequence[str]
    rules: Sequence[RuleVerdict]


def judged_by(bounds: Bounds, rules: Iterable[Counted], against: Mapping[str, Against] | None = None) -> Verdict:
    """The decision of a gate on all `rules`, in their order.

    Args:
        bounds: what the command line requires, beside what the files of the rules do.
        rules: their outcomes.
        against: how rules stand against their baselines, by rule id; see `against`. Of a rule that is not there,
            and may not be worse than a baseline, the gate cannot tell.
    """
    of_rules = [_of_rule(bounds, counted, (against or {}).get(counted.rule_id)) for counted in rules]
    found: list[tuple[Word, str]] = []
    if bounds.holds_each or any(_asks_in_its_file(rule, bounds) for rule in of_rules):
        found += _of_each(bounds, of_rules)
    if bounds.overall is not None:
        found.append(_of_all(bounds, bounds.overall, of_rules))
    if not found:
        return Verdict("not_gated", (), of_rules)
    word = min((word for word, _ in found), key=_WORST_FIRST.index)
    ordered = sorted(found, key=lambda item: _WORST_FIRST.index(item[0]))
    return Verdict(word, [reason for _, reason in ordered], of_rules)


def with_unread(verdict: Verdict, unread: str) -> Verdict:
    """The decision where some of the input could not be read: "cannot tell" at best.

    Args:
        verdict: the decision on what was read.
        unread: what was not read and why, in a sentence; "" where everything was.
    """
    if not unread or verdict.word == "not_gated":
        return verdict
    found = sorted([(verdict.word, verdict.reasons), ("cannot_tell", [unread])], key=_rank)
    return replace(verdict, word=found[0][0], reasons=[reason for _, reasons in found for reason in reasons])


def _rank(item: tuple[Word, Sequence[str]]) -> int:
    return _WORST_FIRST.index(item[0])


def _asks_in_its_file(rule: RuleVerdict, bounds: Bounds) -> bool:
    return rule.held.is_gate and why_not_gated(bounds, rule.counted) is None


def _of_rule(bounds: Bounds, counted: Counted, against: Against | None) -> RuleVerdict:
    held = held_by(bounds, counted)
    if not held.is_gate:
        return RuleVerdict(counted, "not_gated", "", held)
    if (reason := why_not_gated(bounds, counted)) is not None:
        return RuleVerdict(counted, "not_gated", reason, held)
    if not counted.tally.subjects and counted.missing:
        return RuleVerdict(counted, "cannot_tell", counted.missing, held)
    if not counted.tally.subjects and (against is None or against.compared is None):
        if counted.rule_id in bounds.required:
            return RuleVerdict(counted, "cannot_tell", "required, and matched nothing", held)
        return RuleVerdict(counted, "not_gated", "matched nothing", held)
    found = [] if held.at_least is None else [_by_rate(held.at_least, held, bounds, counted)]
    if held.no_fails:
        found.append(_by_fails(counted))
    if held.not_worse_than is not None:
        not_compared = f"not compared with {held.not_worse_than}"
        found.append(("cannot_tell", not_compared) if against is None else (against.word, against.reason))
    unmet = counted.unmet_cases if counted.rule_id in bounds.required else ()
    if unmet:
        found.append(("cannot_tell", ""))
    word = min((word for word, _ in found), key=_WORST_FIRST.index)
    reasons = [reason for own, reason in found if reason and (own == word or word == "pass")]
    reasons += [_said_of_unmet(unmet)] if unmet else []
    return RuleVerdict(counted, word, "; ".join(reasons), held, against)


def _said_of_unmet(cases: Sequence[str]) -> str:
    of = "case" if len(cases) == 1 else "cases"
    more = f" and {len(cases) - _MAX_NAMED} more" if len(cases) > _MAX_NAMED else ""
    return f"required, and no run met the {of} {', '.join(cases[:_MAX_NAMED])}{more}"


def _by_rate(bound: float, held: Held, bounds: Bounds, counted: Counted) -> tuple[Word, str]:
    tally = counted.tally
    rate = tally.pass_rate
    if rate is None:
        return "cannot_tell", f"none of {count(tally.subjects, 'subject')} passed or failed"
    if tally.judged < bounds.min_results:
        return "cannot_tell", f"fewer than {bounds.min_results} results"
    written = counted.gate.at_least if counted.gate is not None and bounds.rule_files else None
    if held.at_least_by == "rule file":
        reason = f"its file requires {bound:g}"
    else:
        reason = "" if written in (None, bound) else f"the command line requires {bound:g}, its file {written:g}"
    return ("pass" if rate >= bound - _ROUNDING else "fail"), reason


def _by_fails(counted: Counted) -> tuple[Word, str]:
    tally = counted.tally
    if tally.failed:
        return "fail", "none may fail"
    return ("pass", "") if tally.judged else ("cannot_tell", f"none of {count(tally.subjects, 'subject')} passed")


def _of_each(bounds: Bounds, rules: Sequence[RuleVerdict]) -> Iterator[tuple[Word, str]]:
    gated = [rule for rule in rules if rule.word != "not_gated"]
    passed = sum(rule.word == "pass" for rule in gated)
    if not gated:
        matched = {rule.counted.status for rule in rules if rule.counted.tally.subjects}
        yield (
            "cannot_tell",
            "only experimental rules matched anything; a rule is gated once its file says status: stable"
            if matched == {"experimental"}
            else "no stable rule that the gate holds for matched anything",
        )
    # Where one least pass rate is all that is required, it is said once.
    only = bounds.each if all(rule.held.is_only(bounds.each) for rule in gated) else None
    if failed := [rule for rule in gated if rule.word == "fail"]:
        how = "fail" if only is None else f"under {only:g}"
        how = "fails" if how == "fail" and len(failed) == 1 else how
        yield "fail", f"{count(len(failed), 'rule')} {how}: {'; '.join(map(_verdict_text, failed))}"
    if unknown := [rule for rule in gated if rule.word == "cannot_tell"]:
        yield (
            "cannot_tell",
            f"{count(len(unknown), 'rule')} without a verdict: {'; '.join(map(_verdict_text, unknown))}",
        )
    if passed:
        how = "as required" if only is None else f"at {only:g} or above"
        yield "pass", f"{count(passed, 'rule')} of {len(gated)} {how}"


def _verdict_text(rule: RuleVerdict) -> str:
    tally = rule.counted.tally
    parts = [f"{tally.pass_rate:.4f} of {count(tally.judged, 'result')}"] if tally.judged else []
    return f"{rule.counted.rule_id} ({', '.join([*parts, *filter(None, [rule.reason])])})"


def _of_all(bounds: Bounds, bound: float, rules: Iterable[RuleVerdict]) -> tuple[Word, str]:
    tallies = [rule.counted.tally for rule in rules if is_of_level(rule.counted.level, bounds.level)]
    passes, fails = sum(tally.all_passed for tally in tallies), sum(tally.all_failed for tally in tallies)
    if not passes + fails:
        return "cannot_tell", "no rule passed or failed on any trace"
    rate = passes / (passes + fails)
    number = sum(tally.judged for tally in tallies)
    return (
        "pass" if rate >= bound - _ROUNDING else "fail"
    ), f"pass rate {rate:.4f} of {number} rule outcomes, bound {bound:g}"
