"""The condition that results wait long for the store."""

from tracegrade.serve.delivering.store_lag import StoreLag
from tracegrade.telemetry.conditions import Conditions


def test_results_that_wait_long_are_said_until_they_are_stored() -> None:
    conditions = Conditions()
    now = {"s": 0.0}
    positions: dict[str, tuple[int, int]] = {}
    lag = StoreLag(lambda: positions, conditions, lambda: now["s"])

    def holds(now_s: float, **seen: tuple[int, int]) -> bool:
        now["s"] = now_s
        positions.clear()
        positions.update(seen)
        lag.poll()
        return conditions.holds("store_behind")

    # When, what is stored and what there is of each journal, and whether the condition holds.
    looks = [
        (0.0, {"results": (0, 50)}, False),
        (9.0, {"results": (0, 70)}, False),  # waits for less than 10 s
        (11.0, {"results": (49, 90)}, True),  # of what ended at 50, something is not stored
        (12.0, {"results": (50, 90)}, False),  # what ended at 70 came at 9 s
        (20.0, {"results": (69, 99)}, True),
        (21.0, {"results": (99, 99)}, False),
        (22.0, {"results": (99, 99), "left": (0, 5)}, False),
        (40.0, {"results": (99, 99), "left": (0, 5)}, True),
        (41.0, {"results": (99, 99)}, False),  # a journal that is removed waits no more
    ]
    assert [now_s for now_s, seen, expected in looks if holds(now_s, **seen) is not expected] == []
    conditions.begin("store_unavailable", "away")
    assert not holds(50.0, results=(99, 120))
    assert not holds(70.0, results=(99, 120)), "a store that takes nothing has a condition of its own"
