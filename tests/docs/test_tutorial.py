"""The tutorial, followed from its first command to its last, on other ports."""

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest
import yaml

from docs.pages import Change, Command, Prints, Shown, Stop, Write, steps
from waiting import eventually

# Minutes of servers and programs; .ci/run follows it.
pytestmark = pytest.mark.long

# The servers of the page, and so what comes before others can go on.
_SERVERS = {"tracegrade serve": "serve", "python pager.py": "pager.py"}
_PORTS = ("4317", "4318", "4319", "8888", "9000")


def _free_ports(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [str(open_socket.getsockname()[1]) for open_socket in sockets]
    for open_socket in sockets:
        open_socket.close()
    return ports


class Reader:
    """Somebody who does what a page says, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        endpoint = f"http://127.0.0.1:{self.ports['4317']}"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = os.environ | {"PATH": path, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        self.shown = Shown()
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.logs: dict[str, list[str]] = {}
        self.last_code = 0

    def do(self, step: object) -> None:
        match step:
            case Write():
                own = self._endpoints() if step.path in ("config.yaml", "ci.yaml") else ""
                replace(step, text=self._here(step.text) + own).apply(self.folder)
            case Change():
                step.apply(self.folder)
            case Stop():
                self._stop(step.name)
            case Prints():
                eventually(lambda: len(self.logs[step.program]) >= len(step.shown), f"{step.program} to print")
                self.shown.compare(step.shown, "".join(self.logs[step.program]))
            case Command():
                self._command(step)

    def _command(self, step: Command) -> None:
        shown = tuple(map(self._here, step.shown))
        if step.line in _SERVERS:
            self._start(_SERVERS[step.line], step.line, shown)
        elif step.line.startswith("export "):
            name, _, value = step.line.removeprefix("export ").partition("=")
            self.environment[name] = value
        elif step.line == "echo $?":
            assert shown == (str(self.last_code),)
        elif re.match(r"tracegrade (traces|results|alerts preview) ", step.line) and shown:
            # A preview looks at whole minutes: the one in which the agent ran must be over.
            printed = eventually(lambda: self._run_until(step.line, shown), step.line, every_s=0.5)
            self.shown.compare(shown, printed)
        else:
            self.shown.compare(shown, self._run(step.line))

    def _run(self, line: str) -> str:
        done = subprocess.run(
            ["sh", "-c", self.shown.translated(line)],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.last_code = done.returncode
        return done.stdout

    def _run_until(self, line: str, shown: tuple[str, ...]) -> str:
        """What it prints once that is what is `shown`; before, nothing."""
        printed = self._run(line)
        try:
            Shown().compare(shown, printed)
        except AssertionError:
            return ""
        return printed

    def _start(self, name: str, line: str, shown: tuple[str, ...]) -> None:
        process = subprocess.Popen(
            line.split(),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        self.running[name] = process
        self.logs[name] = []
        if name == "serve":
            said: list[str] = []
            for row in process.stdout:
                said.append(row)
                if row.startswith("Listening: "):
                    break
            else:
                raise AssertionError(f"serve did not start:\n{''.join(said)}")
            self.shown.compare(shown, "".join(said))
        threading.Thread(target=_keep, args=(process.stdout, self.logs[name]), daemon=True).start()

    def _stop(self, name: str) -> None:
        process = self.running.pop(name)
        process.terminate()
        process.wait()

    def stop_all(self) -> None:
        for name in list(self.running):
            self._stop(name)

    def _here(self, text: str) -> str:
        """The same with the ports and the folder of this test."""
        text = text.replace("/home/me/refunds", str(self.folder))
        return re.sub(r"\b(" + "|".join(_PORTS) + r")\b", lambda port: self.ports[port[0]], text)

    def _endpoints(self) -> str:
        at = {
            name: {"endpoint": f"127.0.0.1:{self.ports[port]}"} for name, port in (("grpc", "4317"), ("http", "4318"))
        }
        return yaml.safe_dump(
            {
                "receivers": {"otlp": {"protocols": at}},
                "telemetry": {"endpoint": f"127.0.0.1:{self.ports['8888']}"},
                "web": {"endpoint": f"127.0.0.1:{self.ports['4319']}"},
            }
        )


def _keep(stream: IO[str], lines: list[str]) -> None:
    with stream:
        lines.extend(stream)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.stop_all()


def test_the_tutorial_does_what_it_says(reader: Reader) -> None:
    for step in steps("tutorial.md"):
        reader.do(step)
    job = yaml.safe_load((reader.folder / ".github/workflows/agent.yaml").read_text())["jobs"]["judge"]
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands[1:] == ["tracegrade rules test rules", "sh ci.sh"]
