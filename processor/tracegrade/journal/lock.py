"""One process at a time for each role on a data folder."""

import fcntl
import os
from pathlib import Path

from tracegrade.journal.errors import JournalLocked


class FolderLock:
    """An exclusive lock, held until ``release`` or any end of the process."""

    def __init__(self, path: Path, what: str) -> None:
        """Take the lock file at `path`; `what` is named in the error.

        Raises:
            JournalLocked: another process (or another holder in this one) has it.
        """
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip()
            os.close(self._fd)
            raise JournalLocked(
                f"{path}: {what} is in use by process {holder or 'unknown'}; stop it, or give this one its own data_dir"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock; the file stays, since deleting it would race with the next process."""
        os.close(self._fd)
