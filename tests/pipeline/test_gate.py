from dataclasses import replace
from typing import Any, get_args

import pytest

from build import each
from tracegrade.model.tally import Tally, total
from tracegrade.pipeline.gate import LEVELS, Bounds, Counted, Word, judged_by
from tracegrade.rule.gate import Gate
from tracegrade.rule.rule import Level, Status


def tally(passed: int = 0, failed: int = 0, not_evaluable: int = 0, errors: int = 0, incomplete: int = 0) -> Tally:
    return Tally.of(passed, failed, not_evaluable, errors)._replace(incomplete=incomplete)


def rule(counts: Tally, status: Status = "stable", level: Level = "medium", rule_id: str = "a-rule") -> Counted:
    return Counted(rule_id, status, level, counts)


EACH = Bounds(each=0.95)
NO_FAILS = Bounds(no_fails=True)


def unmet(counts: Tally) -> Counted:
    return replace(rule(counts), unmet_cases=["row-4", "row-9"])


REQUIRED = Bounds(each=0.95, required={"a-rule"})


@each(
    ("bounds", "counted", "word", "reason"),
    [
        # The bound itself passes; 57 of 60 is 0.95.
        (EACH, rule(tally(57, 3)), "pass", ""),
        (EACH, rule(tally(56, 4)), "fail", ""),
        (EACH, rule(tally(30, 0)), "pass", ""),
        # Too few to tell, whatever they say.
        (EACH, rule(tally(29, 0)), "cannot_tell", "fewer than 30 results"),
        (EACH, rule(tally(0, 5)), "cannot_tell", "fewer than 30 results"),
        (EACH, rule(tally(1, 0)), "cannot_tell", "fewer than 30 results"),
        (replace(EACH, min_results=5), rule(tally(0, 5)), "fail", ""),
        # What could not be judged is no result, but the subjects were there.
        (EACH, rule(tally(20, 0, not_evaluable=40)), "cannot_tell", "fewer than 30 results"),
        (EACH, rule(tally(not_evaluable=40)), "cannot_tell", "none of 40 subjects passed or failed"),
        (EACH, rule(tally(errors=1)), "cannot_tell", "none of 1 subject passed or failed"),
        (EACH, rule(tally(incomplete=50)), "cannot_tell", "none of 50 subjects passed or failed"),
        (EACH, rule(tally(57, 3, not_evaluable=500, errors=9, incomplete=70)), "pass", ""),
        # What matched nothing does not count, unless it is required.
        (EACH, rule(tally()), "not_gated", "matched nothing"),
        (REQUIRED, rule(tally()), "cannot_tell", "required, and matched nothing"),
        (REQUIRED, rule(tally(60)), "pass", ""),
        # So are its cases.
        (REQUIRED, unmet(tally(60)), "cannot_tell", "required, and no run met the cases row-4, row-9"),
        (REQUIRED, unmet(tally(60, 9)), "fail", "required, and no run met the cases row-4, row-9"),
        (
            REQUIRED,
            unmet(tally(3)),
            "cannot_tell",
            "fewer than 30 results; required, and no run met the cases row-4, row-9",
        ),
        (REQUIRED, replace(unmet(tally(60)), rule_id="other"), "pass", ""),
        # One fail is one too many; a single pass is enough.
        (NO_FAILS, rule(tally(99, 1)), "fail", "none may fail"),
        (NO_FAILS, rule(tally(1, 0, not_evaluable=3, errors=1, incomplete=2)), "pass", ""),
        (NO_FAILS, rule(tally(not_evaluable=3, incomplete=2)), "cannot_tell", "none of 5 subjects passed"),
        (NO_FAILS, rule(tally()), "not_gated", "matched nothing"),
        (NO_FAILS, rule(tally(0, 9), "experimental"), "not_gated", "experimental"),
        (replace(NO_FAILS, level="high"), rule(tally(0, 9)), "not_gated", "below level high"),
        (NO_FAILS, replace(rule(tally(59, 1)), gate=Gate(at_least=0.95)), "pass", "its file requires 0.95"),
        (NO_FAILS, replace(rule(tally(3, 0)), gate=Gate(at_least=0.95)), "cannot_tell", "fewer than 30 results"),
        # Listed, and never counted.
        (EACH, rule(tally(0, 60), "experimental"), "not_gated", "experimental"),
        (EACH, rule(tally(0, 60), "deprecated", "critical"), "not_gated", "deprecated"),
        (replace(EACH, level="high"), rule(tally(0, 60)), "not_gated", "below level high"),
        (replace(EACH, level="high"), rule(tally(0, 60), level="high"), "fail", ""),
        (replace(EACH, level="high"), rule(tally(0, 60), level="critical"), "fail", ""),
        (Bounds(overall=0.5), rule(tally(0, 60)), "not_gated", ""),
        (Bounds(), rule(tally(0, 60)), "not_gated", ""),
    ],
)
def test_what_is_said_of_one_rule(bounds: Bounds, counted: Counted, word: Word, reason: str) -> None:
    (found,) = judged_by(bounds, [counted]).rules
    assert (found.word, found.reason) == (word, reason)


GOOD, BAD = rule(tally(600), rule_id="good"), rule(tally(545, 55), level="critical", rule_id="bad")
FEW, NONE = rule(tally(3), rule_id="few"), rule(tally(), rule_id="none")
NEW = rule(tally(0, 600), "experimental", rule_id="new")


@each(
    ("bounds", "rules", "word"),
    [
        # 0.9541 of all, where the critical rule stands at 0.9083.
        (EACH, [GOOD, BAD], "fail"),
        (Bounds(overall=0.95), [GOOD, BAD], "pass"),
        (Bounds(each=0.95, overall=0.95), [GOOD, BAD], "fail"),
        (Bounds(each=0.9, overall=0.96), [GOOD, BAD], "fail"),
        (Bounds(each=0.9, overall=0.95), [GOOD, BAD], "pass"),
        # A fail counts before what cannot be told, and that before a pass.
        (EACH, [GOOD, FEW], "cannot_tell"),
        (EACH, [FEW, BAD, GOOD], "fail"),
        (EACH, [GOOD, NONE, NEW], "pass"),
        (replace(EACH, required={"none"}), [GOOD, NONE], "cannot_tell"),
        (replace(EACH, required={"none"}), [BAD, NONE], "fail"),
        # A gate that holds for nothing says nothing.
        (EACH, [NONE, NEW], "cannot_tell"),
        (EACH, [], "cannot_tell"),
        (replace(EACH, level="critical"), [GOOD], "cannot_tell"),
        # All rules together: new ones too, few or not, and above the level alone.
        (Bounds(overall=0.95), [GOOD, NEW], "fail"),
        (Bounds(overall=0.95), [FEW], "pass"),
        (Bounds(overall=0.95), [NONE, rule(tally(not_evaluable=7))], "cannot_tell"),
        (Bounds(overall=0.95, level="critical"), [GOOD, BAD], "fail"),
        (Bounds(overall=0.95, level="critical"), [GOOD], "cannot_tell"),
        (Bounds(), [BAD], "not_gated"),
    ],
)
def test_what_is_said_of_all_rules(bounds: Bounds, rules: list[Counted], word: Word) -> None:
    verdict = judged_by(bounds, rules)
    assert verdict.word == word
    assert [found.counted for found in verdict.rules] == rules
    assert bool(verdict.reasons) is (word != "not_gated")


def test_the_reasons_name_rules_and_numbers_the_worst_first() -> None:
    assert judged_by(replace(EACH, required={"none"}), [GOOD, FEW, NONE, BAD]).reasons == [
        "1 rule under 0.95: bad (0.9083 of 600 results)",
        "2 rules without a verdict: few (1.0000 of 3 results, fewer than 30 results); "
        "none (required, and matched nothing)",
        "1 rule of 4 at 0.95 or above",
    ]


def test_of_a_sample_each_result_stands_for_as_many_as_its_chance_says() -> None:
    always = [Tally.one("fail")] * 6
    counted = total([*[Tally.one("pass", 0.1)] * 27, *always])
    assert counted.pass_rate == pytest.approx(270 / 276)
    assert judged_by(EACH, [rule(counted)]).word == "pass"
    low, high = counted.interval or (0.0, 0.0)
    assert low < 270 / 276 < high


def test_the_interval_is_wilson_s() -> None:
    # Newcombe's example: 81 of 263, with the correction for continuity.
    assert tally(81, 182).interval == pytest.approx((0.2535, 0.3682), abs=5e-5)
    assert tally(not_evaluable=4).interval is None


def test_levels_are_those_of_rules_from_the_least_on() -> None:
    assert get_args(Level) == LEVELS == ("info", "low", "medium", "high", "critical")


def of_file(counts: Tally, **gate: Any) -> Counted:
    return replace(rule(counts), gate=Gate.model_validate(gate))


@each(
    ("bounds", "counted", "word", "reason"),
    [
        (Bounds(), of_file(tally(59, 1), at_least=0.98), "pass", "its file requires 0.98"),
        (Bounds(), of_file(tally(58, 2), at_least=0.98), "fail", "its file requires 0.98"),
        (Bounds(), of_file(tally(20), at_least=0.98), "cannot_tell", "fewer than 30 results"),
        (Bounds(), of_file(tally(), at_least=0.98), "not_gated", "matched nothing"),
        # The command line counts before the file, above it or below.
        (
            Bounds(each=0.9),
            of_file(tally(58, 2), at_least=0.98),
            "pass",
            "the command line requires 0.9, its file 0.98",
        ),
        (
            Bounds(each=0.99),
            of_file(tally(59, 1), at_least=0.98),
            "fail",
            "the command line requires 0.99, its file 0.98",
        ),
        (Bounds(rule_files=False), of_file(tally(0, 60), at_least=0.98), "not_gated", ""),
        (Bounds(), replace(of_file(tally(0, 60), at_least=0.98), status="experimental"), "not_gated", "experimental"),
        (Bounds(level="high"), of_file(tally(0, 60), at_least=0.98), "not_gated", "below level high"),
        # What was never compared is not a pass, however good the rate.
        (Bounds(), of_file(tally(60), not_worse_than="baseline"), "cannot_tell", "not compared with main"),
        (Bounds(), of_file(tally(60), not_worse_than="v1"), "cannot_tell", "not compared with v1"),
        (Bounds(), of_file(tally(60), at_least=0.9, not_worse_than="v1"), "cannot_tell", "not compared with v1"),
        (
            Bounds(),
            of_file(tally(0, 60), at_least=0.9, not_worse_than="v1"),
            "fail",
            "its file requires 0.9",
        ),
        (Bounds(baseline="v2"), of_file(tally(60), not_worse_than="v1"), "cannot_tell", "not compared with v2"),
    ],
)
def test_what_the_file_of_a_rule_requires(bounds: Bounds, counted: Counted, word: Word, reason: str) -> None:
    (found,) = judged_by(bounds, [counted]).rules
    assert (found.word, found.reason) == (word, reason)


@each(("level", "word"), [("info", "pass"), ("medium", "pass"), ("high", "fail"), ("critical", "cannot_tell")])
def test_bounds_from_a_level_on(level: Level, word: Word) -> None:
    bounds = Bounds(each=0.5, each_from={"high": 0.99, "critical": 1.0}, min_results=30)
    of = rule(tally(20) if level == "critical" else tally(57, 3), level=level)
    assert judged_by(bounds, [of]).word == word


def test_rules_that_ask_and_matched_nothing_leave_nothing_to_decide_by() -> None:
    assert judged_by(Bounds(), [of_file(tally(), at_least=0.98), GOOD]).word == "cannot_tell"
    assert judged_by(Bounds(), [replace(of_file(tally(), at_least=0.98), status="experimental")]).word == "not_gated"


def test_bounds_of_several_places_are_said_with_each_rule() -> None:
    mixed = [of_file(tally(50, 10), at_least=0.98), replace(of_file(tally(60), at_least=0.9), rule_id="other")]
    assert judged_by(Bounds(), mixed).reasons == [
        "1 rule fails: a-rule (0.8333 of 60 results, its file requires 0.98)",
        "1 rule of 2 as required",
    ]
