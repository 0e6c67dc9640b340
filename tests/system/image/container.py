"""One container without an engine: an image's file system, entered by namespaces of Linux."""

import os
import subprocess
from pathlib import Path

from build.served import children
from waiting import eventually

USER = 10001


class Container:
    """A file system that is run as its image says, with a data folder that outlives it."""

    def __init__(self, root: Path, configuration: dict[str, object], folder: Path) -> None:
        """Nothing runs yet.

        Args:
            root: the file system of the image.
            configuration: entry point, arguments and environment, as the image has them.
            folder: empty; settings (`settings`), rules (`rules`) and data are kept in it.
        """
        self._root = root
        self._words = [*configuration["Entrypoint"], *configuration["Cmd"]]  # type: ignore[misc]
        self._environment = ["/usr/bin/env", "-i", "-C", str(configuration["WorkingDir"]), *configuration["Env"]]  # type: ignore[misc]
        self._data = folder / "data"
        self._data.mkdir(mode=0o700)
        os.chown(self._data, USER, USER)
        self.settings, self.rules = folder / "settings", folder / "rules"
        self.settings.mkdir()
        self.rules.mkdir()
        self._output = folder / "output.txt"
        self._outside: subprocess.Popen[bytes] | None = None
        self.pid = 0

    def start(self) -> None:
        """Run the image's command until `kill`; returns when its health check is content."""
        namespaces = ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        enter = [Path(__file__).with_name("enter"), self._root, self._data, self.settings, self.rules]
        with self._output.open("w") as output:
            self._outside = subprocess.Popen(
                [*namespaces, *enter, *self._environment, *self._words],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        (self.pid,) = eventually(lambda: children(self._outside.pid), "the first process")  # type: ignore[union-attr]
        eventually(lambda: self._ended() or self.run("tracegrade", "healthcheck").returncode == 0, "health", every_s=1)
        assert not self._ended(), self._output.read_text()

    def run(self, *command: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
        """A further command inside, as an engine's exec."""
        inside = ["nsenter", "-t", str(self.pid), "-m", "-n", "-p", "-r", "-w", "-S", str(USER), "-G", str(USER)]
        return subprocess.run(
            [*inside, *self._environment, *command], input=stdin or "", capture_output=True, text=True
        )

    def kill(self) -> None:
        """SIGKILL of the first process, which is the end of all others; nothing if none runs."""
        if self._outside is not None and not self._ended():
            os.kill(self.pid, 9)
            self._outside.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self._outside is not None
        os.kill(self.pid, 15)
        return self._outside.wait()

    def _ended(self) -> bool:
        return self._outside is None or self._outside.poll() is not None
