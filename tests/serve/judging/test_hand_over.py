"""Up to which time everything is judged and stored: alerts look no further."""

from tracegrade.serve.judging.hand_over import MemoryHandOver


def test_what_is_judged_counts_when_the_store_holds_it() -> None:
    hand_over = MemoryHandOver(0)
    assert hand_over.stored_to_ns() == 0
    hand_over.judged(100, 10)
    hand_over.judged(200, 20)
    assert hand_over.stored_to_ns() == 0, "nothing is stored"
    hand_over.store_holds(10)
    assert hand_over.stored_to_ns() == 100
    hand_over.store_holds(25)
    assert hand_over.stored_to_ns() == 200


def test_time_goes_on_where_nothing_is_to_be_judged() -> None:
    hand_over = MemoryHandOver(10)
    hand_over.store_holds(10)
    for clock_ns in (100, 200, 300):
        hand_over.judged(clock_ns, 10)
        assert hand_over.stored_to_ns() == clock_ns
    hand_over.judged(400, 20)
    hand_over.judged(500, 20)
    assert hand_over.stored_to_ns() == 300
    hand_over.store_holds(20)
    assert hand_over.stored_to_ns() == 500
