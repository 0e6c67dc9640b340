"""How budgets came to be what they are, from a store."""

import pytest
from sqlalchemy import Engine

from build.judged_traces import MINUTE_NS, START_NS, judged
from build.loop_stage import rules
from tracegrade.alert.stored_slos import courses, stored_slos, with_objectives
from tracegrade.store.open import reading
from tracegrade.store.write import StoreWriter

DAY = 24 * 60
RULES = rules({"slo": {"objective": 0.9}, "min_samples": 1}, {"below": 0.5})
(RULE,) = RULES.rules
SLO = RULE.alert[0]
PLACE = ("default", RULE.id, "pass_rate", "shop", "support")


def receive(engine: Engine, minute: int, *outcomes: str, agent: str = "support", release: str = "1.0") -> None:
    received_ns = START_NS + minute * MINUTE_NS
    traces = []
    for number, outcome in enumerate(outcomes):
        trace = judged(
            minute * 1000 + number,
            outcome,
            release=release,
            first_received_ns=received_ns,
            last_received_ns=received_ns,
        )
        for decision in trace.decisions:
            decision.pair.rule_hash, decision.pair.subject.agent = RULE.hash, agent
        traces.append(trace)
    StoreWriter(engine).write(traces)


def test_a_course_ends_with_what_is_left_and_falls_when_results_fail(engine: Engine) -> None:
    """Of 40 results 4 may fail: one did 20 days ago, and two, of another release, an hour ago."""
    end = 29 * DAY
    receive(engine, 9 * DAY, *["pass"] * 20, "fail")
    receive(engine, end - 60, *["pass"] * 17, *["fail"] * 2, release="2.0")
    now_ns = START_NS + end * MINUTE_NS
    with reading(engine) as connection:
        course = courses(connection, RULE, SLO, now_ns)[PLACE]
        (status,) = stored_slos(connection, [RULE], now_ns)
    assert 50 <= len(course) <= 62
    assert course[0] == 1
    assert sorted(set(course), reverse=True) == pytest.approx([1, 0.75, 0.25])
    assert course[-1] == pytest.approx(0.25)
    place = course.index(next(left for left in course if left < 1))
    assert place / (len(course) - 1) * 30 == pytest.approx(30 - 20, abs=1), "20 of 30 days ago"
    assert status.budget.left == pytest.approx(course[-1])
    assert status.place == PLACE


def test_what_is_before_the_window_is_in_no_course_and_no_budget(engine: Engine) -> None:
    receive(engine, 0, *["fail"] * 5)
    receive(engine, 35 * DAY, "pass")
    now_ns = START_NS + 35 * DAY * MINUTE_NS + 3 * 3600 * 10**9
    with reading(engine) as connection:
        course = courses(connection, RULE, SLO, now_ns)[PLACE]
        (status,) = stored_slos(connection, [RULE], now_ns)
    assert set(course) == {1}
    assert (status.budget.left, status.budget.judged) == (1, 1)


def test_the_budget_of_which_least_is_left_comes_first_and_an_unknown_one_last(engine: Engine) -> None:
    for agent, outcomes in {"a": ["pass"], "b": ["fail"], "c": ["not_evaluable"], "d": ["pass"] * 9 + ["fail"]}.items():
        receive(engine, ord(agent), *outcomes, agent=agent)
    with reading(engine) as connection:
        found = stored_slos(connection, with_objectives(RULES), START_NS + 200 * MINUTE_NS)
    assert [(item.place[-1], item.budget.left) for item in found] == [
        ("b", pytest.approx(-9)),
        ("d", pytest.approx(0)),
        ("a", 1),
        ("c", None),
    ]


def test_rules_that_never_alert_have_no_budgets() -> None:
    assert with_objectives(RULES) == [RULE]
    assert with_objectives(rules({"below": 0.5})) == []
    assert with_objectives(rules({"slo": {"objective": 0.9}}, status="experimental")) == []
