"""Traces that are spread evenly over a time, for looking at some of very many."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, select

from tracegrade.store.blocks import block_ranges
from tracegrade.store.result_filter import ResultFilter, of_traces
from tracegrade.store.run_numbers import numbers_of
from tracegrade.store.schema import BLOCK_TRACES, traces

MOST_BLOCKS = 64
"""So many blocks are read at most, and in each so many traces as a block holds."""

MOST_ROWS = MOST_BLOCKS * BLOCK_TRACES

_READ = ("number", "trace_id", "first_received_ns", "evaluations", "decisions", "tool_calls", "agent_runs")


def spread(
    connection: Connection, result_filter: ResultFilter, chosen: Sequence[int], outcomes: Sequence[int]
) -> Iterator[list[Any]]:
    """Rows of ``traces`` that are spread evenly over the time of `result_filter`, a block at a time.

    Every beginning of them is spread evenly, too, so one may stop when there are enough. Where results are few, these
    are all of them.

    Args:
        connection: on the store.
        result_filter: which traces; its time must have an end.
        chosen: numbers of series: only blocks that hold one of their results are read. Others of these traces may not
            have one.
        outcomes: of these outcomes, as numbers.

    Returns:
        At most `MOST_ROWS` rows, each with the columns that name it and its lists, without values.
    """
    bounds = numbers_of(connection, result_filter)
    if bounds is None or not chosen:
        return
    query = select(*(traces.c[name] for name in _READ)).where(*of_traces(result_filter)).order_by(traces.c.number)
    blocks = list(block_ranges(connection, chosen, outcomes, *bounds))[::-1]
    most = min(MOST_BLOCKS, len(blocks))
    for place in _evenly(most):
        first, last = blocks[place * len(blocks) // most]
        yield list(connection.execute(query.where(traces.c.number.between(first, last))))


def _evenly(count: int) -> list[int]:
    """0 to `count` - 1, so ordered that every beginning is spread evenly: halves, then quarters, then eighths."""
    digits = max(1, (count - 1).bit_length())
    return sorted(range(count), key=lambda number: int(f"{number:0{digits}b}"[::-1], 2))
