"""``manifest.json`` of a backup: what is in it, by which each file is checked when it is brought back."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import file_digest
from pathlib import Path

import orjson

from tracegrade.model.errors import TraceGradeError

FORMAT = 1
FILE_NAME = "manifest.json"
DATA = "data"
STORE = "store.db"


@dataclass(frozen=True, slots=True)
class BackedUpFile:
    """A file by its path in the backup, its size in bytes, and the SHA-256 of its content, in hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a backup.

    ``begun_ns`` is when it was begun, ns since 1970 UTC: what was answered before then is in it. ``left_out``
    says what serves this data folder and is not in the backup, and how to back it up.
    """

    version: str
    begun_ns: int
    files: tuple[BackedUpFile, ...]
    left_out: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def write(self, folder: Path) -> None:
        """Write it into the backup in `folder`; raises OSError."""
        content = {"format": FORMAT, **asdict(self)}
        (folder / FILE_NAME).write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the backup in `folder`.

    Raises:
        TraceGradeError: there is no whole backup, or it is of a later version.
    """
    path = folder / FILE_NAME
    try:
        content = orjson.loads(path.read_bytes())
    except OSError as error:
        raise TraceGradeError(
            f"{folder}: no backup here ({error.strerror}: {FILE_NAME}); expected a folder that 'tracegrade backup' has "
            "finished: one whose name ends in .unfinished is not whole"
        ) from None
    except orjson.JSONDecodeError as error:
        raise TraceGradeError(f"{path}: damaged, no JSON ({error}); use another backup") from None
    try:
        if content["format"] != FORMAT:
            raise TraceGradeError(
                f"{path}: found format {content['format']!r}, expected {FORMAT}; use a later TraceGrade"
            )
        files = tuple(BackedUpFile(**file) for file in content["files"])
        found = Manifest(content["version"], content["begun_ns"], files, tuple(content["left_out"]))
        for file in found.files:
            if not _is_inside(file.path):
                raise TraceGradeError(
                    f"{path}: found the path {file.path!r}; expected {STORE}, or a path below {DATA}/ without '..', "
                    "'\\' and empty parts; nothing is restored: use another backup"
                )
        if len({file.path for file in found.files}) < len(found.files):
            raise TraceGradeError(f"{path}: names a file twice; nothing is restored: use another backup")
        return found
    except (KeyError, TypeError, AttributeError) as error:
        raise TraceGradeError(f"{path}: damaged ({error!r}); use another backup") from None


def _is_inside(path: str) -> bool:
    """Whether a manifest's path names the store, or a file of the data folder, wherever it is restored."""
    if path == STORE:
        return True
    top, *parts = path.split("/")
    return top == DATA and bool(parts) and not any(part in ("", ".", "..") or {*part} & {"\\", "\0"} for part in parts)


def described(folder: Path, path: Path) -> BackedUpFile:
    """The file at `path` as the manifest of the backup in `folder` has it; raises OSError."""
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    return BackedUpFile(path.relative_to(folder).as_posix(), path.stat().st_size, digest)


@contextmanager
def backup_errors(place: Path) -> Iterator[None]:
    """Raise what a disk or a database refused as `TraceGradeError`, naming `place` where the error names no file."""
    try:
        yield
    except OSError as error:
        raise TraceGradeError(f"{error.filename or place}: {error.strerror or error}; nothing is left there") from None
    except sqlite3.Error as error:
        raise TraceGradeError(
            f"the store cannot be copied: {error}; see 'tracegrade doctor'. Nothing is left at {place}"
        ) from None
