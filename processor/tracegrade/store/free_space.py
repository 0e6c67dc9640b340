"""Space in a SQLite file that holds nothing any more: how much it is, and how the disk gets it back.

SQLite keeps the pages of deleted rows for what is written next. A store gives them back a few at a time where it was
made for that (``auto_vacuum``); one of an earlier version has to be written anew once, with `rebuild`. PostgreSQL looks
after its own files.
"""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, Engine

from tracegrade.store.open import checkpoint, reading

# Of all pages; fewer are kept free, since what is stored next takes them: giving back and taking again costs more.
_KEPT_FREE = 1 / 8
# Of one slice, in which no one else can write.
_PAGES = 128
_SLICE_S = 0.005
_INCREMENTAL = 2


class FreeSpace(NamedTuple):
    """The pages of a store's file, how many of them are free, and whether a running `serve` gives those back."""

    pages: int
    free_pages: int
    page_bytes: int
    is_given_back: bool

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        return self.pages * self.page_bytes

    @property
    def free_bytes(self) -> int:
        """How much of the file is free."""
        return self.free_pages * self.page_bytes

    @property
    def surplus_pages(self) -> int:
        """How many pages to give back, so that what is kept for what is stored next is left."""
        return max(0, int((self.free_pages - _KEPT_FREE * self.pages) / (1 - _KEPT_FREE)))


def free_space(connection: Connection) -> FreeSpace | None:
    """The free space of a store; None with PostgreSQL."""
    if connection.dialect.name != "sqlite":
        return None
    pages, free, size, mode = (
        connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
        for name in ("page_count", "freelist_count", "page_size", "auto_vacuum")
    )
    return FreeSpace(pages, free, size, mode == _INCREMENTAL)


def give_back(engine: Engine) -> int:
    """Give some free pages of a SQLite file back to the disk, in one short transaction.

    Call it again until it returns 0: an eighth of the file stays free. The file is shorter after the last call, or
    after SQLite's next checkpoint where somebody reads a state of before. What is cut off is not overwritten, as a
    deleted file is not.

    Returns:
        How many pages; 0 where there is nothing to do, also for a store that cannot, and for PostgreSQL.
    """
    with reading(engine) as connection:
        space = free_space(connection)
    if space is None or not space.is_given_back or not space.surplus_pages:
        return 0
    given, most = 0, min(space.surplus_pages, _PAGES)
    with engine.begin() as connection:
        until_s = time.monotonic() + _SLICE_S
        cursor = connection.connection.cursor()
        while given < most and time.monotonic() < until_s:
            # Python takes one step of this statement, and a step is a page: so one is asked for.
            cursor.execute("PRAGMA incremental_vacuum(1)")
            given += 1
        cursor.close()
    if given == space.surplus_pages:
        with closing(engine.raw_connection()) as raw:
            raw.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)").close()  # waits for no one, and no one for it
    return given


def rebuild(engine: Engine, folder: Path) -> int | None:
    """Write a SQLite file anew, without free space, so that from then on `give_back` works.

    It takes seconds for a GiB; nobody else can write meanwhile. A kill leaves the store as it was.

    Args:
        engine: a whole store, open for writing.
        folder: the store's, where SQLite writes a copy; twice the size of what is stored has to be free there.

    Returns:
        The bytes given back; None where nothing had to be done.

    Raises:
        sqlite3.Error: the disk is full, or somebody writes.
    """
    with reading(engine) as connection:
        before = free_space(connection)
    if before is None or (before.is_given_back and not before.surplus_pages):
        return None
    with closing(engine.raw_connection()) as raw, _temporary_files_in(folder):
        cursor = raw.cursor()
        for statement in (f"PRAGMA auto_vacuum={_INCREMENTAL}", "PRAGMA temp_store=FILE", "VACUUM"):
            cursor.execute(statement)
        cursor.execute("PRAGMA temp_store=MEMORY")
        cursor.close()
    checkpoint(engine)
    with reading(engine) as connection:
        after = free_space(connection)
    assert after is not None
    return before.size_bytes - after.size_bytes


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Have SQLite write its temporary files there: where it would, may be memory, or too small."""
    earlier = os.environ.get("SQLITE_TMPDIR")
    os.environ["SQLITE_TMPDIR"] = str(folder)
    try:
        yield
    finally:
        if earlier is None:
            del os.environ["SQLITE_TMPDIR"]
        else:
            os.environ["SQLITE_TMPDIR"] = earlier
