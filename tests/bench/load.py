"""The load generator: sends fresh agent traces over OTLP/gRPC for a bounded time; prints what was answered.

Arguments: endpoint, traces a request, seconds, requests under way at a time, requests a second (0: no bound), and
``times`` to also print when each request was begun, by its first trace id.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import grpc
import grpc.aio

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.agent_traces import SPANS_PER_TRACE, Stamper, template  # the line above makes it importable

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


async def main() -> None:
    """Send until the time is over."""
    endpoint, traces, seconds, concurrency, rate = sys.argv[1], int(sys.argv[2]), *map(float, sys.argv[3:6])
    stamper = Stamper(template(traces), traces, os.getpid())
    limits = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(endpoint, options=limits) as channel:
        export = channel.unary_unary(EXPORT)
        await channel.channel_ready()
        begun = time.monotonic()
        answered = retried = 0
        keep_times = sys.argv[6:] == ["times"]
        begun_at: dict[str, float] = {}

        async def sender() -> None:
            nonlocal answered, retried
            while (now := time.monotonic()) < begun + seconds:
                if rate and (ahead := answered / rate - (now - begun)) > 0:
                    await asyncio.sleep(min(ahead, seconds))
                    continue
                request = stamper.next()
                if keep_times:
                    begun_at[stamper.first_trace] = time.monotonic()
                while True:
                    try:
                        await export(request, timeout=30)
                    except grpc.aio.AioRpcError as error:
                        if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED):
                            raise
                        retried += 1
                        await asyncio.sleep(0.2)
                    else:
                        break
                answered += 1

        await asyncio.gather(*(sender() for _ in range(int(concurrency))))
        took = time.monotonic() - begun
    spans = answered * traces * SPANS_PER_TRACE
    figures = {"requests": answered, "spans": spans, "seconds": took, "retried": retried}
    print(json.dumps(figures | ({"begun": begun_at} if keep_times else {})))


if __name__ == "__main__":
    asyncio.run(main())
