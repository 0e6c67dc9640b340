"""Small files that two processes hand to each other."""

import os
import time
from contextlib import suppress
from pathlib import Path

from tracegrade.journal.disk import sync_folder

_UNFINISHED = ".unfinished"
_LEFT_AFTER_S = 3600.0


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` to `path`, durably: after a kill or a power cut the file is the old one or the new one.

    Raises:
        OSError: the disk refused; the old one is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f"{path.name}.{os.getpid()}{_UNFINISHED}")
    try:
        with written.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_unfinished(folder: Path) -> None:
    """Remove files that a kill in `replace_file` left an hour ago or earlier; they are no longer needed."""
    for path in folder.glob(f"*{_UNFINISHED}"):
        with suppress(OSError):  # gone, or not ours to remove: it does no harm
            if path.stat().st_mtime < time.time() - _LEFT_AFTER_S:
                path.unlink()
