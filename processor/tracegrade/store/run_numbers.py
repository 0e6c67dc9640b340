"""Which trace numbers a run may have: ``arrivals`` finds only what was judged live.

Times do not find the traces of a run, since it may hold any that were ever recorded.
"""

from sqlalchemy import Connection, case, func, select, update

from tracegrade.model.errors import TraceGradeError
from tracegrade.store.arrivals import number_range
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import LIVE, runs, traces


class RunNumbers:
    """The numbers that one batch of writes gives to traces of runs."""

    def __init__(self) -> None:
        self._bounds: dict[tuple[str, str], tuple[int, int]] = {}

    def add(self, tenant: str, run: str, number: int) -> None:
        """Note a trace stored under `number`; numbers increase within a batch."""
        key = (tenant, run)
        self._bounds[key] = (self._bounds.get(key, (number,))[0], number)

    def write(self, connection: Connection) -> None:
        """Widen the stored ranges.

        Raises:
            TraceGradeError: a run takes no results.
        """
        for (tenant, run), (first, last) in sorted(self._bounds.items()):
            known_first, known_last = runs.c.first_number, runs.c.last_number
            changed = connection.execute(
                update(runs)
                .where(runs.c.tenant == tenant, runs.c.name == run, runs.c.state == "incomplete")
                .values(
                    # Numbers of deleted traces are used again: a later trace may have a lower one.
                    first_number=case((known_first < first, known_first), else_=first),
                    last_number=case((known_last > last, known_last), else_=last),
                    emptied=False,
                )
            )
            if not changed.rowcount:
                raise TraceGradeError(
                    f"run {run!r} of tenant {tenant!r} takes no more results: it was deleted or completed meanwhile"
                )


def numbers_of(connection: Connection, result_filter: ResultFilter) -> tuple[int, int] | None:
    """The lowest and highest number that a trace selected by `result_filter` may have; None when there is none."""
    if result_filter.stored_as == LIVE:
        return number_range(connection, result_filter.since_ns, result_filter.until_ns)
    query = select(func.min(runs.c.first_number), func.max(runs.c.last_number)).where(runs.c.name == result_filter.run)
    if result_filter.tenant is not None:
        query = query.where(runs.c.tenant == result_filter.tenant)
    low, high = connection.execute(query).one()
    return None if low is None else (low, high)


def run_ranges(connection: Connection) -> list[tuple[int, int]]:
    """The lowest and highest number that a trace of each run may have; others have numbers between them, too."""
    query = select(runs.c.first_number, runs.c.last_number).where(runs.c.first_number.is_not(None))
    return [(first, last) for first, last in connection.execute(query)]


def traces_of_run(connection: Connection, tenant: str, run: str, limit: int) -> list[int]:
    """The numbers of the first traces and sessions of a run, at most `limit`."""
    bounds = numbers_of(connection, ResultFilter(tenant=tenant, run=run))
    if bounds is None:
        return []
    query = select(traces.c.number).where(
        traces.c.number.between(*bounds), traces.c.run == run, traces.c.tenant == tenant
    )
    return list(connection.execute(query.order_by(traces.c.number).limit(limit)).scalars())
