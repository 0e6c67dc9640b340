"""The web process as the receive role sees it: it is started at the first call.

The receive role has the socket, and callers wait in it while the process starts. Before the first call it costs
nothing. An address that is taken, perhaps by an earlier web process, is tried until it is free; nothing else waits for
it.
"""

import asyncio
import socket
from collections.abc import Sequence

from tracegrade.deliver.consumer import wait
from tracegrade.receive.listen import AddressTaken, bound_socket
from tracegrade.serve.supervising.supervisor import Ended, Launch, Restart
from tracegrade.telemetry.conditions import Conditions

LISTEN_AGAIN_AFTER_S = 2.0
STOP_WITHIN_S = 5.0


class WebProcess:
    """The web process from the first call on, for the supervisor."""

    def __init__(self, command: Sequence[str], endpoint: str, conditions: Conditions) -> None:
        self._command = list(command)
        self._endpoint = endpoint
        self._conditions = conditions
        self._listening: socket.socket | None = None

    def listen(self) -> int | None:
        """Listen, if not done yet. Returns the port, None while it is taken.

        Raises:
            TraceGradeError: this machine does not have the address.
        """
        if self._listening is None:
            try:
                self._listening = bound_socket("web.endpoint", self._endpoint)
                self._listening.listen()
            except AddressTaken as error:
                self._conditions.begin("web_port_taken", str(error))
                return None
            self._conditions.end("web_port_taken")
        port: int = self._listening.getsockname()[1]
        return port

    def close(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            self._listening.close()

    async def next_launch(self, stop: asyncio.Event) -> Launch | None:
        """The web process, once its port is free and a call comes."""
        while self.listen() is None:
            if await wait(stop, LISTEN_AGAIN_AFTER_S):
                return None
        assert self._listening is not None
        if not await self._is_called(self._listening, stop):
            return None
        descriptor = self._listening.fileno()
        command = [*self._command, "--listens-on", str(descriptor)]
        return Launch("the web process", command, STOP_WITHIN_S, (descriptor,))

    def why_end(self, started_ns: int, pid: int) -> str | None:
        """Never: it may go on."""
        return None

    async def after(self, ended: Ended) -> Restart:
        """It is started again, at the next call."""
        return Restart(ended.reason)

    async def _is_called(self, listening: socket.socket, stop: asyncio.Event) -> bool:
        """Wait until a client connects; False when `stop` is set before."""
        loop = asyncio.get_running_loop()
        called = asyncio.Event()
        loop.add_reader(listening.fileno(), called.set)
        waits = {asyncio.create_task(called.wait()), asyncio.create_task(stop.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(listening.fileno())
            for task in waits:
                task.cancel()
        return not stop.is_set()
