"""Small files that two processes hand to each other."""

import os
import time
from contextlib import suppress
from glob import escape
from pathlib import Path

from tracegrade.journal.disk import sync_folder

_UNFINISHED = ".unfinished"
_LEFT_AFTER_S = 3600.0


def replace_file(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write `data` to `path`, durably: after a kill or a power cut the file is the old one or the new one.

    `mode` is who may read and write it, less what the process's mask forbids.

    Raises:
        OSError: the disk refused; the old one is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f"{path.name}.{os.getpid()}{_UNFINISHED}")
    try:
        written.touch(mode)
        with written.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_unfinished(
    folder: Path, begins: str = "", *, left_after_s: float = _LEFT_AFTER_S, below: bool = False
) -> None:
    """Remove files that a kill in `replace_file` left; they are no longer needed.

    Args:
        folder: where they are.
        begins: only those whose names begin like this.
        left_after_s: only those that were written so long ago; another process may be writing younger ones.
        below: also those in all folders below.
    """
    for path in folder.glob(f"{'**/' if below else ''}{escape(begins)}*{_UNFINISHED}"):
        with suppress(OSError):  # gone, or not ours to remove: it does no harm
            if path.stat().st_mtime <= time.time() - left_after_s:
                path.unlink()
