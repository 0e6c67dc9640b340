"""Outcomes by rule, place and step, worked by hand."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import Engine

from build import each, store_with
from build.judged_traces import MINUTE_NS, START_NS, evaluation, judged
from tracegrade.model.evaluation import Outcome
from tracegrade.model.tally import Tally
from tracegrade.store.open import open_store, reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.tallies import ALL_SUMS, RATED_BY, Summed, names_of, stretches, tallies
from tracegrade.store.write import StoreWriter

START = START_NS // MINUTE_NS


@pytest.fixture
def filled(sqlite: Engine) -> Engine:
    """Traces 1 to 5 come a minute apart, 61 an hour later; 4 is incomplete, of 5 every tenth was kept."""
    another: dict[str, Any] = {"rule_id": "another", "agent": "billing"}
    StoreWriter(sqlite).write(
        [
            judged(1),
            judged(2, "fail"),
            judged(3, "not_evaluable"),
            judged(4, "fail", complete=False, missing=["root"], close_reason="idle"),
            judged(5, evaluations=[evaluation(5, probability=0.1, **another), evaluation(5, "error")]),
            judged(61, "fail", service="bank"),
        ]
    )
    return sqlite


def tally(
    passed: int, failed: int, not_evaluable: int = 0, errors: int = 0, incomplete: int = 0, probability: float = 1.0
) -> Tally:
    return Tally.of(passed, failed, not_evaluable, errors, weight=1 / probability)._replace(incomplete=incomplete)


def test_outcomes_are_added_up_by_rule(filled: Engine) -> None:
    with reading(filled) as connection:
        found = tallies(connection, ResultFilter(), ["rule_id"])
    assert found == {
        ("checkout-order",): tally(1, 2, not_evaluable=1, errors=1, incomplete=1),
        ("another",): tally(1, 0, probability=0.1),
    }
    assert found["checkout-order",].pass_rate == pytest.approx(1 / 3)
    assert found["checkout-order",].coverage == pytest.approx(3 / 5)


@each(("field", "value"), [("outcome", "fail"), ("session", "talk"), ("trace_id", bytes(16)), ("complete", False)])
def test_a_filter_by_what_is_not_counted_is_refused(filled: Engine, field: str, value: Any) -> None:
    with reading(filled) as connection, pytest.raises(ValueError, match=f"not counted by {field}$"):
        tallies(connection, ResultFilter(**{field: value}))


def test_incomplete_traces_count_where_their_rule_says_so(filled: Engine) -> None:
    with reading(filled) as connection:
        found = tallies(connection, ResultFilter(), ["rule_id"], incomplete=["checkout-order"])
    assert found["checkout-order",] == tally(1, 3, not_evaluable=1, errors=1)


def test_steps_begin_at_whole_ones(filled: Engine) -> None:
    with reading(filled) as connection:
        found = tallies(connection, ResultFilter(rule="checkout-order"), step_minutes=60)
        some = ResultFilter(rule="checkout-order", since_ns=START_NS, until_ns=START_NS + 3 * MINUTE_NS)
        by_minute = tallies(connection, some, step_minutes=1)
    assert {step: (sums.passed, sums.failed) for (step,), sums in found.items()} == {
        START // 60: (1, 1),
        START // 60 + 1: (0, 1),
    }
    assert {step - START: (sums.passed, sums.failed) for (step,), sums in by_minute.items()} == {1: (1, 0), 2: (0, 1)}


@pytest.mark.parametrize("step_minutes", [1, 10, 30, 60, 120, 720, 1440, 10080])
def test_each_minute_is_in_its_own_step_however_long_the_window(sqlite: Engine, step_minutes: int) -> None:
    came = (1, 17, 44, 59, 61, 95, 1500)
    StoreWriter(sqlite).write([judged(minute) for minute in came])
    days_ns = 3 * 1440 * MINUTE_NS
    with reading(sqlite) as connection:
        window = ResultFilter(since_ns=START_NS - days_ns, until_ns=START_NS + days_ns)
        found = tallies(connection, window, of="traces", step_minutes=step_minutes)
    assert {step: sums.passed for (step,), sums in found.items()} == Counter(
        (START + minute) // step_minutes for minute in came
    )


@each(
    ("result_filter", "keys"),
    [
        (ResultFilter(), {("shop", "support", "1.0"), ("shop", "billing", "1.0"), ("bank", "support", "1.0")}),
        (ResultFilter(service="bank"), {("bank", "support", "1.0")}),
        (ResultFilter(agent="billing"), {("shop", "billing", "1.0")}),
        (ResultFilter(release="2.0"), set()),
        (ResultFilter(rule="nobody"), set()),
        (ResultFilter(run="an experiment"), set()),
    ],
)
def test_filters_choose_and_names_are_told_apart(
    filled: Engine, result_filter: ResultFilter, keys: set[tuple[str, ...]]
) -> None:
    with reading(filled) as connection:
        assert tallies(connection, result_filter, ["service", "agent", "release"]).keys() == keys


def test_traffic_counts_traces_whatever_judges_them(filled: Engine) -> None:
    with reading(filled) as connection:
        everything, of_bank = ResultFilter(), ResultFilter(service="bank", rule="nobody")
        assert tallies(connection, everything, of="traces", incomplete="count")[()].passed == 6
        assert tallies(connection, of_bank, of="traces", incomplete="count")[()].passed == 1
        assert names_of(connection, "service") == ["bank", "shop"]
        assert names_of(connection, "release") == ["1.0"]


@pytest.fixture(scope="module")
def hours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """200 traces, a minute apart."""
    engine = open_store(store_with(tmp_path_factory.mktemp("hours")))
    StoreWriter(engine).write([judged(number) for number in range(200)])
    yield engine
    engine.dispose()


def test_outcomes_are_counted_by_rule_and_service(engine: Engine) -> None:
    outcomes = ["pass", "pass", "fail", "not_evaluable", "error"]
    StoreWriter(engine).write([judged(number, outcome) for number, outcome in enumerate(outcomes)])
    with reading(engine) as connection:
        ((key, tally),) = tallies(connection, ResultFilter(), RATED_BY).items()
    assert key == ("default", "checkout-order", "", "shop")
    assert tally == Tally.of(2, 1, 1, 1)
    assert tally.pass_rate == 2 / 3


def test_one_evaluation_has_its_own_rate_and_scores(engine: Engine) -> None:
    """The rule fails on both subjects, its evaluation `args` on one."""
    for number, outcome in ((1, "fail"), (2, "pass")):
        items = [evaluation(number, "fail"), evaluation(number, outcome, evaluation="args")]
        decision = {
            "rule_id": "checkout-order",
            "rule_hash": "0123456789abcdef",
            "subject_kind": "agent",
            "subject_id": items[0]["subject"]["id"],
            "kind": "evaluated",
            "outcome": "fail",
            "reason": "",
        }
        StoreWriter(engine).write([judged(number, evaluations=items, decisions=[decision])])
    with reading(engine) as connection:
        (whole,) = tallies(connection, ResultFilter()).values()
        (args,) = tallies(connection, ResultFilter(evaluation="args"), of="evaluations", summed=ALL_SUMS).values()
    assert (whole.passed, whole.failed) == (0, 2)
    assert (args.passed, args.failed, args.score_sum) == (1, 1, 1.25)


@pytest.mark.parametrize("summed", [[name] for name in ALL_SUMS] + [["failed", "score_sum"], list(ALL_SUMS)])
def test_a_tally_has_the_sums_that_were_asked_for_and_no_others(engine: Engine, summed: list[Summed]) -> None:
    def sums_of(asked: Sequence[Summed]) -> dict[str, float]:
        with reading(engine) as connection:
            (tally,) = tallies(connection, ResultFilter(), of="evaluations", summed=asked).values()
        return dict(zip(ALL_SUMS, (*tally[:4], tally.score_sum, tally.all_score_squares), strict=True))

    outcomes: list[Outcome] = ["pass", "pass", "fail", "not_evaluable", "error"]
    StoreWriter(engine).write([judged(number, outcome) for number, outcome in enumerate(outcomes, start=1)])
    every = sums_of(ALL_SUMS)
    assert all(every.values())
    assert sums_of(summed) == {name: value if name in summed else 0 for name, value in every.items()}


def test_incomplete_traces_are_left_out_unless_asked_for(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1), judged(2, "fail", complete=False)])
    with reading(engine) as connection:
        (rate,) = tallies(connection, ResultFilter()).values()
        (counted,) = tallies(connection, ResultFilter(), incomplete="count").values()
    assert (rate.passed, rate.failed, rate.incomplete) == (1, 0, 1)
    assert (counted.passed, counted.failed, counted.incomplete) == (1, 1, 0)


def test_a_window_holds_whole_minutes(engine: Engine) -> None:
    StoreWriter(engine).write([judged(number) for number in range(200)])
    with reading(engine) as connection:

        def count(since_ns: int | None, until_ns: int | None) -> int:
            found = tallies(connection, ResultFilter(since_ns=since_ns, until_ns=until_ns))
            return sum(tally.passed for tally in found.values())

        assert count(START_NS + 150 * MINUTE_NS, None) == 50
        assert count(START_NS + 150 * MINUTE_NS + 30, None) == 50, "the minute that the window begins in counts"
        assert count(None, START_NS + 10 * MINUTE_NS) == 10
        assert count(START_NS + 1 * MINUTE_NS, START_NS + 190 * MINUTE_NS) == 189


@each("first", [0, 1, 59, 60, 61, 120, 150])
@each("length", [1, 2, 59, 60, 61, 119, 120, 130])
def test_hours_and_minutes_together_count_each_trace_once(hours: Engine, first: int, length: int) -> None:
    since_ns = START_NS + first * MINUTE_NS
    with reading(hours) as connection:
        found = tallies(connection, ResultFilter(since_ns=since_ns, until_ns=since_ns + length * MINUTE_NS)).values()
    assert sum(rate.passed for rate in found) == max(0, min(first + length, 200) - first)


_DAY = 24 * 60
_APART = 97


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Traces 97 minutes apart for five days; each that passed first failed, as one sees a day later."""
    engine = open_store(store_with(tmp_path_factory.mktemp("days")))
    numbers = range(0, 5 * _DAY, _APART)
    StoreWriter(engine).write([judged(number, "fail") for number in numbers])
    StoreWriter(engine).write([judged(number, revision=3) for number in numbers])
    yield engine
    engine.dispose()


@each("first", [None, 0, 1, 600, _DAY - 1, _DAY, _DAY + 61, 2 * _DAY])
@each("end", [None, 1, 700, _DAY, _DAY + 1, 3 * _DAY - 1, 3 * _DAY, 4 * _DAY + 61])
def test_days_hours_and_minutes_together_count_each_trace_once(
    days: Engine, first: int | None, end: int | None
) -> None:
    midnight_ns = -(-START_NS // (_DAY * MINUTE_NS)) * _DAY * MINUTE_NS
    since_ns, until_ns = (None if at is None else midnight_ns + at * MINUTE_NS for at in (first, end))
    with reading(days) as connection:
        found = tallies(connection, ResultFilter(since_ns=since_ns, until_ns=until_ns)).values()
    times = [START_NS + number * MINUTE_NS for number in range(0, 5 * _DAY, _APART)]
    expected = [t for t in times if (since_ns is None or t >= since_ns) and (until_ns is None or t < until_ns)]
    assert (sum(rate.passed for rate in found), sum(rate.failed for rate in found)) == (len(expected), 0)


def test_whole_days_are_read_as_days() -> None:
    day_ns = _DAY * MINUTE_NS
    assert stretches(day_ns, 31 * day_ns, _DAY) == [(_DAY, _DAY, 31 * _DAY - 1)]
    assert len(stretches(None, None, _DAY)) == 1
    assert stretches(day_ns - MINUTE_NS, 31 * day_ns + 61 * MINUTE_NS, _DAY) == [
        (_DAY, _DAY, 31 * _DAY - 1),
        (1, _DAY - 1, _DAY - 1),
        (60, 31 * _DAY, 31 * _DAY + 59),
        (1, 31 * _DAY + 60, 31 * _DAY + 60),
    ]
    assert {minutes for minutes, _, _ in stretches(day_ns, 31 * day_ns)} == {60}


def test_sampled_out_counts_nowhere(engine: Engine) -> None:
    decision = {
        "rule_id": "checkout-order",
        "rule_hash": "0",
        "subject_kind": "agent",
        "subject_id": "1",
        "kind": "sampled_out",
        "outcome": None,
        "reason": "",
    }
    StoreWriter(engine).write([judged(1, evaluations=[], decisions=[decision])])
    with reading(engine) as connection:
        assert tallies(connection, ResultFilter(), RATED_BY, of="both", summed=ALL_SUMS) == {}


def test_nothing_judged_has_no_pass_rate(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1, "not_evaluable")])
    with reading(engine) as connection:
        (rate,) = tallies(connection, ResultFilter()).values()
    assert rate.pass_rate is None


def test_a_result_stands_for_as_many_as_its_chance_of_being_kept_says(engine: Engine) -> None:
    passed = judged(1)
    for decision in passed.decisions:
        decision.pair.probability = 0.05
    StoreWriter(engine).write([passed, judged(2, "fail")])
    with reading(engine) as connection:
        (rate,) = tallies(connection, ResultFilter()).values()
    assert (rate.passed, rate.failed, rate.passes.total, rate.fails.total) == (1, 1, 20.0, 1.0)
    assert rate.pass_rate == pytest.approx(20 / 21)
