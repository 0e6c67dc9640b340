"""The newest fails, in words, those that say the same as one."""

from dataclasses import dataclass, replace

from sqlalchemy import Connection

from tracegrade.store.read import Filter, Result, full_evaluations, results

_LOOKED_AT = 40


@dataclass(slots=True)
class Failure:
    """One result, the newest of ``times`` that say the same: of one evaluation, at one agent."""

    result: Result
    explanation: str
    times: int = 1


def failures(connection: Connection, wanted: Filter, limit: int) -> list[Failure]:
    """The newest results that `wanted` lets through; fails, unless it names another outcome."""
    found = results(connection, wanted if wanted.outcome else replace(wanted, outcome="fail"), _LOOKED_AT)
    alike: dict[tuple[str, ...], Failure] = {}
    # Each of them has its values: a connection reads all at one moment.
    for result, evaluation in zip(found, full_evaluations(connection, found), strict=True):
        explanation = evaluation.explanation or evaluation.reason
        key = (result.rule_id, result.evaluation, result.service, result.agent, explanation)
        if (known := alike.get(key)) is not None:
            known.times += 1
        else:
            alike[key] = Failure(result, explanation)
    return list(alike.values())[:limit]
