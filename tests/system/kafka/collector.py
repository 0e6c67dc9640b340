"""A real Collector that writes to Kafka, by the settings of our example."""

import os
import subprocess
from pathlib import Path

from interop.peers import free_port, kafka_collector_binary
from kafka.broker import Broker

from waiting import eventually

EXAMPLE = Path(__file__).parents[3] / "deploy" / "kafka" / "collector.yaml"
_STOPS_WITHIN_S = 30.0


class Collector:
    """One Collector; built the first time, in a folder that is used again."""

    def __init__(self, built: Path) -> None:
        """Build it, if that was not done; some minutes."""
        self._binary = kafka_collector_binary(built)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, folder: Path, broker: Broker) -> str:
        """Start it, with its queue in `folder`. Returns where it takes OTLP/gRPC."""
        folder.mkdir()
        grpc, http = free_port(), free_port()
        text = EXAMPLE.read_text().replace("/var/lib/otelcol/queue", str(folder / "queue"))
        text = text.replace("127.0.0.1:4317", f"127.0.0.1:{grpc}").replace("127.0.0.1:4318", f"127.0.0.1:{http}")
        config = folder / "config.yaml"
        config.write_text(text + "  telemetry: {metrics: {level: none}}\n")
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._binary), f"--config={config}"],
                stdout=log,
                stderr=log,
                env=os.environ | {"KAFKA_BROKER": broker.address},
            )
        eventually(lambda: b"Everything is ready" in (folder / "log").read_bytes(), f"{folder}/log")
        return f"127.0.0.1:{grpc}"

    def stop(self) -> None:
        """SIGTERM; it sends what it has."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_STOPS_WITHIN_S)
            self._process = None
