"""A gate: do the pass rates of the rules allow this change? Pure: results in, a decision out.

Each stable rule is decided by itself, so that many rules that pass do not hide one that fails. A rule with too few
results neither passes nor fails: the gate cannot tell. For all rules together, a fail counts first, then "cannot tell".
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from tracegrade.compare.outcomes import Tally
from tracegrade.display import count
from tracegrade.model.json_value import JsonValue
from tracegrade.rule.rule import Level, Status

Word: TypeAlias = Literal["pass", "fail", "cannot_tell", "not_gated"]

MIN_RESULTS = 30
LEVELS: tuple[Level, ...] = get_args(Level)
_ROUNDING = 1e-9
_WORST_FIRST: tuple[Word, ...] = ("fail", "cannot_tell", "pass", "not_gated")


@dataclass(frozen=True, slots=True)
class Counted:
    """One rule and its outcomes; a rule that matched no subject has none."""

    rule_id: str
    status: Status
    level: Level
    tally: Tally


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a gate requires; without ``each`` and ``overall`` there is no gate.

    Attributes:
        each: the least pass rate of each stable rule by itself.
        overall: the least pass rate over the outcomes of all rules together.
        min_results: with fewer results of a rule, ``each`` cannot tell.
        level: rules below it count neither for ``each`` nor for ``overall``.
        required: ids of rules for which the gate must be able to tell.
    """

    each: float | None = None
    overall: float | None = None
    min_results: int = MIN_RESULTS
    level: Level = LEVELS[0]
    required: Collection[str] = field(default_factory=frozenset)

    @property
    def is_gate(self) -> bool:
        """Whether anything is required."""
        return self.each is not None or self.overall is not None


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """The gate's decision on one rule; ``reason`` says why, "" where the numbers do."""

    counted: Counted
    word: Word
    reason: str

    def to_json(self) -> dict[str, JsonValue]:
        """The rule, its numbers and the gate's word."""
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
            "results": tally.results,
            "pass": tally.passed,
            "fail": tally.failed,
            "not_evaluable": tally.not_evaluable,
            "error": tally.errors,
            "incomplete": tally.incomplete,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision of a gate: ``word`` on everything, ``reasons`` in sentences, and each rule by itself."""

    word: Word
    reasons: Sequence[str]
    rules: Sequence[RuleVerdict]


def judged_by(bounds: Bounds, rules: Iterable[Counted]) -> Verdict:
    """The decision of a gate on all `rules`, in their order."""
    of_rules = [_of_rule(bounds, counted) for counted in rules]
    if not bounds.is_gate:
        return Verdict("not_gated", (), of_rules)
    found: list[tuple[Word, str]] = []
    if bounds.each is not None:
        found += _of_each(bounds.each, of_rules)
    if bounds.overall is not None:
        found.append(_of_all(bounds, bounds.overall, of_rules))
    word = min((word for word, _ in found), key=_WORST_FIRST.index)
    ordered = sorted(found, key=lambda item: _WORST_FIRST.index(item[0]))
    return Verdict(word, [reason for _, reason in ordered], of_rules)


def _of_rule(bounds: Bounds, counted: Counted) -> RuleVerdict:
    word, reason = _word(bounds, counted)
    return RuleVerdict(counted, word, reason)


def _word(bounds: Bounds, counted: Counted) -> tuple[Word, str]:
    tally = counted.tally
    if bounds.each is None:
        return "not_gated", ""
    if counted.status != "stable":
        return "not_gated", counted.status
    if not is_of_level(counted.level, bounds.level):
        return "not_gated", f"below level {bounds.level}"
    if not tally.subjects:
        required = counted.rule_id in bounds.required
        return ("cannot_tell", "required, and matched nothing") if required else ("not_gated", "matched nothing")
    rate = tally.pass_rate
    if rate is None:
        return "cannot_tell", f"none of {count(tally.subjects, 'subject')} passed or failed"
    if tally.results < bounds.min_results:
        return "cannot_tell", f"fewer than {bounds.min_results} results"
    return ("pass" if rate >= bounds.each - _ROUNDING else "fail"), ""


def is_of_level(level: Level, least: Level) -> bool:
    """Whether `level` is `least` or above."""
    return LEVELS.index(level) >= LEVELS.index(least)


def _of_each(bound: float, rules: Sequence[RuleVerdict]) -> Iterator[tuple[Word, str]]:
    gated = [rule for rule in rules if rule.word != "not_gated"]
    passed = sum(rule.word == "pass" for rule in gated)
    if not gated:
        yield "cannot_tell", "no stable rule that the gate holds for matched anything"
    if failed := [rule for rule in gated if rule.word == "fail"]:
        yield "fail", f"{count(len(failed), 'rule')} under {bound:g}: {'; '.join(map(_shown, failed))}"
    if unknown := [rule for rule in gated if rule.word == "cannot_tell"]:
        yield "cannot_tell", f"{count(len(unknown), 'rule')}: {'; '.join(map(_shown, unknown))}"
    if passed:
        yield "pass", f"{count(passed, 'rule')} of {len(gated)} at {bound:g} or above"


def _shown(rule: RuleVerdict) -> str:
    tally = rule.counted.tally
    parts = [f"{tally.pass_rate:.4f} of {count(tally.results, 'result')}"] if tally.results else []
    return f"{rule.counted.rule_id} ({', '.join([*parts, *filter(None, [rule.reason])])})"


def _of_all(bounds: Bounds, bound: float, rules: Iterable[RuleVerdict]) -> tuple[Word, str]:
    tallies = [rule.counted.tally for rule in rules if is_of_level(rule.counted.level, bounds.level)]
    passes, fails = sum(tally.passes.total for tally in tallies), sum(tally.fails.total for tally in tallies)
    if not passes + fails:
        return "cannot_tell", "no rule passed or failed on any trace"
    rate = passes / (passes + fails)
    number = sum(tally.results for tally in tallies)
    return (
        "pass" if rate >= bound - _ROUNDING else "fail"
    ), f"pass rate {rate:.4f} of {number} rule outcomes, bound {bound:g}"
