"""Deleted traces leave Parquet files: each file that has rows of them is written again without."""

from collections import Counter
from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

from tracegrade.deliver.parquet.columns import TABLES
from tracegrade.deliver.parquet.names import tenant_folder
from tracegrade.deliver.parquet.settings import ParquetSettings
from tracegrade.deliver.parquet.storage import Storage
from tracegrade.journal.lock import FolderLock

CUT_SUFFIX = ".cut"  # of the file of a writer's last cut
_AT_ONCE = 8  # files looked at: a bucket answers each in tens of milliseconds
_NAMING = ("judged_id", "trace_id", "members")  # the columns that name traces


def without(table: Any, deleted: Container[bytes]) -> tuple[Any, Counter[str]]:
    """A table of pyarrow without rows of `deleted` traces and of sessions that they were part of.

    Returns:
        The other rows, and how many are gone, by the deleted trace's id in hex.
    """
    gone: Counter[str] = Counter()
    named = _named(table, deleted)
    if not named:
        return table, gone
    import pyarrow

    columns = [table[name].to_pylist() for name in ("judged_id", "trace_id")]
    members = table["members"].to_pylist() if "members" in table.column_names else [None] * table.num_rows
    is_left = []
    for *ids, others in zip(*columns, members, strict=True):
        theirs = next((trace_id for trace_id in (*ids, *(others or ())) if trace_id in named), None)
        is_left.append(theirs is None)
        if theirs is not None:
            gone[theirs] += 1
    return table.filter(pyarrow.array(is_left, pyarrow.bool_())), gone


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
    pyarrow.parquet.write_table(table, stream, compression="zstd", store_schema=False)
    return stream.getvalue()


def erase(
    settings: ParquetSettings,
    folder: Path,
    deleted: Container[bytes],
    *,
    tenant: str | None = None,
) -> Counter[str]:
    """Remove the rows of `deleted` traces from all files. Doing it again removes what is left.

    Args:
        settings: where the files are.
        folder: the sink's own: its lock keeps it from writing meanwhile.
        deleted: trace ids.
        tenant: whose files; None: those of all.

    Returns:
        The number of rows removed, by trace id in hex.

    Raises:
        JournalLocked: files are being written; try again.
        OSError, ParquetError: the disk or the bucket refused, or the extra is not installed; the next try goes on.
    """
    storage = Storage(settings)
    lock = writing_lock(folder)
    try:
        own = "" if tenant is None else f"/{tenant_folder(tenant)}"
        paths = [path for table in TABLES for path in storage.files(f"{table}{own}")]
        removed: Counter[str] = Counter()
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="tracegrade-parquet") as threads:
            for gone in threads.map(lambda path: _erase_from(storage, path, deleted), paths):
                removed += gone
        storage.remove_unfinished(_writers(folder))
        return removed
    finally:
        lock.release()


def remove_unfinished(settings: ParquetSettings, folder: Path) -> None:
    """Remove what kills left of files; `folder` as in `erase`.

    Raises:
        JournalLocked: files are being written; try again.
        OSError, ParquetError: the disk refused, or the extra is not installed.
    """
    storage = Storage(settings)
    lock = writing_lock(folder)
    try:
        storage.remove_unfinished(_writers(folder))
    finally:
        lock.release()


def _writers(folder: Path) -> list[str]:
    """Who has written files from this data folder, as their names begin."""
    return [path.stem for path in folder.glob(f"*{CUT_SUFFIX}")]


def writing_lock(folder: Path) -> FolderLock:
    """The lock of who writes files of this data folder; `folder` is the sink's own, made if missing.

    Raises:
        JournalLocked: another one writes.
        OSError: it cannot be taken.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return FolderLock(folder / "writing.lock", "the folder of Parquet files")


def _erase_from(storage: Storage, path: str, deleted: Container[bytes]) -> Counter[str]:
    import pyarrow.parquet

    try:
        with storage.read(path) as file:
            reader = pyarrow.parquet.ParquetFile(file)
            naming = [name for name in _NAMING if name in reader.schema_arrow.names]
            if not _named(reader.read(columns=naming), deleted):
                return Counter()
            left, gone = without(reader.read(), deleted)
    except FileNotFoundError:  # retention was quicker
        return Counter()
    if left.num_rows:
        storage.write(path, encoded(left))
    else:
        storage.delete(path)
    return gone


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
