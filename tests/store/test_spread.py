"""Traces spread evenly over a time."""

import pytest
from sqlalchemy import Engine, select

from build.judged_traces import START_NS, judged
from tracegrade.store.index import spread
from tracegrade.store.open import reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import BLOCK_TRACES, OUTCOMES, series
from tracegrade.store.write import StoreWriter

ANY = tuple(range(len(OUTCOMES)))
FAIL = (OUTCOMES.index("fail"),)


def first_numbers(engine: Engine, outcomes: tuple[int, ...], until_ns: int) -> list[int]:
    """The block of each list of rows, in order of reading."""
    with reading(engine) as connection:
        chosen = list(connection.execute(select(series.c.number).where(series.c.evaluation != "")).scalars())
        result_filter = ResultFilter(tenant="default", since_ns=START_NS, until_ns=until_ns)
        return [rows[0].number // BLOCK_TRACES for rows in spread(connection, result_filter, chosen, outcomes)]


@pytest.fixture
def sixteen_blocks(engine: Engine) -> Engine:
    """Sixteen blocks, a trace a second; in the fourth and in the tenth is a fail."""
    outcomes = ["pass"] * (16 * BLOCK_TRACES)
    outcomes[3 * BLOCK_TRACES + 5] = outcomes[9 * BLOCK_TRACES] = "fail"
    received = ({"first_received_ns": START_NS + n * 10**9} for n in range(len(outcomes)))
    StoreWriter(engine).write([judged(n, outcome, **next(received)) for n, outcome in enumerate(outcomes)])
    return engine


def test_every_beginning_is_spread_over_the_time(sixteen_blocks: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    end_ns = START_NS + 16 * BLOCK_TRACES * 10**9
    every = first_numbers(sixteen_blocks, ANY, end_ns)
    assert sorted(every) == sorted(set(every))
    assert len(every) in (16, 17)  # numbers begin with 1
    monkeypatch.setattr("tracegrade.store.index.MOST_BLOCKS", 4)
    assert first_numbers(sixteen_blocks, ANY, end_ns) == [0, 8, 4, 12]


def test_only_blocks_with_such_a_result_within_the_time_are_read(sixteen_blocks: Engine) -> None:
    assert first_numbers(sixteen_blocks, FAIL, START_NS + 16 * BLOCK_TRACES * 10**9) == [3, 9]
    assert first_numbers(sixteen_blocks, FAIL, START_NS + 5 * BLOCK_TRACES * 10**9) == [3]
    assert first_numbers(sixteen_blocks, ANY, START_NS) == []
