"""The interface to what differs between the databases that can hold a store.

All other code is written for both, and asks `registry.database` where they differ; none asks for a database's name.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Select, Table
from sqlalchemy.engine import URL

Key: TypeAlias = tuple[bytes, str, str]
"""Trace id, tenant and run of a stored trace."""
Rows: TypeAlias = Sequence[tuple[Any, ...]]
"""Rows of a table: a value for each column, in order."""
Alive: TypeAlias = Callable[[], None]
"""Called between two transactions of a long piece of work."""

READS = "tracegrade_reads"
"""The execution option of a connection that only reads."""

_Item = TypeVar("_Item")
_MAX_IDS_A_QUERY = 500
# An arbitrary number that only we use.
_FIRST_LOCK = 0x7472_6163_6567


class Lock(IntEnum):
    """What at most one process does at a time; each number is that of PostgreSQL's advisory lock."""

    WRITING = _FIRST_LOCK
    LEADING = _FIRST_LOCK + 1
    JOBS = _FIRST_LOCK + 2
    NUMBERING_SERIES = _FIRST_LOCK + 3
    MAKING_PARTITIONS = _FIRST_LOCK + 4


class HeldLock(NamedTuple):
    """A lock that this process holds."""

    check: Callable[[], object]
    """Raises SQLAlchemyError where the lock may be lost, with its connection."""
    release: Callable[[], None]
    """Gives the lock up."""


class Partition(NamedTuple):
    """A partition of ``traces``: its table, and the numbers from ``first`` up to, and without, ``end``."""

    table: str
    first: int
    end: int


class FreeSpace(NamedTuple):
    """The pages of a store's file, and how many of them are free."""

    pages: int
    free_pages: int
    page_bytes: int
    surplus_pages: int
    """How many pages to give back to the disk: the rest is kept for what is stored next."""

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        return self.pages * self.page_bytes

    @property
    def free_bytes(self) -> int:
        """How much of the file is free."""
        return self.free_pages * self.page_bytes


class ListViews(NamedTuple):
    """SQL by which a view reads a JSON list in a row of ``traces``, with places for `str.format`.

    ``items`` of a column, as rows; the ``position`` of an item; a ``field`` by its index, of a type; the ``own`` name
    at an index of the list at an index; ``hex`` digits of bytes.
    """

    items: str
    position: str
    field: str
    own: str
    hex: str


class Database(ABC):
    """One kind of database."""

    is_file: ClassVar[bool]
    """Whether a store is a file, which one process writes; else it is on a server, and many processes write it."""
    mark: ClassVar[str]
    """The mark for a parameter in SQL for the driver."""
    read_options: ClassVar[Mapping[str, Any]]
    """Execution options of a connection that sees the state of one moment."""
    views: ClassVar[ListViews]

    # Opening

    @abstractmethod
    def engine(self, url: URL, *, read_only: bool, tenant: str | None, durable: bool) -> Engine:
        """Make an engine; the arguments are those of `open_store`. Raises StoreError."""

    @abstractmethod
    def with_timeout(self, url: URL, within_s: int) -> URL:
        """Give `url` a time to wait for a server, unless it has one."""

    @abstractmethod
    def shown(self, url: URL) -> str:
        """Name a store in a message, without a password."""

    @abstractmethod
    def may_open_later(self, url: URL, error: Exception) -> bool:
        """Tell whether a store that failed to open may be opened at a later attempt."""

    @abstractmethod
    def advice(self, url: URL, error: Exception, read_only: bool) -> str:
        """Say what to do where the database's own message does not; "" where it does."""

    @abstractmethod
    def prepare_tables(self, connection: Connection) -> None:
        """Make the tables that only this database has, or makes in another way than others, in an empty one."""

    # Locks

    @abstractmethod
    def hold(self, connection: Connection, lock: Lock, *, shared: bool = False) -> None:
        """Wait for a lock and hold it until the transaction ends; `shared`: with all others that share it.

        SQLite's transactions do this when they begin, with one lock for everything.
        """

    @abstractmethod
    def take(self, engine: Engine, lock: Lock) -> HeldLock | None:
        """Take a lock, perhaps for long; None where another process has it. It goes with this process, too."""

    @contextmanager
    def alone(self, engine: Engine, lock: Lock) -> Iterator[bool]:
        """Hold a lock, perhaps for long; False where another process has it."""
        held = self.take(engine, lock)
        try:
            yield held is not None
        finally:
            if held is not None:
                held.release()

    # Rows

    @abstractmethod
    def insert(self, connection: Connection, table: Table, rows: Rows) -> None:
        """Insert many rows, through the driver, since SQLAlchemy's own way takes twice as long.

        Raises:
            DBAPIError: the database refused them.
            TypeError: a number is too large for its column.
        """

    @abstractmethod
    def insert_or_change(self, connection: Connection, table: Table, rows: Rows, changes: str) -> None:
        """Insert rows; where the primary key is stored already, set `changes`, in which ``excluded`` is the new row.

        No key may come twice. Several writers must give rows in the same order: each waits for the rows of the other.
        """

    @abstractmethod
    def holds(self, document: ColumnElement[Any], key: str, text: str) -> ColumnElement[bool]:
        """Choose rows whose JSON column has a list at `key` that holds a text."""

    # Traces by their ids

    @abstractmethod
    def of_ids(self, trace_ids: Collection[bytes]) -> ColumnElement[bool]:
        """Choose the traces and sessions of these ids, in every tenant and run."""

    @abstractmethod
    def of_ids_text(self, count: int) -> str:
        """As `of_ids`, as SQL for the driver with `count` parameters."""

    @abstractmethod
    def claim(self, connection: Connection, revisions: Mapping[Key, int]) -> tuple[dict[Key, int], list[int]]:
        """Take a number for each trace that is not stored, or in a lower revision.

        Until the transaction ends, others that store the same traces wait.

        Returns:
            The numbers by key, in the order of `revisions`, and those of the rows that they replace.
        """

    @abstractmethod
    def make_room(self, engine: Engine, number: int) -> int:
        """Make room for a trace of this number. Returns a higher number, below which there is room."""

    @abstractmethod
    def delete_traces(self, connection: Connection, numbers: Sequence[int]) -> None:
        """Delete the traces of `numbers` with all their results, and what finds them by id; ``counts`` stay."""

    # Deletion

    @abstractmethod
    def soon_dropped(self, connection: Connection, before_ns: int) -> list[Partition]:
        """The partitions that `drop_expired` will drop within a day: their rows need not be deleted one by one."""

    @abstractmethod
    def drop_expired(self, engine: Engine, before_ns: int) -> None:
        """Drop the partitions whose traces were all first received before a time, and no run that is kept has one."""

    @abstractmethod
    def overwrite_what_goes(self, connection: Connection, is_on: bool = True) -> None:
        """Overwrite at once what this connection deletes from now on, or no longer, where that can be asked for."""

    @abstractmethod
    def overwrite_free(self, engine: Engine, alive: Alive) -> None:
        """Overwrite the free pages of a file; on a server, let the space of deleted rows be used again."""

    @abstractmethod
    def checkpoint(self, engine: Engine) -> bool:
        """Write a file's log back into it and cut it, so that there is one file; False while readers hold the log."""

    @abstractmethod
    def free_space(self, connection: Connection) -> FreeSpace | None:
        """The free space in a store's file; None on a server, which looks after its own files."""

    @abstractmethod
    def give_back(self, engine: Engine) -> int:
        """Give some free pages of a file back to the disk, in one short transaction.

        Call it again until it returns 0: an eighth of the file stays free. The file is shorter after the last call, or
        after the next checkpoint where somebody reads a state of before. What is cut off is not overwritten.

        Returns:
            How many pages; 0 where there is nothing to do.
        """


def in_parts(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """`items` in their order, as many at a time as fit into one query."""
    for start in range(0, len(items), _MAX_IDS_A_QUERY):
        yield items[start : start + _MAX_IDS_A_QUERY]


def rows_in(
    connection: Connection, query: Select[Any], column: ColumnElement[Any], items: Iterable[Any]
) -> Iterator[Any]:
    """The rows that `query` selects whose `column` is one of `items`, with as many queries as these need."""
    for some in in_parts(list(items)):
        yield from connection.execute(query.where(column.in_(some)))


# There are few tables, and every batch of results is written to several.
@cache
def column_names(table: Table) -> str:
    """The columns of a table, as SQL."""
    return ", ".join(column.name for column in table.columns)


@cache
def on_conflict(table: Table) -> str:
    """The clause before what to change in a row whose primary key is stored already."""
    return f"ON CONFLICT ({', '.join(column.name for column in table.primary_key.columns)}) DO UPDATE SET"
