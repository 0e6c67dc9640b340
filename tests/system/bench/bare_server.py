"""The least an OTLP/gRPC server can do. Prints its port.

``sink`` answers, ``parse`` also parses. What came is printed at the end: with ``count`` how many generated spans and
how many of them were different ones, with ``times`` when the first request of each first trace came, with ``results``
when the last carrier span and the last event of each generated trace did.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Iterator

import grpc
import grpc.aio
import uvloop
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

GENERATED = b"bench-agent"  # the scope of generated spans


class _Any(grpc.GenericRpcHandler):
    def __init__(self, what: str) -> None:
        self._times: dict[str, float] = {}
        self._spans = 0
        self._distinct: set[bytes] = set()
        self._came: list[tuple[float, bool, bytes]] = []
        if what == "results":
            self._by_service = {"TraceService": self._keeping(logs=False), "LogsService": self._keeping(logs=True)}
            what = "sink"  # of our own metrics
        else:
            self._by_service = {}
        handlers = {"sink": self._take, "parse": self._parse, "count": self._count, "times": self._note}
        self._otherwise = grpc.unary_unary_rpc_method_handler(handlers[what])

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        service = handler_call_details.method.split("/")[1].rpartition(".")[2]
        return self._by_service.get(service, self._otherwise)

    def found(self) -> dict[str, int] | dict[str, float] | dict[str, dict[str, float]]:
        """What is printed at the end."""
        if self._spans:
            return {"spans": self._spans, "distinct": len(self._distinct)}
        if not self._came:
            return self._times
        last: dict[str, dict[str, float]] = {"carriers": {}, "events": {}}
        for at, logs, request in self._came:  # read only now, so that what is measured has the processor
            trace_ids = _trace_ids_of_logs(request) if logs else _trace_ids(request)
            last["events" if logs else "carriers"].update(dict.fromkeys(trace_ids, at))
        return last

    async def _take(self, request: bytes, context: object) -> bytes:
        return b""

    async def _parse(self, request: bytes, context: object) -> bytes:
        ExportTraceServiceRequest.FromString(request)
        return b""

    async def _count(self, request: bytes, context: object) -> bytes:
        if GENERATED in request:  # neither results nor another signal
            ids = [span.trace_id + span.span_id for span in _spans(request)]
            self._spans += len(ids)
            self._distinct.update(ids)
        return b""

    async def _note(self, request: bytes, context: object) -> bytes:
        now_s = time.monotonic()
        self._times.setdefault(next(_trace_ids(request), ""), now_s)
        return b""

    def _keeping(self, *, logs: bool) -> grpc.RpcMethodHandler:
        async def keep(request: bytes, context: object) -> bytes:
            if GENERATED not in request[:2000]:  # it is not forwarded
                self._came.append((time.monotonic(), logs, request))
            return b""

        return grpc.unary_unary_rpc_method_handler(keep)


def _spans(request: bytes) -> Iterator[Span]:
    parsed = ExportTraceServiceRequest.FromString(request)
    return (span for r in parsed.resource_spans for scope in r.scope_spans for span in scope.spans)


def _trace_ids(request: bytes) -> Iterator[str]:
    return (span.trace_id.hex() for span in _spans(request))


def _trace_ids_of_logs(request: bytes) -> Iterator[str]:
    parsed = ExportLogsServiceRequest.FromString(request)
    return (log.trace_id.hex() for r in parsed.resource_logs for scope in r.scope_logs for log in scope.log_records)


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
    print(json.dumps(handler.found()), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
