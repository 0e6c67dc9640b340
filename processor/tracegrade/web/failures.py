"""The newest fails, in words: for each evaluation at one agent the newest fail, and the number of fails."""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from tracegrade.access.caller import Caller
from tracegrade.model.tally import Tally
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import Result, full_evaluations, newest_of_each
from tracegrade.store.tallies import Dimension, tallies
from tracegrade.web.masked import seen_by

_GROUP: tuple[Dimension, ...] = ("rule_id", "evaluation", "service", "agent")


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
    counted = tallies(connection, result_filter, _GROUP, of="evaluations", incomplete="count", summed=["failed"])
    times = defaultdict(Tally, counted)
    # Each has its values, since a connection reads the state of one moment.
    full = seen_by(caller, full_evaluations(connection, found))
    return [
        Failure(result, evaluation.full_explanation or evaluation.reason, max(1, times[_group(result)].failed))
        for result, evaluation in zip(found, full, strict=True)
    ]


def _group(row: Any) -> tuple[str, ...]:
    return tuple(getattr(row, name) for name in _GROUP)
