"""Judged traces in, rows out: one transaction for each batch; writing twice stores once.

Only the highest revision of a trace is kept. It replaces the lower one and all its results, because a late root can
change the subjects. A record of a revision that is already stored changes nothing.

Several processes may write to one PostgreSQL at once. They take numbers from a sequence, and make and insert rows
beside each other. They wait for each other only for a trace that both store, which they claim first, and for the rows
of ``counts``, ``arrivals`` and ``blocks`` that both change, which a transaction changes last; for all in one order.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, count, islice

from sqlalchemy import Connection, Engine, delete

from tracegrade.model.trace_result import TraceResult
from tracegrade.store import schema, session_turns, trace_keys
from tracegrade.store.arrivals import Arrivals
from tracegrade.store.blocks import Blocks
from tracegrade.store.counts import CountChanges, counted_minute, traffic_series
from tracegrade.store.many_rows import insert_rows
from tracegrade.store.open import beside_others, check_version, one_at_a_time
from tracegrade.store.partitions import make_room
from tracegrade.store.rows import Key, TraceRows, trace_key
from tracegrade.store.run_numbers import RunNumbers
from tracegrade.store.schema import LIVE
from tracegrade.store.series import SeriesNumbers
from tracegrade.store.session_turns import HasTurns

_MAX_IDS_A_QUERY = 500
_NOT_STORED = (0, -1)


class StoreWriter:
    """Writes batches to one store; used by one thread at a time."""

    def __init__(self, engine: Engine, has_turns: HasTurns | None = None) -> None:
        """`engine` is the store, open for writing. Turns of sessions are noted of traces that `has_turns` chooses."""
        self._engine = engine
        self._has_turns = has_turns
        self._series = SeriesNumbers()
        self._room = 0  # below this number, there are parts of PostgreSQL's `traces`

    def write(self, batch: Sequence[TraceResult]) -> None:
        """Store every record of `batch`, or none.

        Raises:
            RunClosed: a record is of a run that takes no results; nothing was stored.
            StoreError: a newer version has changed the tables; nothing was stored.
            SQLAlchemyError: the database refused; nothing was stored.
            TypeError: a result holds a value that no database takes; nothing was stored.
        """
        self._in_transaction(beside_others, lambda _: batch)

    def write_those(self, chosen: Callable[[Connection], Sequence[TraceResult]]) -> None:
        """As `write`, of the records that `chosen` gives in their transaction: no other process writes meanwhile."""
        self._in_transaction(one_at_a_time, chosen)

    def _in_transaction(
        self, wait: Callable[[Connection], None], chosen: Callable[[Connection], Sequence[TraceResult]]
    ) -> None:
        try:
            with self._engine.begin() as connection:
                wait(connection)
                check_version(connection)
                self._write(connection, _newest(chosen(connection)))
        except Exception:
            self._series.forget()
            raise

    def _write(self, connection: Connection, newest: dict[Key, TraceResult]) -> None:
        sums = CountChanges()
        turns = session_turns.turns_of(connection, newest, self._has_turns) if self._has_turns is not None else {}
        numbers = self._places(connection, newest, sums)
        if not numbers:
            return
        arrivals, run_numbers, blocks, rows = Arrivals(), RunNumbers(), Blocks(), []
        for key, number in numbers.items():
            judged = newest[key]
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
        insert_rows(connection, schema.traces, rows)
        sums.write(connection)
        arrivals.write(connection)
        run_numbers.write(connection)
        blocks.write(connection)
        session_turns.note_turns(connection, chain.from_iterable(of for key, of in turns.items() if key in numbers))

    def _places(self, connection: Connection, newest: Mapping[Key, TraceResult], sums: CountChanges) -> dict[Key, int]:
        """Delete the lower revisions of `newest`, and take them back from `sums`.

        Returns:
            The number of each record to store, in their order; none for a revision that is already stored.
        """
        if connection.dialect.name == "postgresql":
            numbers, replaced = trace_keys.claim(connection, newest)
            self._take_back(connection, replaced, sums)
            if numbers and (last := max(numbers.values())) >= self._room:
                self._room = make_room(self._engine, last)
            return numbers
        stored = _stored(connection, newest)
        new = [key for key, judged in newest.items() if stored.get(key, _NOT_STORED)[1] < judged.trace.revision]
        self._take_back(connection, [stored[key][0] for key in new if key in stored], sums)
        # Numbers of deleted traces are used again. As a text: SQLAlchemy takes as long to put this together as to store
        # five traces.
        first: int = connection.exec_driver_sql("SELECT coalesce(max(number), 0) + 1 FROM traces").scalar_one()
        return dict(zip(new, count(first), strict=False))

    def _take_back(self, connection: Connection, replaced: Sequence[int], sums: CountChanges) -> None:
        if replaced:
            sums.take_back(connection, self._series, replaced)
            connection.execute(delete(schema.traces).where(schema.traces.c.number.in_(replaced)))


def _newest(batch: Sequence[TraceResult]) -> dict[Key, TraceResult]:
    """Of each trace in `batch`, the record of its highest revision."""
    newest: dict[Key, TraceResult] = {}
    for judged in batch:
        key = trace_key(judged.trace)
        if key not in newest or newest[key].trace.revision < judged.trace.revision:
            newest[key] = judged
    return newest


def delete_traces(connection: Connection, numbers: Sequence[int]) -> None:
    """Delete the traces of `numbers` with all their results; ``counts`` stay."""
    gone = delete(schema.traces).where(schema.traces.c.number.in_(numbers))
    if connection.dialect.name != "postgresql":
        connection.execute(gone)
        return
    known = schema.traces.c
    rows = connection.execute(gone.returning(known.trace_id, known.tenant, known.run, known.number))
    deleted = [tuple(row) for row in rows]
    trace_keys.forget(connection, deleted)
    session_turns.forget_traces(connection, [(tenant, trace_id) for trace_id, tenant, run, _ in deleted if run == LIVE])


def _stored(connection: Connection, keys: Collection[Key]) -> dict[Key, tuple[int, int]]:
    """The number and revision of each of `keys` that SQLite holds."""
    found: dict[Key, tuple[int, int]] = {}
    for some in _chunks(keys):
        # Read by trace id alone and filtered here: for a list of rows as parameters, no index is used.
        marks = ", ".join(["?"] * len(some))
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
