"""A PostgreSQL of a test's own, on a free port of loopback, that can be stopped, frozen and started again."""

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

_NAME = "results"
_USER = "tracegrade"


def programs() -> Path | None:
    """The folder of its programs; None where it is not installed."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    return Path(found[-1]).parent if found else None


def missing() -> str:
    """What this machine lacks for it; "" when nothing."""
    if programs() is None:
        return "needs apt's postgresql"
    return "" if find_spec("psycopg") else "needs pip install -e '.[postgresql]'"


class Postgresql:
    """One server; its data and its port stay the same over `stop` and `start`."""

    def __init__(self) -> None:
        """Make it in a folder of its own, that its user may reach; nothing runs yet."""
        found = programs()
        assert found is not None
        self._programs = found
        self._folder = Path(tempfile.mkdtemp(prefix="tracegrade-postgresql-"))
        self._data = self._folder / "data"
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self._port: int = taken.getsockname()[1]
        if os.getuid() == 0:  # it refuses to run as root
            shutil.chown(self._folder, "postgres")
        self._run("initdb", "-D", str(self._data), "-U", _USER, "--auth", "trust")

    @property
    def url(self) -> str:
        """For ``store.url``."""
        return f"postgresql+psycopg://{_USER}@127.0.0.1:{self._port}/{_NAME}"

    def __enter__(self) -> Self:
        """Start it, with an empty database."""
        self.start()
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self._port), "-U", _USER, _NAME)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, and remove it."""
        self.thaw()
        with suppress(subprocess.CalledProcessError):  # it may be stopped
            self.stop("immediate")
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        self._run("pg_ctl", "-D", str(self._data), "-w", "-l", str(self._data / "log"), "-o", options, "start")

    def stop(self, mode: str) -> None:
        """End it; `mode` is pg_ctl's: immediate, fast."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", mode, "stop")

    def freeze(self) -> None:
        """Let it, and each of its processes, do nothing: connections stay open, and nothing is answered."""
        for pid in self._processes():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """End `freeze`."""
        for pid in self._processes():
            os.kill(pid, signal.SIGCONT)

    def execute(self, statement: str, **environment: str) -> str:
        """What psql prints of a statement; raises `subprocess.CalledProcessError` where the server refuses it."""
        asked = ["-h", "127.0.0.1", "-p", str(self._port), "-U", _USER, "-Atc", statement]
        return self._run("psql", *asked, _NAME, **environment).strip()

    def _processes(self) -> list[int]:
        pid_file = self._data / "postmaster.pid"
        if not pid_file.exists():
            return []
        main = int(pid_file.read_text().split()[0])
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(main)], capture_output=True, text=True, check=False)
        return [main, *map(int, found.stdout.split())]

    def _run(self, program: str, *arguments: str, **environment: str) -> str:
        command = [str(self._programs / program), *arguments]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        log = self._folder / "programs"  # to a file: pg_ctl leaves the server with our pipes
        with log.open("ab") as errors:
            if program == "psql":
                return subprocess.run(
                    command, check=True, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | environment
                ).stdout
            subprocess.run(command, check=True, stdout=errors, stderr=errors, stdin=subprocess.DEVNULL, cwd="/")
        return ""
