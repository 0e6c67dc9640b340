"""The newest fails, in words: for each evaluation at one agent the newest fail, and the number of fails."""

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from tracegrade.access.caller import Caller
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import Result, full_evaluations, newest_of_each
from tracegrade.store.trends import fails_by
from tracegrade.web.masked import seen_by


@dataclass(frozen=True, slots=True)
class Failure:
    """One result, the newest of ``times`` fails of the same evaluation at the same agent, with its explanation."""

    result: Result
    explanation: str
    times: int


def failures(connection: Connection, result_filter: ResultFilter, limit: int, caller: Caller) -> list[Failure]:
    """The newest fails that `result_filter` selects, one for each evaluation at each agent, as `caller` may see them.

    At most `limit`.
    """
    found = newest_of_each(connection, replace(result_filter, outcome="fail"), _group, limit)
    times = fails_by(connection, result_filter, _group)
    # Each has its values, since a connection reads the state of one moment.
    full = seen_by(caller, full_evaluations(connection, found))
    return [
        Failure(result, evaluation.explanation or evaluation.reason, max(1, times[_group(result)]))
        for result, evaluation in zip(found, full, strict=True)
    ]


def _group(row: Any) -> tuple[str, ...]:
    return row.rule_id, row.evaluation, row.service, row.agent
