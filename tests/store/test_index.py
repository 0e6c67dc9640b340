"""Where results are found: blocks of traces that hold some, and traces spread evenly over a time."""

from itertools import pairwise

import pytest
from sqlalchemy import Engine, select

from build.judged_traces import START_NS, judged
from tracegrade.store.index import Blocks, block_ranges, spread
from tracegrade.store.open import reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import BLOCK_TRACES, CHUNK_TRACES, EVERY_SERIES, OUTCOMES, series
from tracegrade.store.write import StoreWriter

SERIES, OTHER = 7, 8
PASS, FAIL = 0, 1
# The last of a chunk, the first of the next, others of one block; the newest in ever wider windows, up to the widest.
NUMBERS = [1, CHUNK_TRACES - 1, CHUNK_TRACES, CHUNK_TRACES + 1, 40_000, 2_000_000, 12_000_000, 20_000_000]
NEWEST = 30_000_000


def add(engine: Engine, numbers: list[int], series: int, outcome: int) -> None:
    noted = Blocks()
    for number in numbers:
        noted.add(number, [("id", series, None, 0, "subject", outcome, 1.0, 0)])
    with engine.begin() as connection:
        noted.write(connection)


def found(engine: Engine, chosen: list[int], outcomes: list[int], low: int = 0) -> list[tuple[int, int]]:
    with reading(engine) as connection:
        return list(block_ranges(connection, chosen, outcomes, low, NEWEST))


def test_every_block_that_holds_some_is_found_once_newest_first(engine: Engine) -> None:
    add(engine, NUMBERS[::2], SERIES, PASS)
    add(engine, NUMBERS[1::2], SERIES, PASS)  # partly into the same chunks
    add(engine, NUMBERS[:4], OTHER, PASS)
    blocks = sorted({number // BLOCK_TRACES for number in NUMBERS}, reverse=True)
    whole = [(block * BLOCK_TRACES, block * BLOCK_TRACES + BLOCK_TRACES - 1) for block in blocks]
    assert found(engine, [SERIES], [PASS, FAIL]) == whole
    assert found(engine, [SERIES, OTHER], [PASS, FAIL]) == whole
    assert found(engine, [EVERY_SERIES], [PASS, FAIL]) == whole
    assert all(later[0] > earlier[1] for later, earlier in pairwise(whole))


@pytest.mark.parametrize(("series", "outcome", "held"), [(SERIES, FAIL, []), (OTHER, PASS, [1]), (OTHER, FAIL, [0])])
def test_blocks_of_other_series_and_outcomes_are_not_read(
    engine: Engine, series: int, outcome: int, held: list[int]
) -> None:
    add(engine, [1], SERIES, PASS)
    add(engine, [CHUNK_TRACES + BLOCK_TRACES], OTHER, PASS)
    add(engine, [2], OTHER, FAIL)
    first = {1: CHUNK_TRACES + BLOCK_TRACES, 0: 0}
    expected = [(first[place], first[place] + BLOCK_TRACES - 1) for place in held]
    assert found(engine, [series], [outcome]) == expected


def test_nothing_lower_than_asked_for_is_given(engine: Engine) -> None:
    add(engine, [5, 70, 150], SERIES, PASS)
    assert found(engine, [SERIES], [PASS], low=71) == [(128, 191), (71, 127)]
    assert found(engine, [SERIES], [PASS], low=128) == [(128, 191)]


ANY = tuple(range(len(OUTCOMES)))
FAILED = (OUTCOMES.index("fail"),)


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
    assert first_numbers(sixteen_blocks, FAILED, START_NS + 16 * BLOCK_TRACES * 10**9) == [3, 9]
    assert first_numbers(sixteen_blocks, FAILED, START_NS + 5 * BLOCK_TRACES * 10**9) == [3]
    assert first_numbers(sixteen_blocks, ANY, START_NS) == []
