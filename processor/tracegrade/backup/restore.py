"""Brings a backup back into an empty place."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tracegrade.backup.manifest import DATA, STORE, Manifest, described, read_manifest
from tracegrade.config import Config
from tracegrade.journal.disk import sync_folder
from tracegrade.model.errors import TraceGradeError
from tracegrade.pipeline.data_folder import RESTORING
from tracegrade.store.files import sqlite_path
from tracegrade.store.open import open_store

Advance = Callable[[int], object]


def restore(backup: Path, config: Config, advance: Advance = lambda count: None) -> Manifest:
    """Copy what is in `backup` to the data folder and the SQLite store of `config`.

    Args:
        backup: the folder of a backup.
        config: the settings of the ``serve`` that is to go on with it. Nothing is at its data folder and store yet.
        advance: called with each number of bytes that was copied.

    Raises:
        TraceGradeError: there is no whole backup, a file is not as it was backed up, or there is something at the
            place, other than what an attempt that was killed has copied.
        StoreError: the store cannot be opened, or is of another version.
        OSError: a disk refused. What was copied so far is removed.
    """
    manifest = read_manifest(backup)
    _check(backup, manifest)
    folder, store = config.data_path, sqlite_path(config.store_url)
    targets = _targets(backup, manifest, folder, store)
    unfinished = folder / RESTORING
    if unfinished.is_file():
        _clear(folder, unfinished, store)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TraceGradeError(f"{folder}: there is something in this folder; name an empty or new one (data_dir)")
    if store is not None and os.path.lexists(store):  # also a link to nothing: it would be followed
        raise TraceGradeError(f"{store}: there is a store already; move it away, or name another place (store.url)")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished.write_text("" if store is None else str(store))
        sync_folder(folder)
        for file in manifest.files:
            if (to := targets.get(file.path)) is None:
                continue
            to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(backup / file.path, to)
            to.chmod(0o600)
            advance(file.size)
        sync_folder(folder)
        if store is not None and store.is_file():
            open_store(config.store_url, update=True).dispose()  # also brings a store of an earlier version up to date
        unfinished.unlink()
        sync_folder(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if store is not None:
            store.unlink(missing_ok=True)
        raise
    return manifest


def _targets(backup: Path, manifest: Manifest, folder: Path, store: Path | None) -> dict[str, Path]:
    """Where each file goes, by its path in the backup; nowhere the store, where the settings have a server's.

    Raises:
        TraceGradeError: a file would go outside of the data folder, or to the place of another one.
    """
    top = folder.resolve()
    targets: dict[str, Path] = {}
    taken = {top / RESTORING: "a file of the restore itself"}
    for file in manifest.files:
        to = store if file.path == STORE else folder / file.path.removeprefix(f"{DATA}/")
        if to is None:
            continue
        place = to.resolve()
        if to is not store and (place == top or not place.is_relative_to(top)):
            raise TraceGradeError(f"{backup}: {file.path!r} of its manifest would go to {place}, outside of {folder}")
        if place in taken:
            raise TraceGradeError(
                f"{backup}: {file.path!r} of its manifest would go to {place}, as {taken[place]} does"
            )
        taken[place] = repr(file.path)
        targets[file.path] = to
    return targets


def _clear(folder: Path, unfinished: Path, store: Path | None) -> None:
    """Remove what an attempt that was killed had copied; the file that says so goes last."""
    if written := unfinished.read_text():
        if store is None or written != str(store):  # a file says so, which need not be ours
            raise TraceGradeError(
                f"{unfinished}: a restore to the store {written!r} was killed, and the settings have another one; set "
                "store.url to it, or delete that store and this file"
            )
        for log in ("", "-wal", "-shm", "-journal"):
            Path(written + log).unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path != unfinished:
            path.unlink()
    unfinished.unlink()


def _check(backup: Path, manifest: Manifest) -> None:
    for file in manifest.files:
        path = backup / file.path
        if path.resolve() != backup.resolve() / file.path:
            raise TraceGradeError(
                f"{path}: reached by a symbolic link; expected a file in the backup; use another backup"
            )
        if path.exists() and not path.is_file():
            raise TraceGradeError(f"{path}: expected a file; use another backup")
        try:
            found = described(backup, path)
        except OSError as error:
            raise TraceGradeError(f"{path}: {error.strerror}; the backup is not whole: use another one") from None
        if found != file:
            raise TraceGradeError(
                f"{path}: not as it was backed up: {found.size} bytes of SHA-256 {found.sha256[:12]}..., expected "
                f"{file.size} of {file.sha256[:12]}...; use another backup"
            )
