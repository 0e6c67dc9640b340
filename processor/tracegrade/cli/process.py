"""Private files, temporary folders, and the name by which this program was called."""

import fcntl
import os
import shlex
import shutil
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType


def make_files_private() -> None:
    """From here on, what this process and those that it starts make is their user's alone: prompts are in it."""
    os.umask(0o077)


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
    import tempfile  # most commands need none

    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():  # else another process took it for one that was left, before it was locked
            return folder, lock
        os.close(lock)


def _remove_left(prefix: str) -> None:
    """Remove what processes of this user left that are no more."""
    import tempfile

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


def own_command() -> str:
    """``tracegrade`` where the shell finds this one by that name, else the words by which it was called."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m tracegrade"
    found = shutil.which(called.name)
    if found is not None and called.exists() and Path(found).samefile(called):
        return called.name
    return shlex.quote(sys.argv[0]) if called.exists() else "tracegrade"
