"""A temporary folder that may hold values of traces: for its user alone, and gone in whatever way the process ends."""

import fcntl
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

_ENDED_BY_SIGNAL = 128  # as shells number it


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """An empty folder of mode 0700, whose name begins with `prefix`; removed at the end, also when a signal is the end.

    What ends a process at once, as SIGKILL does, leaves it; the next call with this `prefix` removes it then. While a
    process is alive, it holds a lock on its folder.
    """
    _remove_left(prefix)
    with _ended_in_order():
        folder, lock = _locked(prefix)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _locked(prefix: str) -> tuple[Path, int]:
    """A new folder, and the descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():  # else another process took it for one that was left, before it was locked
            return folder, lock
        os.close(lock)


def _remove_left(prefix: str) -> None:
    """Remove what processes of this user left that are no more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):  # another one removes it now, or it is another user's
            _remove_unless_locked(folder)


def _remove_unless_locked(folder: Path) -> None:
    found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(found).st_uid != os.geteuid() or stat.S_IMODE(os.fstat(found).st_mode) != stat.S_IRWXU:
            return
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(found)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM and SIGHUP end the process as `sys.exit` does, with the exit code that shells show for them."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(_ENDED_BY_SIGNAL + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
