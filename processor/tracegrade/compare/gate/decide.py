"""A gate: do the pass rates of the rules allow this change? Pure: results in, a decision out.

Each stable rule is decided by itself, so that many rules that pass do not hide one that fails. A rule with too few
results neither passes nor fails: the gate cannot tell. For all rules together, a fail counts first, then "cannot tell".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from tracegrade.compare.gate.bounds import Bounds, Counted, Held, held_by, is_of_level, why_not_gated
from tracegrade.compare.verdict import is_failure
from tracegrade.display import count
from tracegrade.model.json_value import JsonValue

if TYPE_CHECKING:  # it brings the store, which nobody needs who compares nothing
    from tracegrade.compare.comparison import ComparedRule

Word: TypeAlias = Literal["pass", "fail", "cannot_tell", "not_gated"]

_ROUNDING = 1e-9
_MAX_NAMED = 20  # cases
_WORST_FIRST: tuple[Word, ...] = ("fail", "cannot_tell", "pass", "not_gated")


@dataclass(frozen=True, slots=True)
class Against:
    """One rule against a baseline; without ``compared``, ``reason`` says why nothing can be compared."""

    baseline: str
    compared: "ComparedRule | None"
    reason: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        """The baseline, and the numbers as ``tracegrade compare`` gives them."""
        compared = None if self.compared is None else self.compared.to_json()
        return {"baseline": self.baseline, "reason": self.reason, "compared": compared}


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
        found.append(_by_baseline(held.not_worse_than, held, bounds, against))
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


def _by_baseline(name: str, held: Held, bounds: Bounds, against: Against | None) -> tuple[Word, str]:
    if against is None:
        return "cannot_tell", f"not compared with {name}"
    if against.compared is None:
        return "cannot_tell", against.reason
    compared = against.compared
    found = compared.whole.found
    if not compared.whole.b.judged:
        return "cannot_tell", f"nothing passed or failed, and {name} has {count(compared.whole.a.judged, 'result')}"
    if not compared.whole.a.judged:
        return "cannot_tell", f"nothing passed or failed in {name}"
    if found.difference is None:
        return "cannot_tell", f"against {name}: {found.reason}"
    from tracegrade.compare.words import p_text, points

    difference = found.difference
    numbers = f"{points(difference.value)} points, {points(difference.low)} to {points(difference.high)}"
    margin = f"{held.margin * 100:g} points"
    match compared.verdict:
        case "worse" | "worse_within_margin":
            failed = is_failure(compared.verdict, allow_within_margin=bounds.allow_within_margin)
            within = f" by less than {margin}" if compared.verdict == "worse_within_margin" else ""
            return "fail" if failed else "pass", f"worse than {name}{within} ({numbers})"
        case "cannot_tell" if difference.high < 0:
            together = (
                f"{p_text(compared.adjusted_p)} over {count(compared.rules_in_family, f'{compared.family} rule')}"
            )
            reason = f"a fall below {name} that chance may explain, adjusted p {together} ({numbers})"
            return "cannot_tell", reason
        case "cannot_tell":
            return "cannot_tell", f"too few results to exclude a fall by {margin} below {name} ({numbers})"
        case "better":
            return "pass", f"better than {name} ({numbers})"
        case "not_worse":
            return "pass", f"not worse than {name} ({numbers})"


def _of_each(bounds: Bounds, rules: Sequence[RuleVerdict]) -> Iterator[tuple[Word, str]]:
    gated = [rule for rule in rules if rule.word != "not_gated"]
    passed = sum(rule.word == "pass" for rule in gated)
    if not gated:
        yield "cannot_tell", "no stable rule that the gate holds for matched anything"
    # Where one least pass rate is all that is required, it is said once.
    only = bounds.each if all(rule.held.is_only(bounds.each) for rule in gated) else None
    if failed := [rule for rule in gated if rule.word == "fail"]:
        how = "fail" if only is None else f"under {only:g}"
        how = "fails" if how == "fail" and len(failed) == 1 else how
        yield "fail", f"{count(len(failed), 'rule')} {how}: {'; '.join(map(_shown, failed))}"
    if unknown := [rule for rule in gated if rule.word == "cannot_tell"]:
        yield "cannot_tell", f"{count(len(unknown), 'rule')} without a verdict: {'; '.join(map(_shown, unknown))}"
    if passed:
        how = "as required" if only is None else f"at {only:g} or above"
        yield "pass", f"{count(passed, 'rule')} of {len(gated)} {how}"


def _shown(rule: RuleVerdict) -> str:
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
