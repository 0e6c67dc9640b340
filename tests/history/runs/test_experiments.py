"""Scores, the baseline, what is best, worked by hand."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from build import each
from build.judged_traces import START_NS, evaluation, judged
from build.stored_runs import begin, run_of
from tracegrade.history.runs.experiments import (
    ScoredRun,
    Standing,
    check_stored,
    known_experiment,
    known_run,
    run_or_experiment,
    score_of,
    scored_run,
    standings,
    timeline,
)
from tracegrade.model.errors import NotFound
from tracegrade.model.tally import Tally
from tracegrade.store.open import reading
from tracegrade.store.runs import pin_baseline, save_run
from tracegrade.store.write import StoreWriter

RULE = {"hash": "0123456789abcdef", "incomplete": "leave_out"}


def rule(passed: int, failed: int) -> Tally:
    return Tally.of(passed, failed, 0, 0)


@each(
    ("rules", "score"),
    [
        ([], None),
        ([Tally.of(0, 0, 3, 0)], None),
        ([rule(1, 1)], 0.5),
        ([rule(1, 0), rule(1, 99)], 0.505),  # of rules, not of results: that would be 2/101
        ([rule(2, 1), Tally.of(0, 0, 0, 4)], 0.6667),  # a rule without a rate does not count
        ([Tally.one("pass", 1 / 3).plus(Tally.one("fail"))], 0.75),  # a pass that stands for three
    ],
)
def test_a_score_is_the_mean_of_the_rates_of_the_rules(rules: list[Tally], score: float | None) -> None:
    assert score_of({str(place): sums for place, sums in enumerate(rules)}, {}) == score


def test_of_a_suite_the_mean_overall_counts_and_not_the_pass_rate() -> None:
    # (0.85 + 1 / 2) / 2
    assert score_of({"suite": rule(1, 3), "order": rule(1, 1)}, {"suite": 0.85}) == 0.675


def scored(name: str, score: float | None, **changes: Any) -> ScoredRun:
    return ScoredRun(run_of(name, **{"state": "complete", **changes}), 9, {}, score)


def stands(found: list[ScoredRun], pinned: str | None = None) -> list[tuple[float | None, bool, bool]]:
    return [(item.delta, item.is_baseline, item.is_best) for item in standings(found, pinned)]


def test_the_first_run_is_the_baseline_and_a_run_is_best_only_when_it_is_better() -> None:
    found = [scored("1", 0.8), scored("2", 0.8), scored("3", 0.75), scored("4", 0.9001), scored("5", 0.9001)]
    assert stands(found) == [
        (0.0, True, True),
        (0.0, False, False),
        (-0.05, False, False),
        (0.1001, False, True),
        (0.1001, False, False),
    ]


def test_a_pinned_run_is_the_baseline() -> None:
    assert stands([scored("1", 0.8), scored("2", 0.9)], "2") == [(-0.1, False, True), (0.0, True, True)]


@pytest.mark.parametrize("state", ["incomplete", "failed", "deleting"])
def test_a_run_that_is_not_complete_is_neither_baseline_nor_best(state: str) -> None:
    found = [scored("1", 0.9, state=state), scored("2", None), scored("3", 0.5)]
    assert stands(found) == [(0.4, False, False), (None, False, False), (0.0, True, True)]


def test_without_a_score_there_is_no_baseline_and_no_delta() -> None:
    assert stands([scored("1", None)]) == [(None, False, False)]
    assert stands([]) == []


def test_rules_that_are_others_than_those_of_the_baseline_are_named() -> None:
    first = scored("1", 0.5, rules={"a": {"hash": "1"}, "b": {"hash": "1"}})
    second = scored("2", 0.5, rules={"a": {"hash": "1"}, "b": {"hash": "2"}, "c": {"hash": "1"}})
    assert [item.other_rules for item in standings([first, second], None)] == [[], ["b", "c"]]


def test_what_a_run_did_is_read_from_what_is_counted(engine: Engine) -> None:
    begin(engine, "tuning/1", rules={"checkout-order": RULE, "never-matched": RULE}, state="incomplete")
    another = [evaluation(2, "pass", run="tuning/1", rule_id="another", service="bank")]
    StoreWriter(engine).write(
        [
            judged(1, "fail", run="tuning/1"),
            judged(2, run="tuning/1", evaluations=another),
            judged(3, run="tuning/1", complete=False),
            judged(1),
        ]
    )
    with reading(engine) as connection:
        found = scored_run(connection, known_run(connection, "default", "tuning/1"))
    assert {rule_id: (sums.passed, sums.failed, sums.incomplete) for rule_id, sums in found.rules.items()} == {
        "another": (1, 0, 0),
        "checkout-order": (0, 1, 1),
        "never-matched": (0, 0, 0),
    }
    assert (found.traces, found.score) == (3, 0.5)


def test_the_mean_overall_of_a_suite_is_that_of_all_its_cases(engine: Engine) -> None:
    suite, counted = {**RULE, "scored_by": "overall"}, {**RULE, "scored_by": "overall", "incomplete": "count"}
    begin(engine, "tuning/1", rules={"suite": suite, "all-of-it": counted, "unmet": suite, "order": RULE})

    def case(number: int, rule_id: str, evaluator: str, score: float | None, **changes: Any) -> dict[str, Any]:
        outcome = "not_evaluable" if score is None else "pass" if score == 1 else "fail"
        named = {"evaluation": evaluator, "evaluator": evaluator, "case": str(number), "score": score}
        return evaluation(number, outcome, run="tuning/1", rule_id=rule_id, **named, **changes)

    found = [
        [case(1, "suite", "tool-case", 1.0), case(1, "order", "tool-call-order", 0.25)],
        [case(2, "suite", "tool-case", 0.6)],
        [case(3, "suite", "multi-turn", 0.5, probability=0.5)],  # it stands for two
        [case(4, "suite", "tool-case", None)],
    ]
    StoreWriter(engine).write(
        judged(number, run="tuning/1", evaluations=of) for number, of in enumerate(found, start=1)
    )
    cut = [case(5, rule_id, "tool-case", 0.4, complete=False) for rule_id in ("suite", "all-of-it")]
    StoreWriter(engine).write([judged(5, run="tuning/1", evaluations=cut, complete=False)])
    with reading(engine) as connection:
        of_run = scored_run(connection, known_run(connection, "default", "tuning/1"))
    assert of_run.overall == {"suite": pytest.approx((1 + 0.6 + 2 * 0.5) / 4), "all-of-it": 0.4}
    assert of_run.score == 0.35  # the mean of 0.65, 0.4, and the pass rate of order, which is 0
    rules = of_run.to_json()["rules"]
    assert isinstance(rules, dict)
    assert [of["mean_overall"] for of in rules.values() if isinstance(of, dict)] == [0.4, None, 0.65, None]


def test_incomplete_traces_count_where_the_rule_of_the_run_said_so(engine: Engine) -> None:
    begin(engine, "tuning/1", rules={"checkout-order": {**RULE, "incomplete": "count"}})
    StoreWriter(engine).write([judged(1, "fail", run="tuning/1"), judged(2, run="tuning/1", complete=False)])
    with reading(engine) as connection:
        assert scored_run(connection, known_run(connection, "default", "tuning/1")).score == 0.5


def test_a_timeline_has_the_runs_of_its_experiment_in_order(engine: Engine) -> None:
    begin(engine, "tuning/1", "tuning/2")
    begin(engine, "other/1", experiment="other")
    StoreWriter(engine).write([judged(1, "fail", run="tuning/1"), judged(1, run="tuning/2")])
    with engine.begin() as connection:
        save_run(connection, run_of("tuning/2", state="complete", begun_ns=START_NS - 1))
        save_run(connection, run_of("tuning/1", state="complete"))
    with reading(engine) as connection:
        found = timeline(connection, known_experiment(connection, "default", "tuning"))
    assert [(item.scored.run.name, item.delta, item.is_best) for item in found.standings] == [
        ("tuning/2", 0.0, True),
        ("tuning/1", -1.0, False),
    ]
    assert [name_of(found.baseline), name_of(found.best)] == ["tuning/2", "tuning/2"]
    with engine.begin() as connection:
        pin_baseline(connection, "default", "tuning", "tuning/1")
        assert known_experiment(connection, "default", "tuning").baseline == "tuning/1"


def name_of(standing: Standing | None) -> str | None:
    return standing and standing.scored.run.name


def test_a_name_that_is_not_there_is_said_to_be_missing_with_those_near_it(engine: Engine) -> None:
    with reading(engine) as connection, pytest.raises(NotFound, match="no run 'tuning/1': no run is stored here"):
        known_run(connection, "default", "tuning/1")
    begin(engine, "tuning/1")
    with engine.begin() as connection:
        save_run(connection, replace(run_of("elsewhere"), tenant="other"))
    with reading(engine) as connection:
        with pytest.raises(NotFound, match=r"no run 'tuning/2'; did you mean 'tuning/1'\?"):
            known_run(connection, "default", "tuning/2")
        with pytest.raises(NotFound, match=r"no experiment 'tunin'; did you mean 'tuning'\?"):
            known_experiment(connection, "default", "tunin")
        with pytest.raises(NotFound, match=r"no run or experiment 'tunin'; did you mean 'tuning'\?"):
            run_or_experiment(connection, "default", "tunin")
        with pytest.raises(NotFound, match="no run 'elsewhere'"):
            known_run(connection, "default", "elsewhere")
        check_stored(connection, "elsewhere")
        assert run_or_experiment(connection, "default", "tuning") == known_experiment(connection, "default", "tuning")
        assert run_or_experiment(connection, "default", "tuning/1") == run_of("tuning/1")
