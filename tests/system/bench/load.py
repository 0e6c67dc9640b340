"""The load generator: sends fresh traces over OTLP for a bounded time; prints what was answered, as JSON.

    python tests/system/bench/load.py ENDPOINT [--seconds 10] [--spans 500] [--corpus DIR] [--concurrency 8] [--rate 0]
        [--vary] [--times] [--http] [--header NAME=VALUE]

Generated agent traces, or with --corpus those of real frameworks, all of them in turn, with fresh trace ids each time
round. Prints on this machine's monotonic clock when it began; with --times also when each request was begun, by its
first trace id.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import urllib3

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from bench import captures  # importable by the line above
from bench.agent_traces import SPANS_PER_TRACE, Stamper, marks, templates

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
RETRYABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
RETRY_AFTER_S = 0.2
GIVES_UP_AFTER_S = 60.0

Export = Callable[[bytes], Awaitable[bool]]  # whether it was taken; else it should be sent again


async def main() -> None:
    """Send until the time is over."""
    options = _options()
    requests, trace_ids = _requests(options)
    spans = [captures.span_count(request) for request in requests]
    stamper = Stamper(requests, trace_ids, os.getpid(), varies_words=options.vary)
    transport = _http if options.http else _grpc
    async with transport(options) as export:
        begun = time.monotonic()
        taken = answered = retried = answered_spans = 0
        begun_at: dict[str, float] = {}

        async def sender() -> None:
            nonlocal taken, answered, retried, answered_spans
            while (now := time.monotonic()) < begun + options.seconds:
                if options.rate and (ahead := taken / options.rate - (now - begun)) > 0:
                    await asyncio.sleep(min(ahead, options.seconds))
                    continue
                request, count = stamper.next(), spans[taken % len(spans)]
                taken += 1
                if options.times:
                    begun_at[stamper.first_trace] = time.monotonic()
                while not await export(request):
                    if time.monotonic() > begun + options.seconds + GIVES_UP_AFTER_S:
                        raise SystemExit(
                            f"{options.endpoint}: refused for {GIVES_UP_AFTER_S:.0f} s after the time was over"
                        )
                    retried += 1
                    await asyncio.sleep(RETRY_AFTER_S)
                answered += 1
                answered_spans += count

        await asyncio.gather(*(sender() for _ in range(options.concurrency)))
        took = time.monotonic() - begun
    figures = {"requests": answered, "spans": answered_spans, "seconds": took, "retried": retried, "began_s": begun}
    print(json.dumps(figures | ({"begun": begun_at} if options.times else {})))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint", help="HOST:PORT; with --http the URL to post to")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--spans", type=int, default=500, help="spans a request, about")
    parser.add_argument("--corpus", type=Path, help="a folder of folders of captures to send instead")
    parser.add_argument("--concurrency", type=int, default=8, help="requests under way at a time")
    parser.add_argument("--rate", type=float, default=0, help="requests a second at most; 0: as fast as answered")
    parser.add_argument("--vary", action="store_true", help="other words in each text, each time it is sent")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--http", action="store_true", help="protobuf over HTTP/1.1")
    parser.add_argument("--header", action="append", default=[], help="of HTTP requests")
    return parser.parse_args()


def _requests(options: argparse.Namespace) -> tuple[list[bytes], list[bytes]]:
    """What is sent in turn, and the trace ids that are made fresh in it."""
    if options.corpus is None:
        generated = templates(options.spans)
        return generated, marks(max(1, round(options.spans / SPANS_PER_TRACE)))
    once = captures.read(sorted(folder for folder in options.corpus.iterdir() if folder.is_dir()))
    return captures.joined(once, options.spans), captures.trace_ids(once)


@asynccontextmanager
async def _grpc(options: argparse.Namespace) -> AsyncIterator[Export]:
    limits = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    limits += [("grpc.max_reconnect_backoff_ms", 1000)]  # a server that is killed and started again
    async with grpc.aio.insecure_channel(options.endpoint, options=limits) as channel:
        call = channel.unary_unary(EXPORT)
        await channel.channel_ready()

        async def export(request: bytes) -> bool:
            try:
                await call(request, timeout=30)
            except grpc.aio.AioRpcError as error:
                if error.code() not in RETRYABLE:
                    raise
                return False
            return True

        yield export


@asynccontextmanager
async def _http(options: argparse.Namespace) -> AsyncIterator[Export]:
    headers = {"content-type": "application/x-protobuf"} | dict(one.split("=", 1) for one in options.header)
    with urllib3.PoolManager(maxsize=options.concurrency, headers=headers, retries=False, timeout=30) as pool:

        async def export(request: bytes) -> bool:
            answer = await asyncio.to_thread(pool.request, "POST", options.endpoint, body=request)
            if answer.status not in (429, 502, 503, 504) and answer.status >= 300:
                raise SystemExit(f"{options.endpoint}: {answer.status} {answer.data[:200]!r}")
            return answer.status < 300

        yield export


if __name__ == "__main__":
    asyncio.run(main())
