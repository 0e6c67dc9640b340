from typing import Any

import pytest

from tracegrade.compare.collected import Place, Unit
from tracegrade.compare.pairing import Found, difference_of
from tracegrade.model.tally import Tally, total

TIMES = 399


def unit(number: int, passed: bool, **changes: Any) -> Unit:
    session = changes.pop("session", None)
    place = Place("default", number.to_bytes(16), session or number.to_bytes(16))
    known = {"subject": "1/x", "case": None, "prompt": None, "probability": 1.0}
    return Unit(place, passed=passed, **(known | changes))


def tally(units: list[Unit]) -> Tally:
    return total(Tally.one("pass" if one.passed else "fail", one.probability) for one in units)


def compared(a: list[Unit], b: list[Unit], kept: float = 1.0) -> Found:
    return difference_of(a, b, tally(a), tally(b), TIMES, (kept, kept))


def test_the_same_traces_are_pairs() -> None:
    a = [unit(number, True) for number in range(40)]
    b = [unit(number, number >= 8) for number in range(40)]
    found = compared(a, b)
    assert found.pairs is not None
    assert (found.pairs.by, found.pairs.count, found.pairs.worse, found.pairs.better) == ("trace", 40, 8, 0)
    assert found.difference is not None
    assert (found.difference.method, found.difference.p) == ("mcnemar", pytest.approx(2 / 2**8))
    assert [change.trace_a for change in found.pairs.became_worse] == [f"{number:032x}" for number in range(8)]
    assert found.clustered_by is None


def test_pairs_are_the_same_in_any_order() -> None:
    a = [unit(number, number % 3 > 0, session=f"s{number // 4}") for number in range(40)]
    b = [unit(number, number % 5 > 0, session=f"s{number // 4}") for number in range(40)]
    assert compared(a, b).difference == compared(a[::-1], b).difference


def test_different_traces_of_the_same_cases_are_pairs() -> None:
    a = [unit(number, True, case=f"case {number}") for number in range(20)]
    b = [unit(100 + number, number > 2, case=f"case {number}") for number in range(20)]
    found = compared(a, b)
    assert found.pairs is not None
    assert (found.pairs.by, found.pairs.worse) == ("case", 3)
    change = found.pairs.became_worse[0]
    assert (change.trace_a, change.trace_b, change.case) == (f"{0:032x}", f"{100:032x}", "case 0")
    assert found.difference is not None
    assert found.difference.method == "mcnemar"


def test_cases_that_ran_several_times_are_clusters_that_count_the_same() -> None:
    a = [unit(number, True, case=f"case {number % 10}") for number in range(30)]
    b = [unit(100 + number, number % 10 > 4 or number < 10, case=f"case {number % 10}") for number in range(50)]
    found = compared(a, b)
    assert found.pairs is not None
    assert (found.pairs.count, found.pairs.pass_rate_a, found.pairs.worse) == (10, 1.0, 5)
    assert found.pairs.pass_rate_b == pytest.approx((5 * 0.2 + 5 * 1.0) / 10)
    assert found.pairs.flaky == [f"case {number}" for number in range(5)]
    assert found.clustered_by == "case"
    assert found.difference is not None
    assert found.difference.value == pytest.approx(-0.4)
    assert found.difference.method == "bootstrap"


def test_of_a_case_that_ran_several_times_a_sampled_pass_counts_for_all_it_stands_for() -> None:
    a = [
        unit(number, number < 10, case=f"{number % 10}", probability=0.1 if number < 10 else 1.0)
        for number in range(20)
    ]
    found = compared(a, [unit(100 + number, True, case=f"{number}") for number in range(10)], 0.1)
    assert found.pairs is not None
    assert (found.pairs.pass_rate_a, found.pairs.pass_rate_b) == (pytest.approx(10 / 11), 1.0)


def test_of_a_case_that_changed_the_traces_differ() -> None:
    a = [unit(number, number % 2 > 0, case=f"case {number // 2}") for number in range(20)]
    b = [unit(100 + number, False, case=f"case {number // 2}") for number in range(20)]
    found = compared(a, b)
    assert found.pairs is not None
    assert found.pairs.became_worse[0].trace_a == f"{1:032x}"


def test_the_same_prompts_are_pairs_where_half_of_the_smaller_side_has_a_partner() -> None:
    a = [unit(number, True, prompt=f"support {number}") for number in range(20)]
    b = [unit(100 + number, True, prompt=f"support {number}") for number in range(10, 30)]
    found = compared(a, b)
    assert found.pairs is not None
    assert (found.pairs.by, found.pairs.count, found.pairs.unpaired_a, found.pairs.unpaired_b) == (
        "prompt",
        10,
        10,
        10,
    )
    assert compared(a, b[1:]).pairs is None  # 9 of 19
    assert compared(a, [one._replace(prompt=None) for one in b]).pairs is None


def test_traces_go_before_cases_and_cases_before_prompts() -> None:
    a = [unit(number, True, case=f"{number}", prompt=f"{number}") for number in range(10)]
    by_case = [unit(100 + number, True, case=f"{number}", prompt=f"{number}") for number in range(10)]
    same, alike = compared(a, a).pairs, compared(a, by_case).pairs
    assert same is not None
    assert alike is not None
    assert (same.by, alike.by) == ("trace", "case")


def test_two_subjects_of_a_trace_are_two_pairs_of_one_cluster() -> None:
    a = [unit(number // 2, True, subject=f"{number % 2}") for number in range(40)]
    found = compared(a, [one._replace(passed=number > 9) for number, one in enumerate(a)])
    assert found.pairs is not None
    assert found.pairs.count == 40
    assert found.clustered_by == "trace"
    assert found.difference is not None
    assert found.difference.method == "bootstrap"


def test_pairs_of_one_session_are_one_cluster() -> None:
    a = [unit(number, True, session=f"s{number // 5}") for number in range(100)]
    b = [unit(number, number >= 10, session=f"s{number // 5}") for number in range(100)]
    found = compared(a, b)
    assert found.clustered_by == "session"
    assert found.difference is not None
    assert found.difference.value == pytest.approx(-0.1)
    assert found.difference.p > 0.05  # 10 pairs changed, but in 2 sessions


def test_other_traces_are_independent_unless_a_session_has_several() -> None:
    a, b = ([unit(first + number, number > 3) for number in range(50)] for first in (0, 100))
    found = compared(a, b)
    assert found.difference is not None
    assert (found.difference.method, found.clustered_by, found.pairs) == ("newcombe", None, None)
    b = [one._replace(place=one.place._replace(cluster=f"s{number // 2}")) for number, one in enumerate(b)]
    clustered = compared(a, b)
    assert clustered.difference is not None
    assert (clustered.difference.method, clustered.clustered_by) == ("bootstrap", "session")


def test_few_sessions_tell_nothing() -> None:
    a, b = ([unit(first + number, True, session=f"{first}/{number % 5}") for number in range(50)] for first in (0, 100))
    found = compared(a, b)
    assert (found.difference, found.reason) == (None, "only 5 sessions; 6 are needed")


def test_nothing_judged_on_a_side() -> None:
    assert compared([], [unit(1, True)]).reason == "nothing could be judged on A"


def test_pairs_of_a_sample_count_for_as_many_as_they_stand_for() -> None:
    # Of 1,000 traces every tenth is sampled, and all fails are kept: of those that fail on both sides, all.
    sampled = [unit(number, True, probability=0.1) for number in range(90)]
    failing = [unit(1000 + number, False) for number in range(100)]
    changed = [unit(number, number > 8, probability=0.1 if number > 8 else 1.0) for number in range(90)]
    found = compared([*sampled, *failing], [*changed, *failing], 0.1)
    assert found.pairs is not None
    assert found.pairs.pass_rate_a == pytest.approx(0.9)
    assert found.pairs.pass_rate_b == pytest.approx(0.81)
    assert found.difference is not None
    assert found.difference.value == pytest.approx(-0.09)
    assert found.difference.p == pytest.approx(2 / 2**9)


def test_an_empty_tally_has_no_share() -> None:
    assert Tally().interval is None
    assert Tally.one("pass").pass_rate == 1


def test_clusters_of_a_sample_that_keeps_every_fail_are_weighed() -> None:
    def side(first: int) -> list[Unit]:
        passing = [
            unit(first + number, True, probability=0.1, session=f"{first}/{number // 3}") for number in range(90)
        ]
        return passing + [unit(first + 500 + number, False, session=f"fails {first}/{number}") for number in range(100)]

    a, b = side(0), [*side(1000), *(unit(2000 + number, False) for number in range(100))]
    found = compared(a, b, 0.1)
    assert found.clustered_by == "session"
    assert found.difference is not None
    assert found.difference.value == pytest.approx(900 / 1100 - 900 / 1000)
