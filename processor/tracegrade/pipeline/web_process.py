"""The web process as the receive role sees it: started by exec when somebody looks, and again when it ends.

The socket is the receiver's, and callers wait in it while the process comes up. Until the first one it costs nothing.
An address that is taken, perhaps by what an earlier start left, is tried until it is free: nothing else waits for it.
"""

import asyncio
import logging
import socket
import subprocess
import time
from collections.abc import Sequence

from tracegrade.conditions import Conditions
from tracegrade.deliver.route import wait
from tracegrade.receive.listen import AddressTaken, bound_socket

LOOK_EVERY_S = 0.25
LISTEN_AGAIN_AFTER_S = 2.0
STOP_WITHIN_S = 5.0
SHORT_LIFE_S = 10.0
LONGEST_PAUSE_S = 30.0

logger = logging.getLogger(__name__)


class WebProcess:
    """Keeps the web process running from the first call on."""

    def __init__(self, command: Sequence[str], endpoint: str, conditions: Conditions) -> None:
        self._command = list(command)
        self._endpoint = endpoint
        self._conditions = conditions
        self._listening: socket.socket | None = None

    def listen(self) -> int | None:
        """Listen, unless it is done; the port, None while it is taken.

        Raises:
            ReceiverStartError: the address is none of this machine's.
        """
        if self._listening is None:
            try:
                self._listening = bound_socket("web", self._endpoint)
                self._listening.listen()
            except AddressTaken as error:
                self._conditions.begin("web_port_taken", str(error))
                return None
            self._conditions.end("web_port_taken")
        port: int = self._listening.getsockname()[1]
        return port

    def close(self) -> None:
        """Let go of the address."""
        if self._listening is not None:
            self._listening.close()

    async def run(self, stop: asyncio.Event) -> None:
        """Wait for the first call, start the process, and start it again when it ends, until `stop` is set."""
        while self.listen() is None:
            if await wait(stop, LISTEN_AGAIN_AFTER_S):
                return
        assert self._listening is not None
        listening = self._listening
        pause_s = 0.2
        while await self._is_called(listening, stop):
            started_s = time.monotonic()
            command = [*self._command, "--listens-on", str(listening.fileno())]
            # Not asyncio's: uvloop forks for it, and gRPC minds; this one uses vfork and exec.
            process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listening.fileno()])
            while process.poll() is None and not await wait(stop, LOOK_EVERY_S):
                pass
            assert process.stdin is not None
            process.stdin.close()  # end of file: the process leaves
            if stop.is_set():
                await self._end(process)
                return
            lived_s = time.monotonic() - started_s
            pause_s = 0.2 if lived_s > SHORT_LIFE_S else min(pause_s * 2, LONGEST_PAUSE_S)
            logger.warning("the web process ended (exit code %s); next start in %.1f s", process.returncode, pause_s)
            await wait(stop, pause_s)

    async def _is_called(self, listening: socket.socket, stop: asyncio.Event) -> bool:
        """Wait until somebody connects; False when `stop` is set before."""
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

    async def _end(self, process: subprocess.Popen[bytes]) -> None:
        try:
            await asyncio.to_thread(process.wait, STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
