"""One port for OTLP/gRPC and OTLP/HTTP: a connection's first bytes say which of the two it speaks.

A program that exports has one address, ``OTEL_EXPORTER_OTLP_ENDPOINT``, and often one protocol built in: which of the
two, nobody outside can know. HTTP/2, and so gRPC, begins with a preface that no HTTP/1.1 request begins with (RFC 9113,
section 3.4).
"""

import asyncio
from contextlib import suppress

from tracegrade.receive.listen import bound_socket

_PREFACE = b"PRI"  # "PRI * HTTP/2.0"
_CHUNK_BYTES = 64 * 1024
_LOOPBACK = "127.0.0.1"
FREE_PORT = f"{_LOOPBACK}:0"
"""A port of loopback that nobody else has."""


class SharedPort:
    """Passes each connection on to the gRPC or the HTTP server, both on loopback; runs in the loop that starts it."""

    def __init__(self, listen: str = FREE_PORT) -> None:
        """Listen on nothing yet; `listen` is HOST:PORT, and 0 a free port."""
        self.port = 0
        self._listen = listen
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, grpc_port: int, http_port: int) -> None:
        """Listen, for the servers on these two ports. Raises `TraceGradeError` when nothing can listen there."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None, "a connection is served by a task"
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
            with suppress(OSError, asyncio.CancelledError):  # a peer that hung up, or `stop`
                await _pass_on(reader, writer, grpc_port, http_port)

        listening = bound_socket("--listen", self._listen)
        self.port = listening.getsockname()[1]
        self._server = await asyncio.start_server(connected, sock=listening)

    async def stop(self, grace_s: float) -> None:
        """Take no new connection; those that their clients closed are read to their end, for `grace_s` at most."""
        if self._server is None:
            return
        self._server.close()
        if self._connections:
            _, open_still = await asyncio.wait(self._connections, timeout=grace_s)
            for task in open_still:
                task.cancel()
            if open_still:
                await asyncio.wait(open_still)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, grpc_port: int, http_port: int) -> None:
    """Everything that comes goes to the server, and its answers back, until both sides have ended."""
    try:
        head = b""
        while len(head) < len(_PREFACE) and (more := await reader.read(_CHUNK_BYTES)):
            head += more
        if not head:
            return
        port = grpc_port if head.startswith(_PREFACE) else http_port
        from_server, to_server = await asyncio.open_connection(_LOOPBACK, port)
        try:
            to_server.write(head)
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, to_server))
                both.create_task(_copy(from_server, writer))
        except* OSError:
            pass
        finally:
            to_server.close()
    finally:
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
