"""Judged traces in, rows out: one transaction for each batch; writing twice stores once.

New series of a batch are stored before it, in transactions of their own, so that a batch with very many names keeps
other writers waiting for none of these for long. What a kill leaves of them is there when the batch comes again.

Only the highest revision of a trace is kept. It replaces the lower one and all its results, because a late root can
change the subjects. A record of a revision that is already stored changes nothing.

Several processes may write to one PostgreSQL at once. They take numbers from a sequence, and make and insert rows
beside each other. They wait for each other only for a trace that both store, which they claim first, and for the rows
of ``counts``, ``arrivals`` and ``blocks`` that both change, which a transaction changes last; for all in one order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice

from sqlalchemy import Connection, Engine, delete

from tracegrade.model.trace_result import TraceResult
from tracegrade.store import schema, session_turns
from tracegrade.store.arrivals import Arrivals
from tracegrade.store.blocks import Blocks
from tracegrade.store.counts import CountChanges, counted_minute
from tracegrade.store.database import Key
from tracegrade.store.names import Beyond
from tracegrade.store.open import beside_others, check_version, one_at_a_time
from tracegrade.store.registry import database
from tracegrade.store.rows import TraceRows, trace_key
from tracegrade.store.run_numbers import RunNumbers
from tracegrade.store.schema import LIVE
from tracegrade.store.series import Missing, SeriesNumbers
from tracegrade.store.session_turns import HasTurns
from tracegrade.telemetry.series_bound import MAX_NAMES

_LEARNT_AT_ONCE = 4000  # series: 0.1 s


class StoreWriter:
    """Writes batches to one store; used by one thread at a time."""

    def __init__(self, engine: Engine, has_turns: HasTurns | None = None, max_names: int = MAX_NAMES) -> None:
        """Prepare.

        Args:
            engine: the store, open for writing.
            has_turns: chooses the traces of which turns of sessions are noted.
            max_names: as of `SeriesNumbers`.
        """
        self._engine = engine
        self._has_turns = has_turns
        self._series = SeriesNumbers(max_names)
        self._room = 0  # below this number, there are parts of PostgreSQL's `traces`
        # Of `write_part`: the records that wait for series, by key with their revision, and these series.
        self._waiting: dict[Key, int] = {}
        self._to_learn: Missing = {}

    def write(self, batch: Sequence[TraceResult]) -> None:
        """Store every record of `batch`, or none.

        Raises:
            TraceGradeError: a record is of a run that takes no results; nothing was stored.
            StoreError: a newer version has changed the tables; nothing was stored.
            SQLAlchemyError: the database refused; nothing was stored.
            TypeError: a result holds a value that no database takes; nothing was stored.
        """
        with self._forgetting():
            self._series.prepare(self._engine)
            self._store(self._learnt(self._rows(_newest(batch))))

    def write_allowed(
        self, batch: Sequence[TraceResult], allowed: Callable[[Connection], Sequence[TraceResult]]
    ) -> None:
        """As `write`, of those of `batch` that `allowed` gives in their transaction: no other process writes meanwhile.

        New series of `batch` are stored before, and stay.
        """
        with self._forgetting():
            self._series.prepare(self._engine)
            rows = self._learnt(self._rows(_newest(batch)))
            with self._transaction(one_at_a_time) as connection:
                kept = {trace_key(judged.trace) for judged in allowed(connection)}
                self._write(connection, {key: found for key, found in rows.items() if key in kept})

    def write_part(self, batch: Sequence[TraceResult]) -> list[TraceResult]:
        """Store what of `batch` needs few new series, and a part of the series that the rest needs.

        So a record with very many names keeps others waiting for a part of its series, and for itself.

        Returns:
            The rest, of which nothing is stored yet: to be given again, alone or with more, until none is left.

        Raises:
            Exception: as `write`; some of `batch` may be stored.
        """
        with self._forgetting():
            if not self._to_learn:
                self._series.prepare(self._engine)
            newest = _newest(batch)
            rest = {key: judged for key, judged in newest.items() if self._waiting.get(key) == judged.trace.revision}
            rows = self._rows({key: judged for key, judged in newest.items() if key not in rest})
            missing = 0
            for key, found in list(rows.items()):
                if found.missing and missing + len(found.missing) > _LEARNT_AT_ONCE:
                    rest[key] = rows.pop(key).judged
                    self._waiting[key] = found.judged.trace.revision
                    self._to_learn |= found.missing
                else:
                    missing += len(found.missing)
            self._store(self._learnt(rows))
            part = dict(islice(self._to_learn.items(), _LEARNT_AT_ONCE))
            self._series.learn(self._engine, part)
            for each in part:
                del self._to_learn[each]
            if self._to_learn:
                return list(rest.values())
            self._waiting.clear()
            self._store(self._learnt(self._rows(rest)))
            return []

    def take_beyond(self) -> list[Beyond]:
        """The attributes of which names were counted as `other` since the last call."""
        return self._series.take_beyond()

    def _rows(self, newest: Mapping[Key, TraceResult]) -> dict[Key, TraceRows]:
        return {key: TraceRows(self._series, judged) for key, judged in newest.items()}

    def _learnt(self, rows: dict[Key, TraceRows]) -> dict[Key, TraceRows]:
        """`rows`, of which those that miss series are made again, once these are learnt."""
        # Once; again where another process has stored names in between.
        while missing := dict(chain.from_iterable(found.missing.items() for found in rows.values())):
            self._series.learn(self._engine, missing)
            rows |= self._rows({key: found.judged for key, found in rows.items() if found.missing})
        return rows

    def _store(self, rows: dict[Key, TraceRows]) -> None:
        if rows:
            with self._transaction(beside_others) as connection:
                self._write(connection, rows)

    @contextmanager
    def _transaction(self, wait: Callable[[Connection], None]) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            wait(connection)
            check_version(connection)
            yield connection

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """Forget what is known of the store after an error: it may be another store the next time."""
        try:
            yield
        except Exception:
            self._series.forget()
            self._waiting.clear()
            self._to_learn.clear()
            raise

    def _write(self, connection: Connection, made: dict[Key, TraceRows]) -> None:
        sums = CountChanges()
        newest = {key: found.judged for key, found in made.items()}
        turns = session_turns.turns_of(connection, newest, self._has_turns) if self._has_turns is not None else {}
        numbers = self._places(connection, newest, sums)
        if not numbers:
            return
        arrivals, run_numbers, blocks, rows = Arrivals(), RunNumbers(), Blocks(), []
        for key, number in numbers.items():
            found, trace = made[key], newest[key].trace
            rows.append(found.trace_row(number, key))
            blocks.add(number, found.evaluations)
            if trace.run == LIVE:
                arrivals.add(trace.first_received_ns, number)
            else:
                run_numbers.add(trace.tenant, trace.run, number)
            sums.add(
                found.traffic,
                counted_minute(trace.run, trace.last_received_ns),
                trace.complete,
                found.evaluations,
                found.decisions,
            )
        database(connection).insert(connection, schema.traces, rows)
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
        revisions = {key: judged.trace.revision for key, judged in newest.items()}
        numbers, replaced = database(connection).claim(connection, revisions)
        if replaced:
            sums.take_back(connection, replaced)
            connection.execute(delete(schema.traces).where(schema.traces.c.number.in_(replaced)))
        if numbers and (last := max(numbers.values())) >= self._room:
            self._room = database(connection).make_room(self._engine, last)
        return numbers


def _newest(batch: Sequence[TraceResult]) -> dict[Key, TraceResult]:
    """Of each trace in `batch`, the record of its highest revision."""
    newest: dict[Key, TraceResult] = {}
    for judged in batch:
        key = trace_key(judged.trace)
        if key not in newest or newest[key].trace.revision < judged.trace.revision:
            newest[key] = judged
    return newest
