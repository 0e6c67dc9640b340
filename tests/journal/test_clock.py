from hypothesis import given
from hypothesis import strategies as st
from tests.journal.conftest import FakeClock

from tracegrade.journal.clock import JournalClock


def test_time_set_back_goes_on_at_the_monotonic_pace() -> None:
    now, monotonic = FakeClock(1000), FakeClock(50)
    clock = JournalClock(now, monotonic)
    assert clock.read() == 1000
    now.ns, monotonic.ns = 400, 60
    assert clock.read() == 1010
    now.ns, monotonic.ns = 405, 65
    assert clock.read() == 1015
    now.ns, monotonic.ns = 2000, 70
    assert clock.read() == 2000


def test_it_never_gives_out_a_time_before_a_given_one() -> None:
    clock = JournalClock(FakeClock(1000), FakeClock(0))
    clock.not_before(5000)
    assert clock.read() == 5000


@given(st.lists(st.tuples(st.integers(0, 10**18), st.integers(0, 10**12))))
def test_times_never_decrease(steps: list[tuple[int, int]]) -> None:
    now, monotonic = FakeClock(), FakeClock()
    clock = JournalClock(now, monotonic)
    last = 0
    for now.ns, elapsed in steps:
        monotonic.ns += elapsed
        assert clock.read() >= last
        last = clock.read()
