"""What is wrong with the world, and not with the settings, keeps nobody from receiving."""

import json
import socket
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from reliability.load import arrived, request_of, wait_until_stored

from build.served import Downstream, Server, export, exporter, served
from waiting import eventually

pytestmark = pytest.mark.long


def conditions(server: Server) -> dict[str, dict[str, Any]]:
    with urlopen(f"http://{server.endpoints['telemetry']}/healthz") as response:
        return {found["name"]: found for found in json.load(response)["conditions"]}


def test_a_store_that_cannot_be_read_is_waited_for(tmp_path: Path) -> None:
    downstream = Downstream()
    server = Server(tmp_path, exporters=exporter(downstream))
    server.data.mkdir()
    damaged = server.data / "tracegrade.db"
    damaged.write_bytes(b"this was a header" * 1000)
    server.start()
    found = eventually(lambda: conditions(server).get("store_unavailable"), "the condition", 60)
    assert "file is not a database" in found["message"]
    export(server.endpoints["grpc"], request_of([1, 2]))
    eventually(lambda: len(arrived(downstream)) == 8, "what is forwarded meanwhile")
    with urlopen(f"http://{server.endpoints['telemetry']}/readyz") as response:
        assert json.load(response)["status"] == "degraded"
    damaged.rename(tmp_path / "looked at later")
    wait_until_stored(server, [1, 2])
    eventually(lambda: not conditions(server), "all to be well", 60)
    assert server.stop() == 0
    downstream.stop()


def test_a_store_damaged_while_it_is_used_loses_no_result(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        export(server.endpoints["grpc"], request_of([1]))
        wait_until_stored(server, [1])
        for name in ("tracegrade.db", "tracegrade.db-wal"):
            path = server.data / name
            if path.exists():
                with path.open("r+b") as file:
                    file.write(b"\0" * min(path.stat().st_size, 4096))
        for trace in range(2, 12):
            export(server.endpoints["grpc"], request_of([trace]))
        eventually(lambda: "store_unavailable" in conditions(server), "the condition", 90)
        for path in server.data.glob("tracegrade.db*"):
            path.unlink()
        wait_until_stored(server, range(2, 12))
        assert server.metric("tracegrade_sink_dropped_records_total", "judge") == 0


def test_the_page_waits_for_its_port(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        endpoint = f"127.0.0.1:{taken.getsockname()[1]}"
        server = Server(tmp_path, web={"endpoint": endpoint})
        server.start()
        assert "web" not in server.endpoints
        assert endpoint in conditions(server)["web_port_taken"]["message"]
        export(server.endpoints["grpc"], request_of([1]))
    wait_until_stored(server, [1])
    eventually(lambda: "web_port_taken" not in conditions(server), "the port")
    try:
        with urlopen(f"http://{endpoint}/") as response:
            assert response.status == 200
    finally:
        assert server.stop() == 0
