"""How far the slowest of several judges is, which is what alerts may know."""

from sqlalchemy import Engine, text

from build.engines import needs_postgresql
from tracegrade.store.several_processes import Judges


def test_the_one_judge_on_a_sqlite_is_as_far_as_it_is(sqlite: Engine) -> None:
    one = Judges(sqlite, "one", lambda: 7)
    one.note()
    assert one.stored_to_ns() == 7


@needs_postgresql
def test_several_are_as_far_as_the_slowest_that_is_still_heard_of(postgresql: Engine) -> None:
    with postgresql.begin() as connection:
        connection.execute(text("DELETE FROM judges"))
    slow_to_ns = [3]
    fast, slow = Judges(postgresql, "fast", lambda: 9), Judges(postgresql, "slow", lambda: slow_to_ns[0])
    assert fast.stored_to_ns() == 9, "nobody else was heard of"
    Judges(postgresql, "just started", lambda: 0).note()
    assert fast.stored_to_ns() == 9, "of one that does not know yet, nothing is known"
    slow.note()
    fast.note()
    assert (fast.stored_to_ns(), slow.stored_to_ns()) == (3, 3)
    slow_to_ns[0] = 20
    assert slow.stored_to_ns() == 9, "its own is known at once"
    slow.note()
    assert fast.stored_to_ns() == 9
    with postgresql.begin() as connection:
        connection.execute(text("UPDATE judges SET stored_to_ns = 3, seen = seen - interval '61 seconds'"))
    assert (fast.stored_to_ns(), slow.stored_to_ns()) == (9, 20), "the other one ended long ago"
