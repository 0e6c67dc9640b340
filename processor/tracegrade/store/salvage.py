"""A SQLite store that is damaged or of an earlier form: what can be read of it is copied into a new one, row by row."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, Engine, Table, create_engine, func, inspect, literal, select, table, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from tracegrade.codec.results import unpack_result
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.trace_result import TraceResult
from tracegrade.store import schema
from tracegrade.store.write import StoreWriter

# What journals do not hold: what people made and said, and what was noticed. ``series``, ``counts``, ``arrivals`` and
# ``blocks`` follow from the traces, and are made as these are written.
_KEPT = (
    schema.rule_texts,
    schema.rule_sets,
    schema.experiments,
    schema.experiment_entries,
    schema.runs,
    schema.backfills,
    schema.alerts,
    schema.incidents,
    schema.incident_notes,
    schema.silences,
)
_TRACES_A_BATCH = 200


@dataclass(slots=True)
class Salvaged:
    """What was copied: rows by table, traces of the store and those that cannot be read; tables that end in damage.

    ``unknown_tables`` have rows, and no installed part declares them: they stay in the damaged store.
    """

    rows: dict[str, int] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    traces: int = 0
    unreadable_traces: int = 0
    unknown_tables: list[str] = field(default_factory=list)


def damage_of(path: Path) -> str | None:
    """What is wrong with the SQLite file at `path`, by reading all of it; None when nothing is, or there is none."""
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as store:
            (found,) = store.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if found == "ok" else str(found).replace("\n", " ")


def salvage(damaged: Path, engine: Engine, advance: Callable[[int], object]) -> Salvaged:
    """Copy what can be read of the store at `damaged` into the new store `engine`.

    Args:
        damaged: a SQLite store; what this form of the tables needs and it lacks gets its default.
        engine: a store that holds nothing yet, open for writing.
        advance: called with each number of traces that was looked at.
    """
    found = Salvaged()
    source = create_engine(f"sqlite:///{damaged}")
    try:
        states = {}
        for kept in (*_KEPT, *schema.tables_of_parts()):
            rows = _rows(source, kept, found)
            if kept is schema.runs:  # they take results only while they are not complete
                states = {(row["tenant"], row["name"]): row["state"] for row in rows}
                rows = [{**row, "state": "incomplete"} for row in rows]
            found.rows[kept.name] = _insert(engine, kept, rows, found)
        found.unknown_tables = _unknown_tables(source)
        writer = StoreWriter(engine)
        for batch in _traces(source, found, advance):
            _write(writer, batch, found)
        with engine.begin() as connection:
            for (tenant, name), state in states.items():
                of_run = (schema.runs.c.tenant == tenant, schema.runs.c.name == name)
                connection.execute(update(schema.runs).where(*of_run).values(state=state))
    finally:
        source.dispose()
    return found


def _unknown_tables(source: Engine) -> list[str]:
    """The tables with rows, or that cannot be read, that this installation does not declare."""
    try:
        with source.connect() as connection:
            names = set(inspect(connection).get_table_names()) - {*schema.metadata.tables, "alembic_version"}
    except (SQLAlchemyError, sqlite3.Error):
        return []
    return sorted(name for name in names if _may_have_rows(source, name))


def _may_have_rows(source: Engine, name: str) -> bool:
    try:
        with source.connect() as connection:
            return connection.execute(select(literal(1)).select_from(table(name)).limit(1)).first() is not None
    except (SQLAlchemyError, sqlite3.Error):
        return True


def _insert(engine: Engine, table: Table, rows: list[dict[str, object]], found: Salvaged) -> int:
    """Store rows; returns how many. Those that lack what this form of the table needs are left out, and it is named."""
    stored = 0
    with engine.begin() as connection:
        for row in rows:
            try:
                with connection.begin_nested():
                    connection.execute(table.insert(), row)
                stored += 1
            except IntegrityError:
                if table.name not in found.damaged:
                    found.damaged.append(table.name)
    return stored


def count_traces(engine: Engine) -> int:
    """How many traces and sessions a store holds, of all runs."""
    with engine.connect() as connection:
        counted: int = connection.execute(select(func.count()).select_from(schema.traces)).scalar_one()
        return counted


def _rows(source: Engine, table: Table, found: Salvaged) -> list[dict[str, object]]:
    """The rows of a table up to the first that cannot be read."""
    rows: list[dict[str, object]] = []
    try:
        with source.connect() as connection:
            there = {column["name"] for column in inspect(connection).get_columns(table.name)}
            columns = [column for column in table.columns if column.name in there]
            for row in connection.execute(select(*columns)).mappings():
                rows.append(dict(row))
    except (SQLAlchemyError, sqlite3.Error, ValueError):  # ValueError: JSON that is none
        found.damaged.append(table.name)
    return rows


def _traces(source: Engine, found: Salvaged, advance: Callable[[int], object]) -> Iterator[list[TraceResult]]:
    number = schema.traces.c.number
    try:
        with source.connect() as connection:
            last = connection.execute(select(func.max(number))).scalar() or 0
    except (SQLAlchemyError, sqlite3.Error):
        found.damaged.append("traces")
        return
    for first in range(0, last + 1, _TRACES_A_BATCH):
        batch = []
        with source.connect() as connection:
            try:
                batch = list(_results_between(connection, first, first + _TRACES_A_BATCH - 1))
            except (SQLAlchemyError, sqlite3.Error, TraceGradeError):
                for one in range(first, min(first + _TRACES_A_BATCH, last + 1)):
                    try:
                        batch += _results_between(connection, one, one)
                    except (SQLAlchemyError, sqlite3.Error, TraceGradeError):
                        found.unreadable_traces += 1
        advance(len(batch))
        yield batch


def _results_between(connection: Connection, first: int, last: int) -> Iterator[TraceResult]:
    columns = schema.traces.c
    query = select(columns.judged, columns.spans).where(columns.number.between(first, last)).order_by(columns.number)
    for judged, spans in connection.execute(query):
        yield unpack_result(bytes(judged), bytes(spans))


def _write(writer: StoreWriter, batch: list[TraceResult], found: Salvaged) -> None:
    try:
        writer.write(batch)
        found.traces += len(batch)
    except (SQLAlchemyError, TraceGradeError, TypeError, ValueError, KeyError):
        for judged in batch:
            try:
                writer.write([judged])
                found.traces += 1
            except (SQLAlchemyError, TraceGradeError, TypeError, ValueError, KeyError):
                found.unreadable_traces += 1
