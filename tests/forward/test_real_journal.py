"""Forwarding from a real journal to a real gRPC server."""

import asyncio

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracegrade.forward.forwarder import Forwarder
from tracegrade.forward.journal_source import JournalSource
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry
from tracegrade.journal.settings import JournalSettings
from tracegrade.model.signal import Signal
from tracegrade.otlp.client import ExporterSettings, OtlpClient
from tracegrade.telemetry.metrics import Telemetry
from waiting import eventually_in_loop

FUTURE = b"\xa2\x06\x06future"  # field 100, which no version of OTLP has


class Peer(grpc.GenericRpcHandler):
    def __init__(self) -> None:
        self.got: list[bytes] = []

    def service(self, details):
        async def handle(payload, context):
            self.got.append(payload)
            return b""

        return grpc.unary_unary_rpc_method_handler(handle)


def payload(number: int) -> bytes:
    return ExportTraceServiceRequest().SerializeToString() + FUTURE + b"\xaa\x06\x04%04d" % number


def test_what_was_journalled_arrives_byte_for_byte_across_a_restart(tmp_path):
    journal = LocalJournal.open(tmp_path / "journal", JournalSettings())
    recent = journal.keep_recent(200)

    def append(numbers) -> None:
        entries = [Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 1, payload(number)) for number in numbers]
        journal.append_all(entries).result()

    async def forward_until(peer: Peer, count: int, port: int) -> Telemetry:
        settings = ExporterSettings.model_validate({"endpoint": f"127.0.0.1:{port}", "tls": {"insecure": True}})
        client, telemetry = OtlpClient(settings, "instance-7"), Telemetry("receive")
        reader, position = JournalReader(tmp_path / "journal"), Position(tmp_path / "positions" / "otlp")
        source = JournalSource("otlp", reader, position, recent.after)
        forwarder = Forwarder("otlp", settings, client, source, telemetry)
        task = asyncio.create_task(forwarder.run())
        await eventually_in_loop(lambda: len(peer.got) >= count)
        forwarder.stop(5.0)
        await task
        assert position.load() == reader.durable().end
        position.close()
        reader.close()
        await client.close()
        return telemetry

    async def run() -> None:
        peer = Peer()
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers([peer])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        append(range(200))
        first = await forward_until(peer, 200, port)
        append(range(200, 300))
        second = await forward_until(peer, 300, port)
        await server.stop(0)
        assert sorted(peer.got) == [payload(number) for number in range(300)]
        for telemetry, sent in ((first, 200), (second, 100)):
            assert telemetry.value("tracegrade.exporter.sent_requests", exporter="otlp", signal="traces") == sent
            assert telemetry.value("tracegrade.exporter.queued_requests", exporter="otlp") == 0

    try:
        asyncio.run(run())
    finally:
        journal.close()
