"""States that begin, last and end."""

from pathlib import Path

import pytest

from tracegrade.telemetry import conditions
from tracegrade.telemetry.conditions import KINDS, Condition, Conditions, conditions_in
from tracegrade.telemetry.metrics import METRICS, Telemetry


class Clock:
    def __init__(self) -> None:
        self.now_ns = 5_000_000_000

    def __call__(self) -> int:
        return self.now_ns


def test_a_condition_lasts_from_its_beginning_whatever_it_says_meanwhile() -> None:
    clock = Clock()
    conditions = Conditions(clock)
    conditions.begin("disk_failing", "the disk is full", "journal")
    clock.now_ns += 7_000_000_000
    conditions.begin("disk_failing", "the disk is read-only", "journal")
    assert conditions.current() == [Condition("disk_failing", "journal", 5_000_000_000, "the disk is read-only")]


def test_one_line_is_logged_when_it_begins_and_one_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    conditions = Conditions(clock)
    for _ in range(1000):
        conditions.begin("journal_full", "2.0 of 2.0 GiB", "journal")
    clock.now_ns += 90_000_000_000
    for _ in range(1000):
        conditions.end("journal_full", "journal")
    assert [record.getMessage() for record in caplog.records] == [
        "journal_full (journal): 2.0 of 2.0 GiB",
        "journal_full (journal) is over, after 90 s",
    ]


def test_each_place_has_a_condition_of_its_own_the_oldest_first() -> None:
    clock = Clock()
    conditions = Conditions(clock)
    conditions.begin("exporter_failing", "unavailable", "otlp/b")
    clock.now_ns += 1
    conditions.begin("exporter_failing", "unavailable", "otlp/a")
    assert [condition.where for condition in conditions.current()] == ["otlp/b", "otlp/a"]
    conditions.end("exporter_failing", "otlp/b")
    assert not conditions.holds("exporter_failing", "otlp/b")
    assert conditions.holds("exporter_failing", "otlp/a")


def test_a_name_that_is_none_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Conditions().begin("disk_fialing", "misspelt")


def test_what_an_earlier_process_began_goes_on_and_is_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    earlier = Telemetry("judge")
    earlier.conditions.begin("store_unavailable", "no answer")
    caplog.clear()
    later = Telemetry("judge")
    later.conditions.resume(conditions_in(earlier.snapshot()))
    later.conditions.begin("store_unavailable", "still none")
    assert not caplog.records
    (found,) = later.conditions.current()
    assert (found.since_ns, found.message) == (earlier.conditions.current()[0].since_ns, "still none")


def test_a_snapshot_holds_them_and_their_numbers() -> None:
    telemetry = Telemetry("receive")
    telemetry.conditions.begin("exporter_failing", "unavailable", "otlp/a")
    telemetry.conditions.begin("exporter_failing", "unavailable", "otlp/b")
    snapshot = telemetry.snapshot()
    assert len(conditions_in(snapshot)) == 2
    assert snapshot["metrics"]["tracegrade.conditions"] == [
        {"labels": {"condition": "exporter_failing"}, "value": 2},
    ]
    telemetry.conditions.end("exporter_failing", "otlp/a")
    telemetry.conditions.end("exporter_failing", "otlp/b")
    assert "tracegrade.conditions" not in telemetry.snapshot()["metrics"]
    assert METRICS["tracegrade.conditions"].labels == ("condition",)


def test_every_kind_says_what_to_do() -> None:
    assert all(kind.meaning and kind.advice for kind in KINDS.values())


def test_every_kind_begins_somewhere() -> None:
    package = Path(conditions.__file__).parents[1]
    source = "".join(path.read_text() for path in package.rglob("*.py") if path.name != "conditions.py")
    assert [name for name in KINDS if f'"{name}"' not in source] == []
