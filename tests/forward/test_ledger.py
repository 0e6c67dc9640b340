from hypothesis import given
from hypothesis import strategies as st

from tracegrade.forward.ledger import Ledger


def test_the_position_waits_for_the_oldest_unfinished_record():
    ledger = Ledger(100)
    assert ledger.position == 100
    for position in (100, 110, 120):
        ledger.take(position, position + 10)
    ledger.finish(110)
    ledger.finish(120)
    assert (ledger.position, ledger.under_way) == (100, 1)
    ledger.finish(100)
    assert (ledger.position, ledger.under_way) == (130, 0)


def test_what_is_passed_over_moves_the_position_only_when_nothing_is_under_way():
    ledger = Ledger(0)
    ledger.pass_over(10)
    assert ledger.position == 10
    ledger.take(10, 20)
    ledger.pass_over(30)
    assert ledger.position == 10
    ledger.finish(10)
    assert ledger.position == 30


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), max_size=40), st.randoms())
def test_the_position_never_grows_past_an_unfinished_record_and_never_shrinks(gaps_and_sizes, random):
    ledger, end, unfinished, last = Ledger(0), 0, {}, 0
    for gap, size in gaps_and_sizes:
        position = end + gap  # a gap: bytes that could not be read
        end = position + size
        ledger.take(position, end)
        unfinished[position] = end
        while unfinished and random.random() < 0.5:
            done = random.choice(list(unfinished))
            ledger.finish(done)
            del unfinished[done]
        assert ledger.position == min(unfinished, default=end)
        assert ledger.position >= last
        last = ledger.position
