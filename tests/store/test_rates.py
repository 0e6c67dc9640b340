import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from store.judged_traces import MINUTE_NS, START_NS, evaluation, judged
from tracegrade.store.open import open_store, reading
from tracegrade.store.rates import Rate, rates
from tracegrade.store.read import Filter
from tracegrade.store.write import StoreWriter


@pytest.fixture(scope="module")
def hours(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """200 traces, a minute apart."""
    path = tmp_path_factory.mktemp("hours") / "tracegrade.db"
    engine = open_store(f"sqlite:///{shutil.copy(empty_store, path)}")
    StoreWriter(engine).write([judged(number) for number in range(200)])
    yield engine
    engine.dispose()


def test_outcomes_are_counted_by_rule_and_service(engine: Engine) -> None:
    outcomes = ["pass", "pass", "fail", "not_evaluable", "error"]
    StoreWriter(engine).write([judged(number, outcome) for number, outcome in enumerate(outcomes)])
    with reading(engine) as connection:
        (rate,) = rates(connection, Filter())
    assert rate == Rate("default", "checkout-order", "", "shop", 2, 1, 1, 1, 0, 0.0, 2.0, 1.0)
    assert rate.pass_rate == 2 / 3


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
        (whole,) = rates(connection, Filter())
        (args,) = rates(connection, Filter(), evaluation="args")
    assert (whole.passed, whole.failed) == (0, 2)
    assert (args.passed, args.failed, args.score_sum) == (1, 1, 1.25)


def test_incomplete_traces_are_left_out_unless_asked_for(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1), judged(2, "fail", complete=False)])
    with reading(engine) as connection:
        (rate,) = rates(connection, Filter())
        (counted,) = rates(connection, Filter(), count_incomplete=True)
    assert (rate.passed, rate.failed, rate.incomplete) == (1, 0, 1)
    assert (counted.passed, counted.failed, counted.incomplete) == (1, 1, 0)


def test_a_window_holds_whole_minutes(engine: Engine) -> None:
    StoreWriter(engine).write([judged(number) for number in range(200)])
    with reading(engine) as connection:

        def count(since_ns: int | None, until_ns: int | None) -> int:
            return sum(rate.passed for rate in rates(connection, Filter(since_ns=since_ns, until_ns=until_ns)))

        assert count(START_NS + 150 * MINUTE_NS, None) == 50
        assert count(START_NS + 150 * MINUTE_NS + 30, None) == 50, "the minute that the window begins in counts"
        assert count(None, START_NS + 10 * MINUTE_NS) == 10
        assert count(START_NS + 1 * MINUTE_NS, START_NS + 190 * MINUTE_NS) == 189


@pytest.mark.parametrize("first", [0, 1, 59, 60, 61, 120, 150])
@pytest.mark.parametrize("length", [1, 2, 59, 60, 61, 119, 120, 130])
def test_hours_and_minutes_together_count_each_trace_once(hours: Engine, first: int, length: int) -> None:
    since_ns = START_NS + first * MINUTE_NS
    with reading(hours) as connection:
        found = rates(connection, Filter(since_ns=since_ns, until_ns=since_ns + length * MINUTE_NS))
    assert sum(rate.passed for rate in found) == max(0, min(first + length, 200) - first)


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
        assert rates(connection, Filter(), evaluation=None) == []


def test_nothing_judged_has_no_pass_rate(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1, "not_evaluable")])
    with reading(engine) as connection:
        (rate,) = rates(connection, Filter())
    assert rate.pass_rate is None


def test_a_result_stands_for_as_many_as_its_chance_of_being_kept_says(engine: Engine) -> None:
    passed = judged(1)
    for decision in passed.decisions:
        decision.pair.probability = 0.05
    StoreWriter(engine).write([passed, judged(2, "fail")])
    with reading(engine) as connection:
        (rate,) = rates(connection, Filter())
    assert (rate.passed, rate.failed, rate.passes, rate.fails) == (1, 1, 20.0, 1.0)
    assert rate.pass_rate == pytest.approx(20 / 21)
