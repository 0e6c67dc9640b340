from collections import defaultdict

import pytest

from compare.gate.test_baseline_file import unit
from tracegrade.compare.collected import Unit, UnitKey
from tracegrade.compare.gate.against import Baseline, against, compared
from tracegrade.compare.gate.results import Results
from tracegrade.compare.tally import RuleTallies
from tracegrade.model.tally import Tally, total
from tracegrade.pipeline.gate import Against, Bounds, Counted, Verdict, judged_by
from tracegrade.rule.gate import Gate
from tracegrade.rule.rule import Level, Status

FALL = (980, 20), (940, 60)  # a fall by 4 points that is sure for one rule
SMALL = (980, 20), (963, 37)  # p = 0.024: sure alone, and not among several


def results(first: int, **rules: tuple[int, int]) -> Results:
    """Rules with so many passes and fails each, of traces from `first` on."""
    found = Results({}, defaultdict(list))
    for rule_id, (passed, failed) in rules.items():
        units = [unit(first + number, number < passed) for number in range(passed + failed)]
        tally = total(Tally.one("pass" if one.passed else "fail") for one in units)
        key: UnitKey = (rule_id, f"{rule_id} hash", "")
        found.tallies[key[:2]] = RuleTallies(tally)
        found.units[key] = list[Unit](units)
    return found


def counted(
    rule_id: str,
    here: Results,
    *,
    margin: float | None = None,
    of: str | None = "baseline",
    status: Status = "stable",
    level: Level = "medium",
    rule_hash: str = "",
) -> Counted:
    gate = None if of is None else Gate(not_worse_than=of, margin=margin)
    rule_hash = rule_hash or f"{rule_id} hash"
    return Counted(rule_id, status, level, here.of(rule_id, rule_hash), gate, rule_hash)


def decided(
    bounds: Bounds, rules: list[Counted], here: Results, **baselines: Results | str
) -> tuple[dict[str, Against], Verdict]:
    def baseline_of(name: str) -> Baseline:
        found = baselines[name]
        return Baseline(name, None, found) if isinstance(found, str) else Baseline(name, found)

    found = against(bounds, rules, here, baseline_of)
    return found, judged_by(bounds, rules, found)


def test_a_rule_that_is_worse_than_the_baseline_fails() -> None:
    main, here = results(0, a=FALL[0]), results(5000, a=FALL[1])
    _, verdict = decided(Bounds(), [counted("a", here)], here, main=main)
    assert verdict.word == "fail"
    (rule,) = verdict.rules
    assert rule.reason.startswith("worse than main (-4.00 points, -")
    assert (rule.held.not_worse_than, rule.held.not_worse_than_by, rule.held.margin) == ("main", "rule file", 0.02)
    assert verdict.reasons[0].startswith("1 rule fails: a (0.9400 of 1,000 results, worse than main (-4.00 points, ")


def test_the_same_again_is_not_worse() -> None:
    main, here = results(0, a=FALL[0]), results(5000, a=FALL[0])
    _, verdict = decided(Bounds(), [counted("a", here)], here, main=main)
    assert (verdict.word, verdict.reasons) == ("pass", ["1 rule of 1 as required"])
    assert verdict.rules[0].reason.startswith("not worse than main (0.00 points, -1.")


def test_few_results_tell_nothing_and_that_is_no_pass() -> None:
    main, here = results(0, a=FALL[0]), results(5000, a=(50, 0))
    _, verdict = decided(Bounds(), [counted("a", here)], here, main=main)
    assert verdict.word == "cannot_tell"
    assert "too few results to exclude a fall by 2 points below main (+2.00 points, -" in verdict.rules[0].reason


def test_where_all_pass_it_says_how_many_more_results_would_tell() -> None:
    """189 of 189 on each side exclude a fall by 2 points: 3.1 times 60."""
    main, here = results(0, a=(60, 0)), results(5000, a=(60, 0))
    _, verdict = decided(Bounds(), [counted("a", here)], here, main=main)
    assert verdict.word == "cannot_tell"
    assert verdict.rules[0].reason.endswith("; about 3.1 times as many results would tell")


def test_each_rule_has_a_margin_of_its_own() -> None:
    main = results(0, a=(980, 20), b=(980, 20))
    here = results(5000, a=(975, 25), b=(975, 25))
    rules = [counted("a", here), counted("b", here, margin=0.005)]
    _, verdict = decided(Bounds(), rules, here, main=main)
    assert [rule.word for rule in verdict.rules] == ["pass", "cannot_tell"]
    _, verdict = decided(Bounds(margin=0.02), rules, here, main=main)
    assert [(rule.word, rule.held.margin_by) for rule in verdict.rules] == [("pass", "command line")] * 2


def test_p_values_are_adjusted_over_all_rules_that_are_compared() -> None:
    names = ("a", "b", "c", "d")
    main, here = results(0, **dict.fromkeys(names, SMALL[0])), results(5000, **dict.fromkeys(names, SMALL[1]))
    found, _ = decided(Bounds(), [counted("a", here)], here, main=main)
    assert found["a"].compared is not None
    assert found["a"].compared["verdict"] == "worse"
    # Alike in four rules: none is sure, also where two are compared with a baseline of their own.
    rules = [counted(name, here, of="baseline" if name < "c" else "old") for name in names]
    found, _ = decided(Bounds(), rules, here, main=main, old=main)
    assert [one.compared and one.compared["verdict"] for one in found.values()] == ["cannot_tell"] * 4
    _, verdict = decided(Bounds(), rules, here, main=main, old=main)
    numbers = "(-1.70 points, -3.23 to -0.23)"
    reason = f"a fall below main that chance may explain, adjusted p 0.096 over 4 own rules {numbers}"
    assert verdict.rules[0].reason == f"{reason}; about 2.1 times as many results would tell"
    assert verdict.reasons[0].startswith(
        "4 rules without a verdict: a (0.9630 of 1,000 results, a fall below main that"
    )
    # What no gate counts takes no part.
    rules = [counted("a", here), *(counted(name, here, status="experimental") for name in names[1:3])]
    found, _ = decided(Bounds(level="medium"), [*rules, counted("d", here, level="low")], here, main=main)
    assert list(found) == ["a"]
    assert found["a"].compared is not None
    assert found["a"].compared["verdict"] == "worse"


def test_worse_within_the_margin_passes_only_when_that_is_allowed() -> None:
    main, here = results(0, a=FALL[0]), results(5000, a=FALL[1])
    rules = [counted("a", here, margin=0.1)]
    _, verdict = decided(Bounds(), rules, here, main=main)
    assert verdict.word == "fail"
    assert "worse than main by less than 10 points" in verdict.rules[0].reason
    assert decided(Bounds(allow_within_margin=True), rules, here, main=main)[1].word == "pass"


@pytest.mark.parametrize(
    ("baseline", "reason"),
    [
        ("no baseline 'main' is saved here", "no baseline 'main' is saved here"),
        (results(0, other=(60, 0)), "main has no result of the rule: save the baseline again"),
    ],
)
def test_without_something_to_compare_with_nothing_can_be_told(baseline: Results | str, reason: str) -> None:
    here = results(5000, a=(1000, 0))
    _, verdict = decided(Bounds(), [counted("a", here)], here, main=baseline)
    assert (verdict.word, verdict.rules[0].reason) == ("cannot_tell", reason)


def test_a_baseline_of_another_content_of_the_rule_is_named() -> None:
    main, here = results(0, a=(1000, 0)), results(5000, a=(1000, 0))
    here.tallies["a", "new hash"] = here.tallies.pop(("a", "a hash"))
    _, verdict = decided(Bounds(), [counted("a", here, rule_hash="new hash")], here, main=main)
    assert (verdict.word, verdict.rules[0].reason) == (
        "cannot_tell",
        "main has results of another content of the rule, a hash, and not of new hash: save the baseline again",
    )


def test_what_had_results_and_now_matches_nothing_is_no_pass() -> None:
    main, here = results(0, a=(1000, 0)), results(5000, b=(1000, 0))
    rules = [counted("a", here), counted("b", here, of=None)]
    _, verdict = decided(Bounds(), rules, here, main=main)
    assert (verdict.rules[0].word, verdict.rules[0].reason) == (
        "cannot_tell",
        "nothing passed or failed, and main has 1,000 results",
    )
    # Of what neither has, nothing is asked.
    rules = [counted("c", here), counted("b", here)]
    _, verdict = decided(Bounds(), rules, here, main=results(0, b=(1000, 0)))
    assert (verdict.rules[0].word, verdict.rules[0].reason) == ("not_gated", "matched nothing")
    assert verdict.word == "pass"


def test_the_command_line_names_a_baseline_for_every_stable_rule() -> None:
    main, here = results(0, a=FALL[0], b=FALL[0]), results(5000, a=FALL[0], b=FALL[1])
    rules = [counted("a", here, of="old"), counted("b", here, of=None), counted("c", here, status="experimental")]
    found, verdict = decided(Bounds(baseline="main"), rules, here, main=main)
    assert sorted(found) == ["a", "b"]
    assert [(rule.word, rule.held.not_worse_than_by) for rule in verdict.rules[:2]] == [
        ("pass", "command line"),
        ("fail", "command line"),
    ]


def test_rates_and_baselines_are_held_together() -> None:
    main, here = results(0, a=FALL[0]), results(5000, a=FALL[0])
    rules = [counted("a", here)]
    _, verdict = decided(Bounds(each=0.99), rules, here, main=main)
    assert (verdict.word, verdict.rules[0].reason) == ("fail", "")
    _, verdict = decided(Bounds(each=0.9), rules, here, main=main)
    assert verdict.word == "pass"
    assert verdict.rules[0].reason.startswith("not worse than main")


def test_a_comparison_shows_all_that_both_have() -> None:
    main, here = results(0, a=FALL[0], gone=(10, 0)), results(5000, a=FALL[1], new=(10, 0))
    found = compared(Baseline("main", main), here, "traces", Bounds())
    assert [(rule.rule_id, rule.verdict) for rule in found.rules] == [("a", "worse")]
    assert found.left_out == {"gone": "no result on B", "new": "no result on A"}
    assert (found.a, found.b, found.exit_code) == ("main", "traces", 1)


def test_a_comparison_with_nothing_says_why_and_cannot_tell() -> None:
    found = compared(Baseline("main", None, "of another version"), results(0, a=(9, 0)), "traces", Bounds())
    assert (list(found.rules), list(found.notes), found.exit_code) == ([], ["of another version"], 3)
