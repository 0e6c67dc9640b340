"""PostgreSQL's table of trace ids: where a trace is stored, however many parts ``traces`` has.

A partitioned table has an index for each part, so nothing would keep a trace from being in two of them, and to find one
by its id would take as many lookups as there are parts. SQLite has one table and its own index, and no such rows.
"""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, select, text

from tracegrade.model.trace_result import TraceResult
from tracegrade.store.many_rows import insert_or_change
from tracegrade.store.rows import Key
from tracegrade.store.schema import NUMBERS, trace_keys, traces


def of_ids(connection: Connection, trace_ids: Collection[bytes]) -> ColumnElement[bool]:
    """Chooses the traces and sessions of these ids, in every tenant and run."""
    if connection.dialect.name != "postgresql":
        return traces.c.trace_id.in_(trace_ids)
    return traces.c.number.in_(select(trace_keys.c.number).where(trace_keys.c.trace_id.in_(trace_ids)))


def claim(connection: Connection, newest: Mapping[Key, TraceResult]) -> tuple[dict[Key, int], list[int]]:
    """Take a number for each trace that is not stored, or in a lower revision; until the transaction ends, others wait.

    Returns:
        The numbers by key, in the order of `newest`, and those of the rows that they replace.
    """
    query = text(f"SELECT nextval('{NUMBERS}') FROM generate_series(1, :count)")
    numbers = connection.execute(query, {"count": len(newest)}).scalars()
    rows = [
        (*key, number, judged.trace.revision, None)
        for number, (key, judged) in zip(numbers, newest.items(), strict=True)
    ]
    claimed = insert_or_change(
        connection,
        trace_keys,
        sorted(rows, key=lambda row: row[:3]),
        "replaced = trace_keys.number, number = excluded.number, revision = excluded.revision "
        "WHERE trace_keys.revision < excluded.revision",
        "trace_id, tenant, run, number, replaced",
    )
    taken = {(bytes(trace_id), tenant, run): number for trace_id, tenant, run, number, _ in claimed}
    return {key: taken[key] for key in newest if key in taken}, [row[-1] for row in claimed if row[-1] is not None]


def forget(connection: Connection, gone: Sequence[tuple[bytes, str, str, int]]) -> None:
    """Forget traces that were deleted, by id, tenant, run and number; those stored again meanwhile have another one."""
    if gone:
        connection.exec_driver_sql(
            "DELETE FROM trace_keys AS known USING unnest(%s::bytea[], %s::text[], %s::text[], %s::int8[]) "
            "AS gone (trace_id, tenant, run, number) WHERE known.trace_id = gone.trace_id "
            "AND known.tenant = gone.tenant AND known.run = gone.run AND known.number = gone.number",
            tuple(map(list, zip(*gone, strict=True))),
        )
