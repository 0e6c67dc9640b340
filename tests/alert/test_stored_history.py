"""The store as alerts see it, at one moment and over a stretch: the same, whichever way it is read."""

from collections.abc import Iterable, Mapping
from weakref import ref

import pytest
from sqlalchemy import Engine

from build import each
from build.judged_traces import MINUTE_NS, START_NS, judged
from tracegrade.alert.read import window_of
from tracegrade.alert.stored_history import ReadHistory, SettledHours, StoredHistory
from tracegrade.model.tally import Tally, total
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.store.history import Bin, SeriesHistory, SeriesKey, Window
from tracegrade.store.open import reading
from tracegrade.store.schema import EVERY_TRACE
from tracegrade.store.write import StoreWriter

RULE = Rule.model_validate(
    {
        "id": "checkout-order",
        "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["a", "b"]}],
        "alert": [{"below": 0.9, "of": of} for of in ("pass_rate", "tool-call-order.score")],
    }
)
HOURS = 5
OUTCOMES = ("pass", "fail", "pass", "not_evaluable", "pass", "error")


def sums_of(bins: Mapping[SeriesKey, Iterable[Bin]]) -> dict[SeriesKey, Tally]:
    return {key: total(item.tally for item in found) for key, found in bins.items()}


@pytest.fixture
def filled(engine: Engine) -> Engine:
    traces = []
    for number in range(60 * HOURS):
        complete, release = number % 10 != 9, "1.0" if number % 3 else "1.1"
        trace = judged(number, OUTCOMES[number % len(OUTCOMES)], complete=complete, release=release)
        for decision in trace.decisions:
            decision.pair.rule_hash = RULE.hash if number % 50 else "an earlier form"
            decision.pair.probability = 0.5 if number % 5 == 0 else 1.0
        traces.append(trace)
    StoreWriter(engine).write(traces)
    return engine


@each("evaluation", ["", "tool-call-order"])
@each(("first", "last"), [(0, 300), (17, 203), (60, 120), (61, 62), (299, 400), (400, 500)])
def test_any_window_is_seen_alike_by_hours_and_minutes_and_in_what_was_read_once(
    filled: Engine, evaluation: str, first: int, last: int
) -> None:
    with reading(filled) as connection:
        live = StoredHistory(connection, [RULE])
        read = ReadHistory(SeriesHistory(connection, {RULE.hash}), [RULE], START_NS, START_NS + 60 * HOURS * MINUTE_NS)
        window = Window(evaluation, START_NS + first * MINUTE_NS, START_NS + last * MINUTE_NS, False)
        for rule_id in (RULE.id, EVERY_TRACE):
            hours, minutes = live.bins(rule_id, window), live.bins(rule_id, window, True)
            assert read.bins(rule_id, window) == {key: list(found) for key, found in hours.items()}
            assert read.bins(rule_id, window, True) == {key: list(found) for key, found in minutes.items()}
            assert sums_of(hours) == sums_of(minutes)
            assert live.totals(rule_id, window) == read.totals(rule_id, window) == sums_of(hours)
            assert {item.minutes for bins in minutes.values() for item in bins} <= {1}


def test_what_is_seen_is_what_was_stored(filled: Engine) -> None:
    """Of 300 traces, 30 are incomplete; of the others those of every 50th minute are of an earlier form."""
    with reading(filled) as connection:
        live = StoredHistory(connection, [RULE])
        everything = START_NS, START_NS + 60 * HOURS * MINUTE_NS
        found = sums_of(live.bins(RULE.id, Window("", *everything, False)))
        assert {key.release for key in found} == {"1.0", "1.1"}
        assert {key.rule_hash for key in found} == {RULE.hash}
        complete, whole = (
            total(found.values()),
            total(sums_of(live.bins(RULE.id, Window("", *everything, True))).values()),
        )
        scores = total(sums_of(live.bins(RULE.id, Window("tool-call-order", *everything, False))).values())
        (traces,) = sums_of(live.bins(EVERY_TRACE, Window("", *everything, False))).values()
    numbers = [number for number in range(300) if number % 50]
    kept = [number for number in numbers if number % 10 != 9]
    assert whole.results == len(numbers)
    assert complete.results == len(kept)
    assert complete.errors == sum(number % 6 == 5 for number in kept)
    assert complete.all_passed == sum(2 if number % 5 == 0 else 1 for number in kept if number % 6 in (0, 2, 4))
    # A result that was kept with probability 1/2 weighs 2, and 4 in the sums of squares.
    squares = {number: 4 if number % 5 == 0 else 1 for number in kept}
    assert complete.judged_squares == sum(squares[number] for number in kept if number % 6 not in (3, 5))
    assert complete.other_squares == sum(squares[number] for number in kept if number % 6 in (3, 5))
    assert (scores.all_scores, scores.all_score_squares) == (
        complete.all_passed + complete.all_failed * 0.25,
        complete.all_passed + complete.all_failed * 0.25**2,
    )
    assert traces.passed == 270


def test_each_alert_is_read_with_the_results_that_it_looks_at(filled: Engine) -> None:
    """Silence is over when incomplete results come, too."""
    alerts = [{"below": 0.9}, {"coverage": {"silent": "1h"}}]
    rule = RULE.model_copy(update={"alert": [Alert.model_validate(fields) for fields in alerts]})
    everything = START_NS, START_NS + 60 * HOURS * MINUTE_NS
    with reading(filled) as connection:
        read = ReadHistory(SeriesHistory(connection, {rule.hash}), [rule], *everything)
        below, silent = (sums_of(read.bins(rule.id, window_of(rule, alert, *everything))) for alert in rule.alert)
    assert 0 < total(below.values()).results < total(silent.values()).results


def test_what_comes_late_is_seen_within_ten_minutes_and_what_is_new_at_once(filled: Engine) -> None:
    settled = SettledHours()
    window = Window("", START_NS, START_NS + 60 * HOURS * MINUTE_NS, False)

    def judged_at(minute: int, by_minute: bool = False) -> int:
        now_ns = window.until_ns + minute * MINUTE_NS
        with reading(filled) as connection:
            bins = StoredHistory(connection, [RULE], now_ns, settled).bins(EVERY_TRACE, window, by_minute)
        return sum(item.tally.passed for found in bins.values() for item in found)

    def by_minute_of_the_first_hour(minute: int) -> int:
        first = Window("", START_NS, START_NS + 60 * MINUTE_NS, False)
        with reading(filled) as connection:
            bins = StoredHistory(connection, [RULE], window.until_ns + minute * MINUTE_NS, settled).bins(
                EVERY_TRACE, first, True
            )
        return sum(item.tally.passed for found in bins.values() for item in found)

    before, before_by_minute = judged_at(0), by_minute_of_the_first_hour(0)
    StoreWriter(filled).write([judged(1000, "pass", first_received_ns=START_NS, last_received_ns=START_NS)])
    assert judged_at(9) == before, "hours that are over are read once"
    assert judged_at(9, by_minute=True) == before + 1
    assert by_minute_of_the_first_hour(9) == before_by_minute, "so are their minutes"
    assert by_minute_of_the_first_hour(10) == before_by_minute + 1
    assert judged_at(10) == before + 1
    assert judged_at(-5) == before + 1, "a clock that went back reads again"


def test_what_is_read_again_is_equal_until_something_comes(filled: Engine) -> None:
    window = Window("", START_NS, START_NS + 60 * HOURS * MINUTE_NS, False)

    def read(by_minute: bool) -> Mapping[SeriesKey, Iterable[Bin]]:
        with reading(filled) as connection:
            return StoredHistory(connection, [RULE]).bins(EVERY_TRACE, window, by_minute)

    before = [read(True), read(False)]
    assert [read(True), read(False)] == before
    StoreWriter(filled).write([judged(1000, "pass", first_received_ns=START_NS, last_received_ns=START_NS)])
    by_minute, by_hour = read(True), read(False)
    assert by_minute != before[0]
    assert by_hour != before[1]


def test_what_was_read_in_the_hour_before_is_given_back() -> None:
    class Read:
        pass

    settled, hour_ns = SettledHours(), 60 * MINUTE_NS
    read = ref(settled.of("an hour", 2 * hour_ns - 1, Read))
    settled.of("another", 2 * hour_ns - 1, Read)
    assert read() is not None
    settled.of("the next hour", 2 * hour_ns, Read)
    assert read() is None
