"""The files of a SQLite store: where it is when the settings name no database, and those that a repair replaced.

What can be read of a replaced file is in the store that took its place, so that it is kept for examination alone.
Traces cannot be taken out of it: a deletion deletes it as a whole, and so does retention.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

DATA_DIR = "./tracegrade-data"
_FILE = "tracegrade.db"


def sqlite_url(folder: Path) -> str:
    """The URL of the SQLite file in a data folder, with its absolute path."""
    return f"sqlite:///{folder.absolute() / _FILE}"


def is_absent(url: str) -> bool:
    """Whether `url` names an SQLite file that is not there; False where only the database's driver can tell."""
    path = url.removeprefix("sqlite:///")
    return path != url and "?" not in path and not Path(path).exists()


def holds_data(folder: Path) -> bool:
    """Whether `folder` is a data folder in which something was received or stored."""
    return any((folder / name).exists() for name in (_FILE, "instance_id", "journal"))


def sqlite_path(url: str) -> Path | None:
    """The SQLite file that `url` names; None for a database server."""
    from sqlalchemy.engine import make_url

    parsed = make_url(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


_MARK = ".replaced-"
_TIME = "%Y%m%dT%H%M%SZ"
_UNFINISHED = ".unfinished"
_LOGS = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class PutAside:
    """One of them: since when, ns since 1970 UTC, and its bytes, those of its log included."""

    path: Path
    since_ns: int
    size_bytes: int


def unfinished(store: Path) -> Path:
    """Where the store that is to take the place of `store` is written until it is whole."""
    return store.with_name(store.name + _UNFINISHED)


def take_its_place(store: Path, now: datetime) -> Path:
    """Put the file `store` aside, and the one at `unfinished` in its place. Returns where the replaced one is.

    Raises:
        OSError: the disk refused.
    """
    aside = store.with_name(f"{store.name}{_MARK}{now.astimezone(UTC):{_TIME}}")
    for log in _LOGS:  # a log that is not of the new file would damage it
        with suppress(FileNotFoundError):
            _beside(store, log).replace(_beside(aside, log))
    try:
        os.link(store, aside)  # so that there is a store at any moment
    except OSError:  # a file system without such links
        store.replace(aside)
    unfinished(store).replace(store)
    return aside


def files_of(store: Path) -> Iterator[Path]:
    """All files that are, or may be, of the store at `store`: its own, those put aside, and what a kill left."""
    for path in (store, unfinished(store), *(each.path for each in put_aside_of(store))):
        yield from _with_logs(path)


def put_aside_of(store: Path) -> list[PutAside]:
    """All that were put aside of the store at `store`, the oldest first."""
    found = []
    for path in sorted(store.parent.glob(f"{store.name}{_MARK}*")):
        with suppress(ValueError, FileNotFoundError):  # named otherwise, or deleted just now
            since = datetime.strptime(path.name.removeprefix(store.name + _MARK), _TIME).replace(tzinfo=UTC)
            size = sum(each.stat().st_size for each in _with_logs(path) if each.exists())
            found.append(PutAside(path, round(since.timestamp()) * 10**9, size))
    return found


def delete_put_aside(store: Path, before_ns: int | None = None) -> int:
    """Delete those put aside before a time, or all. Returns how many.

    Raises:
        OSError: the disk refused.
    """
    old = [each.path for each in put_aside_of(store) if before_ns is None or each.since_ns < before_ns]
    for path in old:
        _remove(path)
    return len(old)


def remove_unfinished(store: Path) -> None:
    """Remove what a repair that was killed has written; raises OSError."""
    _remove(unfinished(store))


def _remove(path: Path) -> None:
    for each in _with_logs(path):
        each.unlink(missing_ok=True)


def _with_logs(path: Path) -> Iterator[Path]:
    yield path
    for log in _LOGS:
        yield _beside(path, log)


def _beside(path: Path, log: str) -> Path:
    return path.with_name(path.name + log)
