"""Deleted traces leave Parquet files: each file that has rows of them is written again without."""

from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

from tracegrade.deliver.parquet.columns import TABLES
from tracegrade.deliver.parquet.storage import Storage

_AT_ONCE = 8  # files looked at: a bucket answers each in tens of milliseconds
_NAMING = ("judged_id", "trace_id", "members")  # the columns that name traces


def without(table: Any, deleted: Container[bytes]) -> Any:
    """A table of pyarrow without rows of `deleted` traces and of sessions that they were part of."""
    named = _named(table, deleted)
    if not named:
        return table
    import pyarrow
    import pyarrow.compute as compute

    wanted = pyarrow.array(sorted(named), pyarrow.string())
    is_theirs = compute.or_(
        compute.is_in(table["judged_id"], wanted), compute.is_in(table["trace_id"], wanted)
    ).to_pylist()
    for place, members in enumerate(table["members"].to_pylist() if "members" in table.column_names else ()):
        if members and not named.isdisjoint(members):
            is_theirs[place] = True
    return table.filter(pyarrow.array([not found for found in is_theirs], pyarrow.bool_()))


def _named(table: Any, deleted: Container[bytes]) -> set[str]:
    """Those of the `deleted` traces that the rows name, in hex."""
    import pyarrow.compute as compute

    found: set[str] = set()
    for name in table.column_names:
        if name in _NAMING:
            column = compute.list_flatten(table[name]) if name == "members" else table[name]
            named = compute.unique(column).to_pylist()
            found.update(trace_id for trace_id in named if bytes.fromhex(trace_id) in deleted)
    return found


def encoded(table: Any) -> Any:
    """The table as the bytes of a Parquet file, in a buffer of pyarrow."""
    import pyarrow
    import pyarrow.parquet

    stream = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, stream, compression="zstd", coerce_timestamps="us")
    return stream.getvalue()


def erase(storage: Storage, deleted: Container[bytes], alive: Callable[[], None] = lambda: None) -> int:
    """Remove the rows of `deleted` traces from all files. Doing it again removes what is left.

    Args:
        storage: the folder or bucket; nobody else writes files of this instance meanwhile.
        deleted: trace ids.
        alive: called for each file.

    Returns:
        The number of rows removed.

    Raises:
        OSError: the disk or the bucket refused; the next try goes on.
    """
    paths = [path for table in TABLES for path in storage.files(table)]
    removed = 0
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="tracegrade-parquet") as threads:
        for count in threads.map(lambda path: _erase_from(storage, path, deleted), paths):
            removed += count
            alive()
    storage.remove_unfinished({path.rpartition("/")[0] for path in paths})
    return removed


def _erase_from(storage: Storage, path: str, deleted: Container[bytes]) -> int:
    import pyarrow.parquet

    try:
        with storage.read(path) as file:
            reader = pyarrow.parquet.ParquetFile(file)
            naming = [name for name in _NAMING if name in reader.schema_arrow.names]
            if not _named(reader.read(columns=naming), deleted):
                return 0
            table = reader.read()
    except FileNotFoundError:  # retention was quicker
        return 0
    left = without(table, deleted)
    if left.num_rows:
        storage.write(path, encoded(left))
    else:
        storage.delete(path)
    return int(table.num_rows - left.num_rows)


def delete_days_before(storage: Storage, first_kept: date) -> int:
    """Delete the folders of all days before `first_kept`. Returns how many.

    Raises:
        OSError: the disk or the bucket refused.
    """
    old = list(_days_before(storage, first_kept))
    for folder in old:
        storage.delete_folder(folder)
    return len(old)


def _days_before(storage: Storage, first_kept: date) -> Iterator[str]:
    for table in TABLES:
        for tenant in storage.folders(table):
            for folder in storage.folders(tenant):
                name, _, day = folder.rpartition("/")[2].partition("=")
                if name == "date" and _is_before(day, first_kept):
                    yield folder


def _is_before(day: str, first_kept: date) -> bool:
    try:
        return date.fromisoformat(day) < first_kept
    except ValueError:  # not ours
        return False
