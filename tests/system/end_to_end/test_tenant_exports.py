"""What exporters that are for one tenant are sent, beside one that gets all."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from build.otlp import agent_span, payload, tool_span
from build.served import LOGS, METRICS, TRACES, Downstream, Server, export, exporter, served
from tracegrade import semconv
from tracegrade.journal.position import Position
from tracegrade.pipeline.data_folder import DataFolder
from waiting import eventually

pytestmark = pytest.mark.long

TENANTS = {"tenant_header": "x-tenant", "trusted_proxies": ["127.0.0.1"]}


@pytest.fixture
def peers() -> Iterator[list[Downstream]]:
    peers = [Downstream(), Downstream()]
    yield peers
    for peer in peers:
        peer.stop()


def test_an_exporter_for_one_tenant_is_sent_nothing_of_another(tmp_path: Path, peers: list[Downstream]) -> None:
    of_all, of_shop = peers
    exporters = {"otlp/all": exporter(of_all)["otlp"], "otlp/shop": exporter(of_shop, tenants=["shop"])["otlp"]}
    settings: dict[str, Any] = {
        "access": TENANTS,
        "exporters": exporters,
        "telemetry": {"endpoint": "127.0.0.1:0", "export_interval": "100ms"},
        "rules": {"paths": ["builtin:default"]},
    }
    with served(tmp_path, **settings) as server:
        for number, tenant in enumerate(("globex", "shop"), 1):
            request = payload([agent_span(number, 1), tool_span(number, 2, 1, "create_order")], f"agents-of-{tenant}")
            export(server.endpoints["grpc"], request, **{"x-tenant": tenant})
        eventually(lambda: _has(of_all, b"agents-of-globex", _EVALUATIONS), "globex at the exporter of all")
        eventually(lambda: _has(of_shop, b"agents-of-shop", _EVALUATIONS), "shop at its own exporter")
        eventually(lambda: server.metric("tracegrade_exporter_queued_requests", "receive") == 0, "nothing to wait")
        # What it is not sent, it does not keep from being deleted.
        eventually(lambda: _positions(server, "otlp/shop") == _positions(server, "otlp/all"), "equal positions")
    for signal, requests in of_shop.requests.items():
        assert not [request for request in requests if b"globex" in request], signal
    assert not _has(of_shop, b"tracegrade.receiver.accepted_items", {METRICS: b""})  # of the whole installation


# A part of what is made of a judged trace, by signal; in metrics, of its evaluations.
_EVALUATIONS = {
    TRACES: semconv.EVALUATION_IDS.encode(),
    LOGS: semconv.EVALUATION_EVENT.encode(),
    METRICS: b"tracegrade.evaluations",
}


def _has(peer: Downstream, name: bytes, parts: dict[str, bytes]) -> bool:
    """Whether `peer` was sent something of `name` in each of these signals."""
    return all(
        any(name in request and part in request for request in list(peer.requests[signal]))
        for signal, part in parts.items()
    )


def _positions(server: Server, name: str) -> list[int | None]:
    """Of an exporter, in the journal and in that of results."""
    folder = DataFolder(server.data)
    return [Position(path).load() for path in (folder.position(name), folder.position_in("results", name))]
