"""The least an OTLP/gRPC server can do: ``sink`` answers, ``parse`` also parses. Prints its port."""

import sys

import grpc
import grpc.aio
import uvloop
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class _Any(grpc.GenericRpcHandler):
    def __init__(self, parse: bool) -> None:
        self._handler = grpc.unary_unary_rpc_method_handler(self._parse if parse else self._take)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return self._handler

    async def _take(self, request: bytes, context: object) -> bytes:
        return b""

    async def _parse(self, request: bytes, context: object) -> bytes:
        ExportTraceServiceRequest.FromString(request)
        return b""


async def main() -> None:
    """Serve until terminated."""
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((_Any(sys.argv[1] == "parse"),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(main())
