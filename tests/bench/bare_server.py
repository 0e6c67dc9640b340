"""The least an OTLP/gRPC server can do. Prints its port.

``sink`` answers, ``parse`` also parses, ``times`` prints at its end when the first request of each first trace came.
"""

import asyncio
import json
import signal
import sys
import time

import grpc
import grpc.aio
import uvloop
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class _Any(grpc.GenericRpcHandler):
    def __init__(self, what: str) -> None:
        self.times: dict[str, float] = {}
        handlers = {"sink": self._take, "parse": self._parse, "times": self._note}
        self._handler = grpc.unary_unary_rpc_method_handler(handlers[what])

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return self._handler

    async def _take(self, request: bytes, context: object) -> bytes:
        return b""

    async def _parse(self, request: bytes, context: object) -> bytes:
        ExportTraceServiceRequest.FromString(request)
        return b""

    async def _note(self, request: bytes, context: object) -> bytes:
        now_s = time.monotonic()
        self.times.setdefault(first_trace(request), now_s)
        return b""


def first_trace(request: bytes) -> str:
    """The id of the first span's trace, in hex."""
    parsed = ExportTraceServiceRequest.FromString(request)
    return next((s.trace_id.hex() for r in parsed.resource_spans for c in r.scope_spans for s in c.spans), "")


async def main() -> None:
    """Serve until terminated."""
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)])
    handler = _Any(sys.argv[1])
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await server.stop(None)
    print(json.dumps(handler.times), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
