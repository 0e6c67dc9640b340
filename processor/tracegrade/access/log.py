"""The access log: who read or deleted what, as lines of JSON in files of the data folder that ``delete`` leaves alone.

An entry has ``time``, ``name`` (of the token; "" where none was asked for), ``tenant``, ``right`` (the strongest that
was needed), ``operation``, ``named`` (what was asked for, by name), ``status`` and ``values`` (whether it may have held
values); never a value of a trace, nor a secret. Files are called by the time at which they begin. `AccessFiles` writes
and reads them, from any process; `AccessLog` writes without keeping its callers waiting, and counts what it loses.
"""

import fcntl
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from tracegrade.access.settings import AccessLogSettings

FOLDER = "access"

_SHARES = 8  # a file is at most this part of what is kept, by size and by age
_MOST_WAITING = 10_000
_LONGEST = 300  # characters of a name
_LONGEST_NAMED = 4000
_WRITE_EVERY_S = 0.2
_NS = 1_000_000_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """One entry; see the module."""

    name: str
    tenant: str | None
    right: str
    operation: str
    named: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None
    values: bool = False
    time_ns: int = field(default_factory=time.time_ns)

    def line(self) -> bytes:
        """The entry as a line of the file."""
        return _line(
            self.time_ns,
            name=self.name[:_LONGEST],
            tenant=self.tenant,
            right=self.right,
            operation=self.operation[:_LONGEST],
            named={name: text[:_LONGEST_NAMED] for name, text in self.named.items()},
            status=self.status,
            values=self.values,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """How far a reader is: the name of a file, and the bytes of it that it has read."""

    file: str = ""
    offset: int = 0


class AccessFiles:
    """The files of one data folder."""

    def __init__(self, data_path: Path, settings: AccessLogSettings, now_ns: Callable[[], int] = time.time_ns) -> None:
        self.folder = data_path / FOLDER
        self._share_bytes = settings.max_size_mib * 1024 * 1024 // _SHARES
        self._max_bytes = settings.max_size_mib * 1024 * 1024
        self._max_age_ns = round(settings.max_age * _NS)
        self._now_ns = now_ns

    def write(self, lines: Sequence[bytes]) -> None:
        """Append whole lines, durably, and delete files that are too old or too many.

        Raises:
            OSError: the disk refused; nothing was written.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._append(self._current(), b"".join(lines))
            self._delete_old()

    def read(self, place: Place, most_bytes: int = 256 * 1024) -> tuple[list[dict[str, Any]], Place]:
        """Entries after `place`, the oldest first, and the place after them; [] when there are no more."""
        for path in self._files():
            if path.name < place.file:
                continue
            offset = place.offset if path.name == place.file else 0
            try:
                with path.open("rb") as file:
                    file.seek(offset)
                    found = file.read(most_bytes)
            except FileNotFoundError:  # deleted since
                continue
            whole = found[: found.rfind(b"\n") + 1]
            if whole:
                return _entries(whole), Place(path.name, offset + len(whole))
            place = Place(path.name, offset)
        return [], place

    def end(self) -> Place:
        """The place after all that is there."""
        files = self._files()
        return Place(files[-1].name, files[-1].stat().st_size) if files else Place()

    def is_kept(self, place: Place) -> bool:
        """Whether what follows `place` is still there, as far as the name of its file tells."""
        return not place.file or (self.folder / place.file).exists()

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("access-*.jsonl"))

    def _current(self) -> Path:
        """The file to append to: the newest, unless it is large or old."""
        files, now_ns = self._files(), self._now_ns()
        if files:
            newest = files[-1]
            is_young = now_ns - _begun_ns(newest) < self._max_age_ns // _SHARES
            if is_young and newest.stat().st_size < self._share_bytes:
                return newest
            now_ns = max(now_ns, _begun_ns(newest) + 1)  # after a clock was set back, too: readers go by names
        return self.folder / f"access-{now_ns:020d}.jsonl"

    def _append(self, path: Path, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, data) < len(data):
                    raise OSError(28, "no space left")
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)  # whole lines or none
                raise
        finally:
            os.close(descriptor)

    def _delete_old(self) -> None:
        files = self._files()
        sizes = [path.stat().st_size for path in files]
        for number, path in enumerate(files[:-1]):
            is_old = self._now_ns() - _begun_ns(files[number + 1]) > self._max_age_ns
            if is_old or sum(sizes[number:]) > self._max_bytes:
                path.unlink()


class AccessLog:
    """Writes entries in a thread of its own; beyond 10,000 that wait they are lost, and the log says how many."""

    def __init__(self, files: AccessFiles) -> None:
        self._files = files
        self._waiting: deque[bytes] = deque()
        self._lost = 0
        self._is_failing = False
        self._some = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def add(self, access: Access) -> None:
        """Take an entry; never waits for the disk."""
        with self._lock:
            if len(self._waiting) >= _MOST_WAITING:
                self._lost += 1
                return
            self._waiting.append(access.line())
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="access-log", daemon=True)
                self._thread.start()
        self._some.set()

    def close(self) -> None:
        """Write what waits."""
        self._closing.set()
        self._some.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def _write(self) -> None:
        while not self._closing.is_set():
            self._some.wait()
            self._some.clear()
            self._closing.wait(_WRITE_EVERY_S)  # others come with it
            self._write_waiting()
        self._write_waiting()

    def _write_waiting(self) -> None:
        with self._lock:
            lines, lost = [*self._waiting], self._lost
            self._waiting.clear()
            self._lost = 0
        if lost:
            lines.append(_line(time.time_ns(), lost=lost))
        if not lines:
            return
        try:
            self._files.write(lines)
        except OSError as error:
            with self._lock:
                self._lost += lost + len(lines) - bool(lost)
            if not self._is_failing:
                logger.error("the access log cannot be written, and what is lost is counted: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False


def forgotten(name: str) -> str:
    """Stands for a person who is to be forgotten: the same for the same name, without saying it."""
    return f"sha256:{sha256(name.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _line(time_ns: int, **fields: Any) -> bytes:
    stamp = datetime.fromtimestamp(time_ns / _NS, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return orjson.dumps({"time": stamp, **fields}) + b"\n"


def _entries(lines: bytes) -> list[dict[str, Any]]:
    found = []
    for line in lines.splitlines():
        try:
            found.append(orjson.loads(line))
        except orjson.JSONDecodeError:  # a power cut tore it
            continue
    return found


def _begun_ns(path: Path) -> int:
    return int(path.stem.removeprefix("access-"))
