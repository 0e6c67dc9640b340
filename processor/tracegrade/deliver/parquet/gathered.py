"""Rows that wait in memory until their files are written, by table, tenant and day."""

from collections import Counter
from collections.abc import Container, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from tracegrade.codec.json_text import storable
from tracegrade.deliver.parquet.columns import COLUMNS, TABLES, TRACE, Table
from tracegrade.deliver.parquet.erase import without
from tracegrade.deliver.parquet.names import tenant_folder
from tracegrade.deliver.parquet.rows import Row, call_rows, result_rows
from tracegrade.model.tenant_mark import MarkedOf
from tracegrade.model.trace_result import TraceResult

_DAY_NS = 86_400_000_000_000
_JUDGED_ID = [column.name for column in TRACE].index("judged_id")
_LONG = {
    table: [at for at, column in enumerate(COLUMNS[table]) if column.is_long or column.is_value] for table in TABLES
}
_CHUNK_ROWS = 5000  # as Arrow's arrays, a row takes half of the memory that it does as Python's objects
_UNFIT = (TypeError, ValueError, OverflowError)  # what pyarrow raises for a value of another type is one of them


class Gathered:
    """Rows of the results that were added since `clear`."""

    def __init__(self, include_values: bool) -> None:
        """Start empty; `include_values` as in the settings."""
        self._include_values = include_values
        self._rows: dict[tuple[Table, str], list[Row]] = {}
        self._chunks: dict[tuple[Table, str], list[Any]] = {}
        self._tenants: dict[str, str] = {}  # of each folder
        self.rows = 0
        self.bytes = 0
        """Of the rows that are held as arrays, which is most of them, and of the values of the others."""
        self._values: Counter[tuple[Table, str]] = Counter()  # their bytes, about, in rows that are no arrays yet
        self.unfit: set[str] = set()
        """The ids of traces of which rows were left out, because no file can hold them."""

    def add(self, judged: TraceResult) -> None:
        """Add the rows of a judged trace."""
        trace = judged.trace
        folder = _folder(trace.tenant, max(trace.first_received_ns, 0) // _DAY_NS)
        found: tuple[tuple[Table, list[Row]], ...] = (
            ("results", result_rows(judged, self._include_values)),
            ("tool_calls", call_rows(judged, self._include_values)),
        )
        self._tenants[folder] = trace.tenant
        for table, rows in found:
            if rows:
                waiting = self._rows.setdefault((table, folder), [])
                waiting += rows
                self.rows += len(rows)
                if self._include_values:
                    size = sum(len(row[at]) for row in rows for at in _LONG[table] if row[at])
                    self._values[table, folder] += size
                    self.bytes += size
                if len(waiting) >= _CHUNK_ROWS:
                    self._pack(table, folder)

    def tables(self, deleted: Container[bytes]) -> Iterator[tuple[str, Any]]:
        """Each folder, as ``results/tenant=T/date=D``, and its rows as a table of pyarrow; without `deleted` traces.

        These are ids, or `tenant_mark`s.
        """
        import pyarrow

        for table, folder in list(self._rows):
            self._pack(table, folder)
        for (table, folder), chunks in sorted(self._chunks.items()):
            own = MarkedOf(deleted, self._tenants[folder])
            yield f"{table}/{folder}", without(pyarrow.Table.from_batches(chunks), own)[0]

    def clear(self) -> None:
        """Forget all rows."""
        self._rows.clear()
        self._chunks.clear()
        self.unfit.clear()
        self._values.clear()
        self._tenants.clear()
        self.rows = self.bytes = 0

    def _pack(self, table: Table, folder: str) -> None:
        rows = self._rows.pop((table, folder))
        try:
            chunk = _chunk(table, rows)
        except _UNFIT:
            mended = {place: _mended(table, row) for place, row in enumerate(rows)}
            self.unfit |= {rows[place][_JUDGED_ID] for place, row in mended.items() if row is None}
            chunk = _chunk(table, [row for row in mended.values() if row is not None])
        self._chunks.setdefault((table, folder), []).append(chunk)
        self.bytes += chunk.nbytes - self._values.pop((table, folder), 0)


def _chunk(table: Table, rows: list[Row]) -> Any:
    import pyarrow

    shape = schema(table)
    values = zip(*rows, strict=True) if rows else [()] * len(shape)
    arrays = [pyarrow.array(column, field.type) for column, field in zip(values, shape, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=shape)


def _mended(table: Table, row: Row) -> Row | None:
    """The row as a file takes it: where a text is no Unicode, it is replaced. None where a file cannot hold it."""
    for found in (row, tuple(storable(value) if isinstance(value, str) else value for value in row)):
        with suppress(*_UNFIT):
            _chunk(table, [found])
            return found
    return None


@lru_cache(maxsize=len(TABLES))
def schema(table: Table) -> Any:
    """The schema of a table, for pyarrow."""
    import pyarrow

    types = {
        "string": pyarrow.string(),
        "int64": pyarrow.int64(),
        "double": pyarrow.float64(),
        "bool": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
        "list<string>": pyarrow.list_(pyarrow.string()),
    }
    return pyarrow.schema([pyarrow.field(column.name, types[column.type]) for column in COLUMNS[table]])


@lru_cache(maxsize=4096)
def _folder(tenant: str, day: int) -> str:
    date = datetime.fromtimestamp(day * 86_400, UTC).date()
    return f"{tenant_folder(tenant)}/date={date.isoformat()}"
