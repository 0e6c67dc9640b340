"""A real Apache Kafka for tests: one process, broker and controller at once, on free ports of 127.0.0.1.

Its 44 jars come from Maven Central, once, to a folder outside the repository. Needs Java 17 and Maven.
"""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka.admin import AdminClient, NewTopic

from waiting import eventually

VERSION = "4.4.0"
_STOPS_WITHIN_S = 30.0

_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tracegrade</groupId><artifactId>kafka-for-tests</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
  </dependencies>
</project>
"""

# Of one broker: nothing is replicated. A group starts at once, its members may be called dead within a second, and the
# broker itself after two, since only then may it start again after a kill.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/log
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
"""


def missing() -> str:
    """What this machine lacks for a broker; "" when nothing."""
    lacking = [program for program in ("java", "mvn") if shutil.which(program) is None]
    return f"needs {' and '.join(lacking)}: apt-get install openjdk-17-jre-headless maven" if lacking else ""


def libraries() -> Path:
    """The folder of Kafka's jars, fetched at the first call: 43 MB; TRACEGRADE_TEST_KAFKA names another place."""
    named = os.environ.get("TRACEGRADE_TEST_KAFKA")
    cache = Path(named) if named else Path.home() / ".cache" / "tracegrade-tests" / f"kafka-{VERSION}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests of two runs may want it at once
        jars, done = cache / "libs", cache / "complete"
        if not done.exists():
            pom = cache / "pom.xml"
            pom.write_text(_POM)
            copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
            subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *copy], check=True, stdout=sys.stderr)
            done.touch()
    return jars


class Broker:
    """One Kafka. Its ports and its records stay the same over `stop`, `kill` and `start`."""

    def __init__(self, folder: Path) -> None:
        """Format a new cluster in `folder`; nothing runs yet."""
        self.folder = folder
        self.port, controller = _free_ports(2)
        self._java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{libraries()}/*"]
        self._properties = folder / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(_PROPERTIES.format(port=self.port, controller=controller, folder=folder))
        cluster = self._run_tool("random-uuid").strip().splitlines()[-1]
        self._run_tool("format", "--standalone", "-t", cluster, "-c", str(self._properties))

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process; fails while none runs."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it takes clients."""
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._properties)], stdout=output, stderr=output, cwd=self.folder
            )
        eventually(self._answers, f"Kafka, whose output is in {self.folder}/output", every_s=0.1)

    def stop(self) -> None:
        """Stop it in order (SIGTERM)."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOPS_WITHIN_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process = None

    def kill(self) -> None:
        """Kill it (SIGKILL); what clients were answered is in the page cache of the machine."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def create_topic(self, name: str, partitions: int, **settings: Any) -> None:
        """Create a topic of one replica; settings with ``_`` for each ``.``; LogAppendTime unless said otherwise."""
        config = {"message.timestamp.type": "LogAppendTime"}
        config |= {key.replace("_", "."): str(value) for key, value in settings.items()}
        admin = self.admin()  # it must live until the answer is here
        (created,) = admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values()
        created.result()
        # The controller knows it now; the broker tells clients of it a moment later.
        eventually(lambda: name in admin.list_topics(timeout=600).topics, f"topic {name}")

    def admin(self) -> AdminClient:
        """A client for what else a test wants changed."""
        return AdminClient({"bootstrap.servers": self.address})

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"Kafka ended; see {self.folder}/output"
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def _run_tool(self, *arguments: str) -> str:
        command = [*self._java, "kafka.tools.StorageTool", *arguments]
        ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=self.folder)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago; held together, so that no two are the same."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
