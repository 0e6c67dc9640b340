"""The connections of the gRPC server. gRPC itself closes none to make room, so the slowest are closed here.

gRPC counts a connection from its first moment on, and waits for each as long as its settings say: a thousand clients
that say nothing would keep everybody else out. Its sockets are found among the open files, and shut; gRPC sees that as
a client that hung up. Where the system has no ``/proc`` or does not tell when a client last wrote, nothing is closed.
"""

import asyncio
import os
import socket
import stat
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LOOK_EVERY_S = 0.1

_OPEN_FILES = Path("/proc/self/fd")
_ESTABLISHED = 1
# linux/tcp.h, struct tcp_info: tcpi_state, and tcpi_last_data_recv in ms, which counts from the beginning at first.
_STATE = 0
_LAST_DATA_RECEIVED = slice(52, 56)


class GrpcConnections:
    """Keeps the connections to one port below a bound, by closing those that have been silent for longest."""

    def __init__(self, max_connections: int, closed: Callable[[], None]) -> None:
        """Prepare.

        Args:
            max_connections: the bound; there may be more for a moment.
            closed: called for each connection that is closed.
        """
        self.port = 0
        self._max = max_connections
        self._closed = closed
        self._at_work: Counter[str] = Counter()  # by peer, in gRPC's writing

    def works(self, peer: str) -> None:
        """A request of `peer` has come: until `answered` it is the server that is slow."""
        self._at_work[peer] += 1

    def answered(self, peer: str) -> None:
        """It was answered."""
        self._at_work[peer] -= 1
        if self._at_work[peer] <= 0:
            del self._at_work[peer]

    async def run(self) -> None:
        """Make room whenever there are too many, until cancelled."""
        if not hasattr(socket, "TCP_INFO") or not _OPEN_FILES.exists():
            return
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            # Counting is cheap and seldom reaches the bound; only then, sockets are looked at one by one.
            if len(os.listdir(_OPEN_FILES)) > self._max:
                await asyncio.to_thread(self.make_room)

    def make_room(self) -> None:
        """Close the most silent connections beyond the bound, except those that wait for an answer."""
        found: list[tuple[int, socket.socket]] = []
        try:
            for name in os.listdir(_OPEN_FILES):
                connection = self._connection(int(name))
                if connection is not None:
                    found.append((_silent_for_ms(connection), connection))
            found.sort(key=lambda silent: silent[0], reverse=True)
            too_many = len(found) - self._max
            for _, connection in found:
                if too_many <= 0:
                    break
                if _peer(connection) not in self._at_work:
                    too_many -= 1
                    self._closed()
                    _shut(connection)
        finally:
            for _, connection in found:
                connection.close()

    def _connection(self, descriptor: int) -> socket.socket | None:
        """A second descriptor of the connection to our port that `descriptor` is; None when it is anything else."""
        try:
            own = os.dup(descriptor)  # what it is may be closed by gRPC, and its number taken, at any moment
        except OSError:
            return None
        try:
            connection = socket.socket(fileno=own) if stat.S_ISSOCK(os.fstat(own).st_mode) else None
        except OSError:
            connection = None
        if connection is None:
            os.close(own)
            return None
        with suppress(OSError):
            if _is_connection_to(self.port, connection):
                return connection
        connection.close()  # only by its holder, as its number may be reused at once
        return None


def _is_connection_to(port: int, connection: socket.socket) -> bool:
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
        return False
    return connection.getsockname()[1] == port and _tcp_info(connection)[_STATE] == _ESTABLISHED


def _silent_for_ms(connection: socket.socket) -> int:
    return int.from_bytes(_tcp_info(connection)[_LAST_DATA_RECEIVED], "little")


def _tcp_info(connection: socket.socket) -> bytes:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA_RECEIVED.stop)


def _peer(connection: socket.socket) -> str:
    """Its other end, as ``context.peer()`` writes it."""
    try:
        host, port = connection.getpeername()[:2]
    except OSError:
        return ""
    host = host.removeprefix("::ffff:")
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # the client was faster
        connection.shutdown(socket.SHUT_RDWR)
