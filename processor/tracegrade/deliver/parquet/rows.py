"""Rows of the Parquet tables made of one judged trace, in the order of `columns`."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from tracegrade.deliver.parquet.columns import (
    CALL,
    CALLING_TRACE,
    DECISION,
    EVALUATION,
    JUDGED_TRACE,
    NUMBER,
    PAIR,
    SUBJECT,
    TRACE,
    Column,
)
from tracegrade.display import as_sent
from tracegrade.model.trace_result import TraceResult

Row: TypeAlias = tuple[Any, ...]

_NO_EVALUATION: Row = (None,) * len(EVALUATION)
_NO_RESULT: Row = (None,) * len((*SUBJECT, *PAIR, *DECISION, *EVALUATION))


def result_rows(judged: TraceResult, include_values: bool) -> list[Row]:
    """One row for each evaluation, and for each decision that has none; none where the sample left a subject out.

    A trace without any gets one row if it replaces an earlier revision, which may have had results.
    """
    trace = judged.trace
    of_trace = (*_row(TRACE, trace), *_row(JUDGED_TRACE, trace))
    rows = []
    for decision in judged.decisions:
        if decision.kind == "sampled_out":
            continue
        pair = decision.pair
        shared = (*of_trace, *_row(SUBJECT, pair.subject), *_row(PAIR, pair), *_row(DECISION, decision))
        for item in decision.evaluations:
            rows.append((*shared, *_row(EVALUATION, as_sent(item, include_values), include_values)))
        if not decision.evaluations:
            rows.append((*shared, *_NO_EVALUATION))
    if not rows and trace.supersedes is not None:
        rows.append((*of_trace, *_NO_RESULT))
    return rows


def call_rows(judged: TraceResult, include_values: bool) -> list[Row]:
    """One row for each tool call."""
    if not judged.tool_calls:
        return []
    shared = (*_row(TRACE, judged.trace), *_row(CALLING_TRACE, judged.trace))
    return [
        (*shared, NUMBER.value(number), *_row(CALL, call, include_values))
        for number, call in enumerate(judged.tool_calls)
    ]


def _row(columns: Sequence[Column], record: Any, include_values: bool = True) -> Row:
    return tuple([column.value(record) if include_values or not column.is_value else None for column in columns])
