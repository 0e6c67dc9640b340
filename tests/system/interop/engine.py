"""A compose file without an engine: its services as processes, each in namespaces with its names, files and ports.

Of a service this reads the image, command, environment, volumes, tmpfs, health check and what it depends on. Images are
programs of this machine; users, capabilities and read-only roots are left to them.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from interop.peers import NotInstalled

from build.served import children
from waiting import eventually

_ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")  # even where we are killed; unshare ignores SIGTERM
_NETWORK = "10.89.0."
_ASK = "import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1], timeout=5).read())"


@dataclass(frozen=True)
class Program:
    """What runs in an image's place: the words of its entry point, and what else the image says."""

    words: Sequence[str | Path]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"


class Composed:
    """The services that run."""

    def __init__(self, compose: Path, programs: Mapping[str, Program], run: Path) -> None:
        """Nothing runs yet.

        Args:
            compose: the file.
            programs: by the name of the image, without its tag; a service whose image is not here is left out.
            run: an empty folder, in which volumes and output are kept.
        """
        services: dict[str, dict[str, Any]] = yaml.safe_load(compose.read_text())["services"]
        self.left_out = sorted(name for name, service in services.items() if _image(service) not in programs)
        self._services = {name: service for name, service in services.items() if name not in self.left_out}
        self._programs = {name: programs[_image(service)] for name, service in self._services.items()}
        self._addresses = {name: f"{_NETWORK}{number}" for number, name in enumerate(self._services, 2)}
        self._compose, self._run = compose, run
        self._switch = 0
        self._started: dict[str, int] = {}

    @contextmanager
    def running(self) -> Iterator["Composed"]:
        """Start all services in the order of what they depend on, and end them with their namespaces."""
        hosts = [f"{address} {name}\n" for name, address in self._addresses.items()]
        (self._run / "hosts").write_text("127.0.0.1 localhost\n" + "".join(hosts))
        with ExitStack() as stack:
            bridge = f"ip link add br0 type bridge && ip address add {_NETWORK}1/24 dev br0 && ip link set br0 up"
            switch = [*_ENDS_WITH_US, "unshare", "--net", "sh", "-c", f"{bridge} && echo ready && exec sleep infinity"]
            process = stack.enter_context(_ended(subprocess.Popen(switch, stdout=subprocess.PIPE)))
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            self._switch = process.pid
            try:
                while waiting := [name for name in self._services if name not in self._started]:
                    name = next(name for name in waiting if not self._needed(name).keys() - self._started.keys())
                    self._until_healthy(
                        *(other for other, how in self._needed(name).items() if how == "service_healthy")
                    )
                    self._started[name] = self._start(name, stack)
                self._until_healthy(*self._services)
                yield self
            except BaseException:
                for name in self._started:
                    print(f"--- {name}\n{self._output(name).read_text()[-2000:]}", file=sys.stderr)
                raise

    def ask(self, published: int, path: str) -> bytes:
        """GET at a port that is published to people; empty where nothing answers."""
        self._require_all()
        name, port = next(
            (name, int(port.rpartition(":")[2]))
            for name, service in self._services.items()
            for port in service.get("ports", ())
            if int(port.split(":")[1]) == published
        )
        address = f"http://{self._addresses[name]}:{port}{path}"
        asked = ["nsenter", "-t", str(self._switch), "-n", sys.executable, "-c", _ASK, address]
        return subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True).stdout

    def _needed(self, name: str) -> dict[str, str]:
        needed = self._services[name].get("depends_on", {})
        conditions = dict.fromkeys(needed, "service_started") | (
            {other: found["condition"] for other, found in needed.items()} if isinstance(needed, dict) else {}
        )
        return {other: condition for other, condition in conditions.items() if other in self._services}

    def _start(self, name: str, stack: ExitStack) -> int:
        """Process id of the service's first process."""
        service, program = self._services[name], self._programs[name]
        script = [Path(__file__).with_name("service"), self._run / f"root-{name}", self._run / "hosts"]
        environment = {"PATH": os.environ["PATH"], "HOME": "/root"} | dict(program.environment)
        environment |= service.get("environment", {})
        words = ["env", "-i", "-C", program.folder, *(f"{key}={value}" for key, value in environment.items())]
        command = [
            *(*_ENDS_WITH_US, "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"),
            *(*script, self._addresses[name], *self._mounts(name), "--", *words, *program.words),
            *service.get("command", ()),
        ]
        with self._output(name).open("w") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        stack.enter_context(_ended(process))
        (first,) = eventually(lambda: children(process.pid), f"{name} to start")
        device = ["ip", "link", "add", f"to-{name}"[:15], "master", "br0", "up", "type", "veth"]
        peer = ["peer", "name", "eth0", "netns", str(first)]
        subprocess.run(["nsenter", "-t", str(self._switch), "-n", *device, *peer], check=True)
        return int(first)

    def _mounts(self, name: str) -> Iterator[str | Path]:
        if (folder := self._programs[name].folder) != "/":
            yield from ("tmpfs", "mode=0700", folder)
        for volume in self._services[name].get("volumes", ()):
            source, target = volume.removesuffix(":ro").split(":")
            if source.startswith("."):
                path = self._compose.parent / source
            else:
                path = self._run / "volumes" / source
                path.mkdir(parents=True, exist_ok=True)
            yield from ("bind", path, target)
        for mounted in self._services[name].get("tmpfs", ()):
            target, _, options = mounted.partition(":")
            if target != "/tmp":  # here it may be written, and programs may be in it
                yield from ("tmpfs", options, target)

    def _require_all(self) -> None:
        ended = [name for name, pid in self._started.items() if not Path(f"/proc/{pid}").exists()]
        assert not ended, f"ended: {', '.join(ended)}"

    def _until_healthy(self, *names: str) -> None:
        for name in names:
            eventually(lambda name=name: self._is_healthy(name), f"{name} to be healthy")

    def _is_healthy(self, name: str) -> bool:
        """Whether its health check passes, if it has one."""
        self._require_all()
        check = self._services[name].get("healthcheck")
        if check is None:
            return True
        kind, *words = check["test"]
        assert kind == "CMD"
        program = self._programs[name]
        if words[0] == _image(self._services[name]):
            words[:1] = map(str, program.words)
        inside = ["nsenter", "-t", str(self._started[name]), "-m", "-n", "-p", "-r", "-w", "env"]
        environment = [f"{key}={value}" for key, value in program.environment.items()]
        done = subprocess.run([*inside, *environment, *words], stdin=subprocess.DEVNULL, capture_output=True)
        return done.returncode == 0

    def _output(self, name: str) -> Path:
        return self._run / f"{name}.txt"


def require_namespaces() -> None:
    """Raise where this machine cannot make a service's namespaces.

    Raises:
        NotInstalled: it is not root, or a tool is missing.
    """
    if os.geteuid() != 0:
        raise NotInstalled("needs to be root, for mounts and network devices")
    missing = [name for name in ("ip", "unshare", "nsenter", "setpriv", "wget") if shutil.which(name) is None]
    if missing:
        raise NotInstalled(f"needs {', '.join(missing)}: apt-get install iproute2 util-linux wget")


def _image(service: Mapping[str, Any]) -> str:
    """The image's name without its tag."""
    return str(service["image"].partition(":")[0])


@contextmanager
def _ended(process: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    """End it at the end; its namespaces, and all that runs in them, end with it."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
