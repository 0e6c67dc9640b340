"""Makes a backup while the roles of ``serve`` go on."""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

from tracegrade.backup.manifest import DATA, STORE, Manifest, described
from tracegrade.config import Config
from tracegrade.display import without_secrets
from tracegrade.journal.disk import sync_folder
from tracegrade.journal.position import Position
from tracegrade.journal.published import FILE_NAME as PUBLISHED
from tracegrade.journal.segments import FOLDER_NAME as SEGMENTS
from tracegrade.journal.segments import segment_bases
from tracegrade.model.errors import TraceGradeError
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.version import tracegrade_version
from tracegrade.store.files import files_of, sqlite_path

UNFINISHED = ".unfinished"
Advance = Callable[[int], object]

# Signs of life, locks, and files that somebody is about to rename: of no use to another process.
_OF_PROCESSES = (".heartbeat", ".snapshot.json", ".lock", "lock", ".unfinished", ".tmp", "jobs.wait", "jobs.beat")
_PAGES_A_STEP = 2048


def total_bytes(config: Config) -> int:
    """About how many bytes a backup takes; they grow while one is made."""
    folder = config.data_path
    files = [path for path in folder.rglob("*") if path.is_file()]
    store = sqlite_path(config.store_url)
    if store is not None and store.is_file() and not store.resolve().is_relative_to(folder.resolve()):
        files.append(store)
    return sum(_size(path) for path in files)


def make_backup(config: Config, to: Path, advance: Advance = lambda count: None) -> Manifest:
    """Copy the data folder and the SQLite store of `config` to the new folder `to`.

    Args:
        config: the settings that ``serve`` has.
        to: does not exist yet, or is empty. Until the backup is whole, its name ends in ``.unfinished``.
        advance: called with each number of bytes that was copied.

    Raises:
        TraceGradeError: there is nothing to back up, or something at `to`.
        OSError, sqlite3.Error: a disk refused; nothing is at `to`.
    """
    folder = config.data_path
    if not (folder / "instance_id").is_file():
        raise TraceGradeError(f"{folder}: no data folder of 'tracegrade serve'; give -c CONFIG, or --data-dir FOLDER")
    if to.resolve().is_relative_to(folder.resolve()):
        raise TraceGradeError(f"{to}: is in the data folder {folder}; name a folder elsewhere, best on another disk")
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise TraceGradeError(f"{to}: is there already; name a new folder for each backup")
    unfinished = to.with_name(to.name + UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)  # of a backup that was killed
    try:
        unfinished.mkdir(parents=True)
        manifest = _copy(config, unfinished, advance)
        manifest.write(unfinished)
        for path in (unfinished, *unfinished.rglob("*")):
            _sync(path)
        if to.is_dir():
            to.rmdir()
        unfinished.replace(to)
        sync_folder(to.parent)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return manifest


def _copy(config: Config, to: Path, advance: Advance) -> Manifest:
    begun_ns = time.time_ns()
    for path in _in_order(config):
        _copy_file(path, to / DATA / path.relative_to(config.data_path), advance)
    store = sqlite_path(config.store_url)
    if store is not None and store.is_file():
        _copy_store(store, to / STORE, advance)
    # Last, so that whatever was judged is in it. What retention deletes meanwhile had been judged before.
    for path in _journal(DataFolder(config.data_path).journal):
        _copy_file(path, to / DATA / path.relative_to(config.data_path), advance)
    _pass_what_is_gone(to / DATA)
    files = tuple(described(to, path) for path in sorted(to.rglob("*")) if path.is_file())
    return Manifest(tracegrade_version(), begun_ns, files, tuple(_left_out(config)))


def _in_order(config: Config) -> Iterator[Path]:
    """All files that are copied before the store, in that order."""
    folder = DataFolder(config.data_path)
    store = sqlite_path(config.store_url)
    of_store = set() if store is None else {path.name for path in files_of(store)}
    journals = [folder.path / name for name in folder.results_journals()]
    if folder.turns.is_dir():
        journals.append(folder.turns)
    positions = sorted((folder.path / "positions").glob("*"))
    elsewhere = {folder.journal, *journals, folder.path / "positions"}
    rest = (
        path
        for top in sorted(folder.path.iterdir())
        if top not in elsewhere and top.name not in of_store
        for path in ([top] if top.is_file() else sorted(top.rglob("*")))
    )
    for path in chain(positions, *map(_journal, journals), rest):
        if path.is_file() and not path.name.endswith(_OF_PROCESSES):
            yield path


def _journal(folder: Path) -> Iterator[Path]:
    """The files of a journal: what is published first, so that the segments hold at least as much."""
    yield folder / PUBLISHED
    yield from sorted((folder / SEGMENTS).glob("*"))


def _copy_file(path: Path, to: Path, advance: Advance) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(path, to)
    except FileNotFoundError:  # retention has deleted it
        to.unlink(missing_ok=True)
        return
    advance(_size(to))


def _copy_store(path: Path, to: Path, advance: Advance) -> None:
    """SQLite's own backup: the state of one moment, while others write."""
    done = 0

    def progress(status: int, remaining: int, total: int) -> None:
        nonlocal done
        copied = (total - remaining) * page_bytes
        advance(copied - done)
        done = copied

    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source:
        # In one transaction: without it, a backup begins anew whenever another process writes between two steps.
        source.execute("BEGIN")
        page_bytes = source.execute("PRAGMA page_size").fetchone()[0]
        source.execute("SELECT count(*) FROM alembic_version").fetchone()
        with closing(sqlite3.connect(to)) as target:
            source.backup(target, pages=_PAGES_A_STEP, progress=progress)
            target.execute("PRAGMA journal_mode=DELETE")  # one file


def _pass_what_is_gone(data: Path) -> None:
    """Set positions before the first segment to it: retention had deleted what all had read, after they were copied."""
    folder = DataFolder(data)
    bases = segment_bases(folder.journal)
    for path in folder.positions_of_journal() if bases else ():
        position = Position(path)
        if (found := position.load()) is not None and found < bases[0]:
            position.commit(bases[0])
            position.close()


def _left_out(config: Config) -> Iterator[str]:
    store = sqlite_path(config.store_url)
    if store is None:
        yield "the store is a database server's: back it up with its own tool (pg_dump) now, after this backup"
    if config.journal.kafka is not None:
        yield "requests are in Kafka: what is not judged yet is only there"
    if config.parquet is not None:
        yield f"Parquet files are in {without_secrets(config.parquet.url)}: copy them with the tools of that place"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
