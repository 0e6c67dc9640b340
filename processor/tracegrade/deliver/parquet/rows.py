"""Rows of the Parquet tables made of one judged trace, in the order of `columns`."""

from typing import Any, TypeAlias

from tracegrade.deliver.parquet.columns import (
    CALL,
    CALLING_TRACE,
    DECISION,
    EVALUATION,
    JUDGED_TRACE,
    PAIR,
    SUBJECT,
    TRACE,
    row_of,
)
from tracegrade.display import as_sent
from tracegrade.model.trace_result import TraceResult

Row: TypeAlias = tuple[Any, ...]

_NO_EVALUATION: Row = (None,) * len(EVALUATION)
_NO_RESULT: Row = (None,) * len((*SUBJECT, *PAIR, *DECISION, *EVALUATION))

_trace_of_results = row_of((*TRACE, *JUDGED_TRACE))
_trace_of_calls = row_of((*TRACE, *CALLING_TRACE))
_subject, _pair, _decision = row_of(SUBJECT), row_of(PAIR), row_of(DECISION)
_evaluation = {with_values: row_of(EVALUATION, with_values=with_values) for with_values in (False, True)}
_call = {with_values: row_of(CALL, with_values=with_values) for with_values in (False, True)}


def result_rows(judged: TraceResult, include_values: bool) -> list[Row]:
    """One row for each evaluation, and for each decision that has none; none where the sample left a subject out.

    A trace without any gets one row if it replaces an earlier revision, which may have had results.
    """
    trace = judged.trace
    of_trace, of_evaluation = _trace_of_results(trace), _evaluation[include_values]
    rows = []
    for decision in judged.decisions:
        if decision.kind == "sampled_out":
            continue
        pair = decision.pair
        shared = (*of_trace, *_subject(pair.subject), *_pair(pair), *_decision(decision))
        for item in decision.evaluations:
            rows.append((*shared, *of_evaluation(as_sent(item, include_values))))
        if not decision.evaluations:
            rows.append((*shared, *_NO_EVALUATION))
    if not rows and trace.supersedes is not None:
        rows.append((*of_trace, *_NO_RESULT))
    return rows


def call_rows(judged: TraceResult, include_values: bool) -> list[Row]:
    """One row for each tool call."""
    if not judged.tool_calls:
        return []
    shared, of_call = _trace_of_calls(judged.trace), _call[include_values]
    return [(*shared, number, *of_call(call)) for number, call in enumerate(judged.tool_calls)]
