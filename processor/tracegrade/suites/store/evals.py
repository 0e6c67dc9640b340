"""Which evals there are: those of jobs, runs of suites that no job made, and results that other tools reported.

They are found, filtered and put in order by the database, so that a page costs what it shows.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    cast,
    func,
    literal,
    or_,
    select,
    union_all,
)

from tracegrade.store.registry import database
from tracegrade.store.runs import PROMOTED
from tracegrade.store.runs import State as RunState
from tracegrade.store.schema import experiment_entries, experiments, runs
from tracegrade.suites.store.jobs import SUITE_RUN
from tracegrade.suites.store.jobs import State as JobState
from tracegrade.suites.store.tables import jobs

_Holds: TypeAlias = Callable[[ColumnElement[Any], str, str], ColumnElement[bool]]
Origin: TypeAlias = Literal["job", "run", "entry"]


@dataclass(frozen=True, slots=True)
class EvalFilter:
    """Which evals to list; None is all of them. Times are when they were begun, ns since 1970 UTC.

    ``experiment`` is a name. An eval in one of the states of its origin is listed; a reported one if ``reported`` is.
    """

    tenant: str
    suite: str | None = None
    experiment: str | None = None
    model: str | None = None
    job_states: Collection[JobState] | None = None
    run_states: Collection[RunState] | None = None
    reported: bool = True
    since_ns: int | None = None
    until_ns: int | None = None


@dataclass(frozen=True, slots=True)
class EvalKey:
    """One eval: when it was submitted, in ns since 1970 UTC, its id, and where it is from."""

    at_ns: int
    id: str
    origin: Origin


def eval_keys(
    connection: Connection, asked: EvalFilter, limit: int, *, until_ns: int | None = None, offset: int = 0
) -> list[EvalKey]:
    """Evals, the one submitted last first.

    Args:
        connection: to the store.
        asked: which.
        limit: at most this many.
        until_ns: only those submitted by then.
        offset: leave out so many of the first of them.
    """
    holds = database(connection).holds
    every = [_of_jobs(asked, holds), _of_runs(asked)]
    if asked.reported:
        every.append(_of_entries(asked, holds))
    found = union_all(*every).subquery()
    query = select(found).order_by(found.c.at_ns.desc(), found.c.id).limit(limit).offset(offset)
    if until_ns is not None:
        query = query.where(found.c.at_ns <= until_ns)
    return [EvalKey(*row) for row in connection.execute(query)]


def _of_jobs(asked: EvalFilter, holds: _Holds) -> Select[Any]:
    """Jobs that have a run, or have stored none yet; one whose runs were all deleted is no eval any more."""
    own = and_(runs.c.tenant == jobs.c.tenant, runs.c.job == jobs.c.id)
    run = select(runs.c.name).where(own)
    without_runs = cast(jobs.c.runs, Text) == "[]"
    query = _known(jobs.c.created_ns, jobs.c.id, "job").where(
        jobs.c.tenant == asked.tenant, jobs.c.kind == SUITE_RUN, or_(without_runs, run.exists())
    )
    if asked.suite is not None:
        query = query.where(jobs.c.request["suite"].as_string() == asked.suite)
    if asked.experiment is not None:
        waits = and_(without_runs, jobs.c.request["experiment"].as_string() == asked.experiment)
        query = query.where(or_(waits, run.where(runs.c.experiment == asked.experiment).exists()))
    if asked.model is not None:
        query = query.where(holds(jobs.c.request, "models", asked.model))
    if asked.job_states is not None:
        query = query.where(jobs.c.state.in_(asked.job_states))
    first = select(func.min(runs.c.begun_ns)).where(own).scalar_subquery()
    return _within(query, func.coalesce(first, jobs.c.created_ns), asked)


def _of_runs(asked: EvalFilter) -> Select[Any]:
    query = _known(runs.c.begun_ns, runs.c.name, "run").where(
        runs.c.tenant == asked.tenant, runs.c.job.is_(None), runs.c.selection["suite"].as_string().is_not(None)
    )
    if asked.suite is not None:
        query = query.where(runs.c.source == f"suite:{asked.suite}")
    if asked.experiment is not None:
        query = query.where(runs.c.experiment == asked.experiment)
    if asked.model is not None:
        query = query.where(runs.c.selection["model"].as_string() == asked.model)
    if asked.run_states is not None:
        query = query.where(runs.c.state.in_(asked.run_states))
    return _within(query, runs.c.begun_ns, asked)


def _of_entries(asked: EvalFilter, holds: _Holds) -> Select[Any]:
    known = experiment_entries.c
    query = _known(known.at_ns, known.id, "entry").where(known.tenant == asked.tenant, known.kind == PROMOTED)
    if asked.suite is not None:
        about = select(experiments.c.name).where(
            experiments.c.tenant == asked.tenant, experiments.c.suite == asked.suite
        )
        query = query.where(known.experiment.in_(about))
    if asked.experiment is not None:
        query = query.where(known.experiment == asked.experiment)
    if asked.model is not None:
        alone = (known.configuration[key].as_string() == asked.model for key in ("model", "models"))
        query = query.where(or_(*alone, holds(known.configuration, "models", asked.model)))
    return _within(query, known.at_ns, asked)


def _known(at_ns: ColumnElement[Any], id_: ColumnElement[Any], origin: Origin) -> Select[Any]:
    return select(at_ns.label("at_ns"), id_.label("id"), literal(origin, Text).label("origin"))


def _within(query: Select[Any], begun_ns: ColumnElement[Any], asked: EvalFilter) -> Select[Any]:
    if asked.since_ns is not None:
        query = query.where(begun_ns >= asked.since_ns)
    return query if asked.until_ns is None else query.where(begun_ns < asked.until_ns)
