"""Outcomes over time: by rule, place and step, worked by hand."""

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import Engine

from build import each
from build.judged_traces import MINUTE_NS, START_NS, evaluation, judged
from tracegrade.model.tally import Tally
from tracegrade.store.open import reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.trends import names_of, traffic, trends
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
        found = trends(connection, ResultFilter(), ["rule_id"])
    assert found == {
        ("checkout-order",): {0: tally(1, 2, not_evaluable=1, errors=1, incomplete=1)},
        ("another",): {0: tally(1, 0, probability=0.1)},
    }
    assert found["checkout-order",][0].pass_rate == pytest.approx(1 / 3)
    assert found["checkout-order",][0].coverage == pytest.approx(3 / 5)


def test_incomplete_traces_count_where_their_rule_says_so(filled: Engine) -> None:
    with reading(filled) as connection:
        found = trends(connection, ResultFilter(), ["rule_id"], counting_incomplete=["checkout-order"])
    assert found["checkout-order",][0] == tally(1, 3, not_evaluable=1, errors=1)


def test_steps_begin_at_whole_ones(filled: Engine) -> None:
    with reading(filled) as connection:
        found = trends(connection, ResultFilter(rule="checkout-order"), [], step_minutes=60)
        some = ResultFilter(rule="checkout-order", since_ns=START_NS, until_ns=START_NS + 3 * MINUTE_NS)
        by_minute = trends(connection, some, [], step_minutes=1)
    assert {step: (sums.passed, sums.failed) for step, sums in found[()].items()} == {
        START // 60: (1, 1),
        START // 60 + 1: (0, 1),
    }
    assert {step - START: (sums.passed, sums.failed) for step, sums in by_minute[()].items()} == {1: (1, 0), 2: (0, 1)}


@pytest.mark.parametrize("step_minutes", [1, 10, 30, 60, 120, 720, 1440, 10080])
def test_each_minute_is_in_its_own_step_however_long_the_window(sqlite: Engine, step_minutes: int) -> None:
    came = (1, 17, 44, 59, 61, 95, 1500)
    StoreWriter(sqlite).write([judged(minute) for minute in came])
    days_ns = 3 * 1440 * MINUTE_NS
    with reading(sqlite) as connection:
        window = ResultFilter(since_ns=START_NS - days_ns, until_ns=START_NS + days_ns)
        found = traffic(connection, window, step_minutes=step_minutes)
    assert found == Counter((START + minute) // step_minutes for minute in came)


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
        assert trends(connection, result_filter, ["service", "agent", "release"]).keys() == keys


def test_traffic_counts_traces_whatever_judges_them(filled: Engine) -> None:
    with reading(filled) as connection:
        assert traffic(connection, ResultFilter()) == {0: 6}
        assert traffic(connection, ResultFilter(service="bank", rule="nobody")) == {0: 1}
        assert names_of(connection, "service") == ["bank", "shop"]
        assert names_of(connection, "release") == ["1.0"]
