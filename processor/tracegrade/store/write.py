"""Judged traces in, rows out: one transaction for each batch; writing twice stores once.

Only the highest revision of a trace is kept. It replaces the lower one and all its results, because a late root can
change the subjects. A record of a revision that is already stored changes nothing.

Several processes may write to one PostgreSQL at once. They take numbers from a sequence, and make and insert rows
beside each other. They wait for each other only for the rows of ``counts``, ``arrivals`` and ``blocks`` that both
change, which a transaction changes last and in the same order. Of two that store the same trace, the later one is
refused, and tries again: then it sees what the other one stored.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Engine, delete, text
from sqlalchemy.exc import IntegrityError, OperationalError

from tracegrade.model.trace_result import TraceResult
from tracegrade.store import schema
from tracegrade.store.arrivals import Arrivals
from tracegrade.store.blocks import Blocks
from tracegrade.store.counts import Sums, counted_minute, traffic_series
from tracegrade.store.many_rows import insert_rows
from tracegrade.store.open import beside_others, one_at_a_time
from tracegrade.store.rows import Key, TraceRows, trace_key
from tracegrade.store.run_numbers import RunNumbers
from tracegrade.store.schema import LIVE
from tracegrade.store.series import SeriesNumbers

_MAX_IDS_A_QUERY = 500
# Another process has just stored one of the same traces: each time it happens, that process has got further.
_MAX_TRIES = 20


class StoreWriter:
    """Writes batches to one store; used by one thread at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._series = SeriesNumbers()

    def write(self, batch: Sequence[TraceResult]) -> None:
        """Store every record of `batch`, or none.

        Raises:
            RunClosed: a record is of a run that takes no results; nothing was stored.
            SQLAlchemyError: the database refused; nothing was stored.
            TypeError: a result holds a value that no database takes; nothing was stored.
        """
        newest = _newest(batch)
        for left in reversed(range(_MAX_TRIES)):
            try:
                self._in_transaction(beside_others, lambda _: newest)
            except (IntegrityError, OperationalError) as error:
                if not left or not _came_between(error):
                    raise
            else:
                return

    def write_those(self, chosen: Callable[[Connection], Sequence[TraceResult]]) -> None:
        """As `write`, of the records that `chosen` gives in their transaction: no other process writes meanwhile."""
        self._in_transaction(one_at_a_time, lambda connection: _newest(chosen(connection)))

    def _in_transaction(
        self, wait: Callable[[Connection], None], chosen: Callable[[Connection], dict[Key, TraceResult]]
    ) -> None:
        try:
            with self._engine.begin() as connection:
                wait(connection)
                self._write(connection, dict(chosen(connection)))
        except Exception:
            self._series.forget()
            raise

    def _write(self, connection: Connection, newest: dict[Key, TraceResult]) -> None:
        sums = Sums()
        replaced = []
        for key, (number, revision) in _stored(connection, newest).items():
            if revision >= newest[key].trace.revision:
                del newest[key]
            else:
                replaced.append(number)
        if replaced:
            sums.take_back(connection, self._series, replaced)
            delete_traces(connection, replaced)
        if not newest:
            return
        arrivals, run_numbers, blocks, rows = Arrivals(), RunNumbers(), Blocks(), []
        numbers = _new_numbers(connection, len(newest))
        for number, (key, judged) in zip(numbers, newest.items(), strict=True):
            found = TraceRows(connection, self._series, judged)
            rows.append(found.trace_row(number, key))
            blocks.add(number, found.evaluations)
            trace = judged.trace
            if trace.run == LIVE:
                arrivals.add(trace.first_received_ns, number)
            else:
                run_numbers.add(trace.tenant, trace.run, number)
            traffic = None
            if trace.members is None:
                traffic = traffic_series(connection, self._series, trace.tenant, trace.run, trace.service)
            sums.add(
                traffic,
                counted_minute(trace.run, trace.last_received_ns),
                trace.complete,
                found.evaluations,
                found.decisions,
            )
        # Through the driver: SQLAlchemy's insert() takes the same rows as dicts, in twice the time.
        # By trace, so that several writers that store the same ones wait for each other in the same order.
        insert_rows(connection, schema.traces, sorted(rows, key=_key_of_row))
        sums.write(connection)
        arrivals.write(connection)
        run_numbers.write(connection)
        blocks.write(connection)


def _came_between(error: IntegrityError | OperationalError) -> bool:
    """Whether another process stored some of the same traces meanwhile, or each waited for the other to do so."""
    return getattr(error.orig, "sqlstate", None) in ("23505", "40P01")  # unique_violation, deadlock_detected


def _newest(batch: Sequence[TraceResult]) -> dict[Key, TraceResult]:
    """Of each trace in `batch`, the record of its highest revision."""
    newest: dict[Key, TraceResult] = {}
    for judged in batch:
        key = trace_key(judged.trace)
        if key not in newest or newest[key].trace.revision < judged.trace.revision:
            newest[key] = judged
    return newest


def _key_of_row(row: tuple[Any, ...]) -> Any:
    return row[1:4]


def _new_numbers(connection: Connection, count: int) -> Sequence[int]:
    """`count` numbers that no trace had, the lowest first; with SQLite, those of deleted traces are used again."""
    if connection.dialect.name == "postgresql":
        query = text(f"SELECT nextval('{schema.NUMBERS}') FROM generate_series(1, :count)")
        return connection.execute(query, {"count": count}).scalars().all()
    # As a text: SQLAlchemy takes as long to put this together as to store five traces.
    first: int = connection.exec_driver_sql("SELECT coalesce(max(number), 0) + 1 FROM traces").scalar_one()
    return range(first, first + count)


def delete_traces(connection: Connection, numbers: Sequence[int]) -> None:
    """Delete the traces of `numbers` with all their results; ``counts`` stay."""
    connection.execute(delete(schema.traces).where(schema.traces.c.number.in_(numbers)))


def _stored(connection: Connection, keys: Collection[Key]) -> dict[Key, tuple[int, int]]:
    """The number and revision of each of `keys` that is stored."""
    found: dict[Key, tuple[int, int]] = {}
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    for some in _chunks(keys):
        # Read by trace id alone and filtered here: for a list of rows as parameters, no index is used.
        marks = ", ".join([mark] * len(some))
        rows = connection.exec_driver_sql(
            f"SELECT trace_id, tenant, run, number, revision FROM traces WHERE trace_id IN ({marks})",
            tuple(key[0] for key in some),
        )
        for trace_id, tenant, run, number, revision in rows:
            key = (bytes(trace_id), tenant, run)
            if key in keys:
                found[key] = (number, revision)
    return found


def _chunks(keys: Collection[Key]) -> Iterator[list[Key]]:
    rest = iter(keys)
    while some := list(islice(rest, _MAX_IDS_A_QUERY)):
        yield some
