"""The values over time of what an alert watches."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert

from build import store_with
from build.stored_alerts import ALERT
from tracegrade.store.alerts import Facts, StoredAlert, save_alert
from tracegrade.store.open import open_store
from tracegrade.store.schema import COUNTED_MINUTES, MINUTE_NS, counts, series
from tracegrade.store.series import Series
from tracegrade.web.watched_values import WatchedValues, watched_values

DAY = 1440
NOW = 1_767_225_600 // 60  # a whole day
FELL = replace(
    ALERT, starts_ns=(NOW - 60) * MINUTE_NS, release=None, kind="drop", facts=Facts(since_ns=(NOW - 120) * MINUTE_NS)
)


class Counted:
    """A store in which results are counted by hand."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._numbers: dict[Series, int] = {}
        self._sums: dict[tuple[int, int, int, bool], list[float]] = {}

    def add(
        self, minute: int, passed: int, failed: int, *, scores: float = 0.0, complete: bool = True, **changes: Any
    ) -> None:
        of = Series(
            "default", "live", ALERT.rule_id, ALERT.rule_hash, "", "", "", None, "shop", "1.0", "support", 1.0, ""
        )._replace(**changes)
        number = self._numbers.setdefault(of, len(self._numbers) + 1)
        for minutes in COUNTED_MINUTES:
            place = (minutes, minute // minutes * minutes, number, complete)
            sums = self._sums.setdefault(place, [0, 0, 0])
            self._sums[place] = [sums[0] + passed, sums[1] + failed, sums[2] + scores]

    def values(self, alert: StoredAlert, now: int = NOW, count_incomplete: bool = False) -> WatchedValues:
        for of, number in self._numbers.items():
            row = {"number": number, "key": of.key, **of._asdict()}
            self.connection.execute(insert(series).values(row))
        rest = {"not_evaluable": 0, "errors": 0, "score_squares": 0.0}
        for (minutes, minute, number, complete), (passed, failed, scores) in self._sums.items():
            row = {"minutes": minutes, "minute": minute, "series": number, "complete": complete, "passed": passed}
            self.connection.execute(insert(counts).values({**row, "failed": failed, "score_sum": scores, **rest}))
        return watched_values(self.connection, alert, count_incomplete, now * MINUTE_NS)


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    engine = open_store(store_with(tmp_path))
    with engine.begin() as connection:
        yield Counted(connection)
    engine.dispose()


def test_values_are_those_before_it_began_and_since_then_and_never_of_both(counted: Counted) -> None:
    for minute in range(NOW - 2 * DAY, NOW):
        counted.add(minute, *((10, 0) if minute < NOW - 120 else (5, 5)))
    found = counted.values(FELL)
    assert {value.value for value in found.values if value.until_ns <= found.began_ns} == {1.0}
    assert {value.value for value in found.values if value.since_ns >= found.began_ns} == {0.5}
    assert found.began_ns == (NOW - 120) * MINUTE_NS
    assert found.step_minutes == 15
    assert found.until_ns - found.since_ns == (DAY + 120) * MINUTE_NS
    assert sum(value.results for value in found.values) == (DAY + 120) * 10
    assert found.usual == (1.0, 1.0)


def test_few_results_are_not_joined_over_the_moment_when_it_began(counted: Counted) -> None:
    for step in range(8):
        counted.add(NOW - 180 + 15 * step, *((3, 0) if step < 4 else (0, 3)))
    assert [(value.value, value.results) for value in counted.values(FELL).values] == [(1.0, 12), (0.0, 12)]


def test_few_results_are_joined_to_values_and_a_longer_time_is_looked_at(counted: Counted) -> None:
    for hour in range(7 * 24):
        counted.add(NOW - 120 - 60 * hour, 2, 0)  # 48 a day
    found = counted.values(FELL)
    assert found.began_ns - found.since_ns >= 7 * DAY * MINUTE_NS
    assert all(value.results >= 12 for value in found.values[1:-2])
    assert len(found.values) < 20


def test_what_was_usual_is_nine_values_of_ten_without_times_in_which_it_fired(counted: Counted) -> None:
    for step in range(20):
        minute = NOW - 120 - 60 * (step + 1)
        counted.add(minute, *((90, 10) if step % 2 else (80, 20)))
    counted.add(NOW - 120 - 10, 50, 50)  # one of the ten that may be outside
    counted.add(NOW - 120 - 60 * 21, 0, 100)  # an incident earlier on the same day
    earlier = replace(
        FELL,
        fingerprint="ef" * 16,
        starts_ns=(NOW - 120 - 60 * 21) * MINUTE_NS,
        ends_ns=(NOW - 120 - 60 * 20) * MINUTE_NS,
        state="resolved",
        facts=Facts(),
    )
    save_alert(counted.connection, earlier)
    found = counted.values(FELL)
    assert found.usual == (pytest.approx(0.8), pytest.approx(0.9))
    assert min(value.value for value in found.values) == 0.0


def test_nothing_is_called_usual_after_few_values(counted: Counted) -> None:
    for step in range(5):
        counted.add(NOW - 180 - 60 * step, 50, 0)
    assert counted.values(FELL).usual is None


def test_of_one_release_only_its_own_results_are_shown(counted: Counted) -> None:
    counted.add(NOW - 30, 40, 0, release="1.1")
    counted.add(NOW - 30, 0, 40, release="1.2")
    counted.add(NOW - 30, 0, 40, agent="somebody else", release="1.1")
    (value,) = counted.values(replace(FELL, release="1.1")).values
    assert (value.value, value.results) == (1.0, 40)


@pytest.mark.parametrize(
    ("of", "evaluation", "expected"),
    [("pass_rate", "", 0.75), ("order", "order", 0.75), ("order.score", "order", 0.8), ("tokens", "tokens", 0.8)],
)
def test_each_kind_of_what_is_watched_has_its_own_value(
    counted: Counted, of: str, evaluation: str, expected: float
) -> None:
    passed = 40 if of == "tokens" else 30  # what is measured passes
    counted.add(NOW - 30, passed, 40 - passed, scores=32.0, evaluation=evaluation)
    (value,) = counted.values(replace(FELL, of=of)).values
    assert value.value == pytest.approx(expected)


def test_results_that_stop_coming_are_counted_and_incomplete_ones_are_results(counted: Counted) -> None:
    for minute in range(NOW - DAY, NOW - 120, 5):
        counted.add(minute, 1, 1)
        counted.add(minute, 1, 0, complete=False)
    found = counted.values(replace(FELL, kind="silent"))
    assert found.is_count
    assert {value.value for value in found.values[1:]} == {9.0}
    assert found.values[-1].until_ns <= found.began_ns


def test_after_the_end_a_little_more_is_shown(counted: Counted) -> None:
    for minute in range(NOW - DAY, NOW, 5):
        counted.add(minute, 5, 5)
    ended = replace(FELL, state="resolved", starts_ns=(NOW - 1100) * MINUTE_NS, ends_ns=(NOW - 1000) * MINUTE_NS)
    ended = replace(ended, facts=Facts(since_ns=(NOW - 1120) * MINUTE_NS))
    found = counted.values(ended)
    assert found.until_ns == (NOW - 1000 + 120) * MINUTE_NS


def test_long_incidents_are_read_by_the_day(counted: Counted) -> None:
    for day in range(300):
        counted.add(NOW - DAY * (day + 1), 80, 20)
    found = counted.values(replace(FELL, facts=Facts(since_ns=(NOW - 90 * DAY) * MINUTE_NS)))
    assert found.step_minutes % DAY == 0
    assert found.began_ns - found.since_ns >= 180 * DAY * MINUTE_NS
    assert len(found.values) <= 136


def test_of_a_new_agent_no_longer_time_is_shown_than_it_has_results(counted: Counted) -> None:
    for hour in range(6):
        counted.add(NOW - 120 - 60 * hour, 20, 0)
    found = counted.values(FELL)
    assert found.began_ns - found.since_ns <= (DAY + 15) * MINUTE_NS
    assert len(found.values) == 6
