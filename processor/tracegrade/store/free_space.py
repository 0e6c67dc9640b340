"""Space in a SQLite file that holds nothing any more: how much it is, and how the disk gets it back.

SQLite keeps the pages of deleted rows for what is written next. A store is made with ``auto_vacuum``, so that it can
give them back a few at a time. PostgreSQL looks after its own files.
"""

import time
from contextlib import closing
from typing import NamedTuple

from sqlalchemy import Connection, Engine

from tracegrade.store.open import reading

# Of all pages; fewer are kept free, since what is stored next takes them: giving back and taking again costs more.
_KEPT_FREE = 1 / 8
# Of one slice, in which no one else can write.
_PAGES = 128
_SLICE_S = 0.005


class FreeSpace(NamedTuple):
    """The pages of a store's file, and how many of them are free."""

    pages: int
    free_pages: int
    page_bytes: int

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
    names = ("page_count", "freelist_count", "page_size")
    return FreeSpace(*(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names))


def give_back(engine: Engine) -> int:
    """Give some free pages of a SQLite file back to the disk, in one short transaction.

    Call it again until it returns 0: an eighth of the file stays free. The file is shorter after the last call, or
    after SQLite's next checkpoint where somebody reads a state of before. What is cut off is not overwritten, as a
    deleted file is not.

    Returns:
        How many pages; 0 where there is nothing to do, and for PostgreSQL.
    """
    with reading(engine) as connection:
        space = free_space(connection)
    if space is None or not space.surplus_pages:
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
