"""System calls on files. The two on which durability depends are methods, so that tests can watch or fail them."""

import os
from collections.abc import Sequence
from errno import EIO
from pathlib import Path

_MAX_BUFFERS = 1024  # IOV_MAX on Linux and macOS
_RETRY_BYTES = 1024 * 1024


class Disk:
    """Writes and syncs files; errors are the system's ``OSError``."""

    def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
        """Write all of `buffers`, one after the other, from `offset` of the file on."""
        for start in range(0, len(buffers), _MAX_BUFFERS):
            some = buffers[start : start + _MAX_BUFFERS]
            size = sum(map(len, some))
            written = os.pwritev(fd, some, offset)
            if written < size:  # rare: a signal, or the disk is about to be full
                _write_rest(fd, memoryview(b"".join(some))[written:], offset + written)
            offset += size

    def sync(self, fd: int) -> None:
        """Return once the file's data are on the disk."""
        os.fdatasync(fd)


def _write_rest(fd: int, rest: memoryview, offset: int) -> None:
    while rest:
        written = os.pwrite(fd, rest, offset)
        rest = rest[written:]
        offset += written


def read_readable(fd: int, length: int, offset: int) -> bytes:
    """Up to `length` bytes of a file; where the disk cannot read, a mebibyte at a time is zeros."""
    try:
        return os.pread(fd, length, offset)
    except OSError as error:
        if error.errno != EIO:
            raise
    return b"".join(
        _read_or_zeros(fd, min(_RETRY_BYTES, offset + length - start), start)
        for start in range(offset, offset + length, _RETRY_BYTES)
    )


def _read_or_zeros(fd: int, length: int, offset: int) -> bytes:
    try:
        return os.pread(fd, length, offset)
    except OSError as error:
        if error.errno != EIO:
            raise
        return bytes(length)


def still_names(path: Path, file: os.stat_result) -> bool:
    """Whether `path` is still a name of the open `file`: not after it was deleted, moved or replaced.

    Raises:
        OSError: this cannot be found out.
    """
    try:
        named = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (named.st_dev, named.st_ino) == (file.st_dev, file.st_ino)


def sync_folder(folder: Path) -> None:
    """Make the folder's entries (files created, renamed, deleted) durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def create_filled(path: Path, size: int) -> None:
    """Ensure that the file at `path` has at least `size` bytes on the disk; its content is kept.

    Its blocks exist from then on: overwriting them in place needs no room on a full disk.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        length = os.fstat(fd).st_size
        if length < size:
            os.pwrite(fd, bytes(size - length), length)
            os.fsync(fd)
    finally:
        os.close(fd)
    sync_folder(path.parent)
