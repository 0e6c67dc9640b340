import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracegrade.otlp.retry import Backoff, RetrySettings


def delays(settings: RetrySettings, count: int, random=0.5, retry_after_s=None) -> list[float | None]:
    """The first waits of a request whose attempts take no time."""
    backoff, now_s, found = Backoff(settings, 0.0, lambda: random), 0.0, []
    for _ in range(count):
        delay = backoff.next_delay(now_s, retry_after_s)
        found.append(delay)
        now_s += delay or 0.0
    return found


def test_waits_grow_by_the_multiplier_up_to_the_longest():
    assert delays(RetrySettings(), 7) == [5.0, 7.5, 11.25, 16.875, 25.3125, 30.0, 30.0]


@pytest.mark.parametrize(("random", "first", "second"), [(0.0, 2.5, 3.75), (0.5, 5.0, 7.5), (0.75, 6.25, 9.375)])
def test_waits_are_spread_around_the_interval_which_grows_unspread(random, first, second):
    assert delays(RetrySettings(), 2, random) == [first, second]


def test_the_servers_delay_is_the_least_that_is_waited():
    assert delays(RetrySettings(), 4, retry_after_s=10.0) == [10.0, 10.0, 11.25, 16.875]


def test_a_wait_that_would_end_too_late_is_not_begun():
    settings = RetrySettings(max_elapsed_time=30.0)
    backoff = Backoff(settings, 100.0, lambda: 0.5)
    assert backoff.next_delay(125.0) == 5.0  # ends at 130: just in time
    assert Backoff(settings, 100.0, lambda: 0.5).next_delay(125.1) is None
    assert Backoff(settings, 100.0, lambda: 0.5).next_delay(101.0, retry_after_s=60.0) is None


def test_zero_never_gives_up():
    settings = RetrySettings(max_elapsed_time=0.0)
    assert Backoff(settings, 0.0, lambda: 0.5).next_delay(1e9, retry_after_s=3600.0) == 3600.0


def test_switched_off_there_is_one_attempt():
    assert delays(RetrySettings(enabled=False), 1) == [None]


@given(
    random=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=60),
    asked=st.lists(st.none() | st.floats(0, 100), min_size=1, max_size=60),
    factor=st.floats(0, 1),
)
def test_every_wait_keeps_its_bounds_and_the_sum_ends_in_time(random, asked, factor):
    settings = RetrySettings(randomization_factor=factor, max_elapsed_time=300.0)
    numbers = iter(random)
    backoff, now_s = Backoff(settings, 0.0, lambda: next(numbers)), 0.0
    for _, retry_after_s in zip(random, asked, strict=False):
        delay = backoff.next_delay(now_s, retry_after_s)
        if delay is None:
            break
        assert delay >= max(retry_after_s or 0.0, 5.0 * (1 - factor) - 1e-9)
        assert delay <= max(retry_after_s or 0.0, 30.0 * (1 + factor)) + 1e-9
        now_s += delay
    assert now_s <= 300.0
