"""The newest results of one outcome, in words: for each evaluation at one agent the newest, and how many there are."""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from tracegrade.access.caller import Caller
from tracegrade.model.tally import Tally
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import Result, full_evaluations, newest_of_each
from tracegrade.store.tallies import Dimension, Summed, tallies
from tracegrade.web.masked import seen_by

_GROUP: tuple[Dimension, ...] = ("rule_id", "evaluation", "service", "agent")
_SUMS: dict[str, Summed] = {"fail": "failed", "not_evaluable": "not_evaluable", "error": "errors"}


@dataclass(frozen=True, slots=True)
class Failure:
    """One result, the newest of ``times`` of the same evaluation and outcome at one agent, with its explanation."""

    result: Result
    explanation: str
    times: int


def failures(
    connection: Connection, result_filter: ResultFilter, limit: int, caller: Caller, outcome: str = "fail"
) -> list[Failure]:
    """The newest results of `outcome` that `result_filter` selects, one for each evaluation at each agent.

    As `caller` may see them.

    At most `limit`.
    """
    found = newest_of_each(connection, replace(result_filter, outcome=outcome), _group, limit)
    counted = tallies(connection, result_filter, _GROUP, of="evaluations", incomplete="count", summed=[_SUMS[outcome]])
    times = defaultdict(Tally, counted)
    # Each has its values, since a connection reads the state of one moment.
    full = seen_by(caller, full_evaluations(connection, found))
    return [
        Failure(
            result,
            evaluation.full_explanation or evaluation.reason,
            max(1, getattr(times[_group(result)], _SUMS[outcome])),
        )
        for result, evaluation in zip(found, full, strict=True)
    ]


def _group(row: Any) -> tuple[str, ...]:
    return tuple(getattr(row, name) for name in _GROUP)
