"""The newest fails, in words: of each evaluation at one agent the newest, and how many there were."""

from dataclasses import dataclass, replace

from sqlalchemy import Connection

from tracegrade.store.filter import Filter
from tracegrade.store.results import Result, full_evaluations, results

LOOKED_AT = 100


@dataclass(frozen=True, slots=True)
class Failure:
    """One result, the newest of ``times`` of the same evaluation at the same agent, and what was said of it."""

    result: Result
    explanation: str
    times: int


def failures(connection: Connection, wanted: Filter, limit: int) -> list[Failure]:
    """The newest results that `wanted` lets through; fails, unless it names another outcome."""
    found = results(connection, wanted if wanted.outcome else replace(wanted, outcome="fail"), LOOKED_AT)
    alike: dict[tuple[str, ...], list[Result]] = {}
    for result in found:
        alike.setdefault((result.rule_id, result.evaluation, result.service, result.agent), []).append(result)
    newest = list(alike.values())[:limit]
    # Each has its values: a connection reads all at one moment.
    full = full_evaluations(connection, [some[0] for some in newest])
    return [
        Failure(some[0], evaluation.explanation or evaluation.reason, len(some))
        for some, evaluation in zip(newest, full, strict=True)
    ]
