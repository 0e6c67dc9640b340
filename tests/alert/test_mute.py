from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from alert.notify.listening import ALERT
from tracegrade.alert.mute import Maintenance, is_muted, matches
from tracegrade.store.alerts import Silence


def ns(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000_000


@pytest.mark.parametrize(
    ("time", "covered"),
    [
        ("2026-01-02 21:59", False),  # a Friday
        ("2026-01-02 22:00", True),
        ("2026-01-03 01:59", True),  # the night of Friday lasts into Saturday
        ("2026-01-03 02:00", False),
        ("2026-01-03 23:00", False),
        ("2026-01-02 01:00", False),
    ],
)
def test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins(time: str, covered: bool) -> None:
    assert Maintenance(days=["fri"], start="22:00", end="02:00").covers(ns(time)) is covered


def test_a_window_within_a_day_ends_when_it_says() -> None:
    window = Maintenance(start="08:00", end="09:00")
    assert [window.covers(ns(f"2026-01-02 {time}")) for time in ("07:59", "08:00", "08:59", "09:00")] == [
        False,
        True,
        True,
        False,
    ]


def test_only_alerts_whose_labels_all_match_are_muted() -> None:
    assert matches(ALERT, {"service": "sh*", "rule": "checkout-order"})
    assert not matches(ALERT, {"service": "sh*", "rule": "other"})
    silence = Silence("1", {"service": "shop"}, 100, 200, "")
    assert [is_muted(ALERT, [silence], [], now) for now in (99, 100, 199, 200)] == [False, True, True, False]
    assert not is_muted(replace(ALERT, service="bank"), [silence], [], 150)


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": "8:00", "end": "09:00"},
        {"start": "24:00", "end": "09:00"},
        {"start": "08:00", "end": "09:00", "labels": {"team": "x"}},
    ],
)
def test_what_no_window_can_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Maintenance.model_validate(wrong)
