"""The web process as the receive role sees it: started by exec when somebody looks, and again when it ends.

The socket is the receiver's: an address that is taken stops the start, and callers wait in it while the process comes
up. Until the first one it costs nothing.
"""

import asyncio
import logging
import socket
import subprocess
import time
from collections.abc import Sequence

from tracegrade.deliver.route import wait

LOOK_EVERY_S = 0.25
STOP_WITHIN_S = 5.0
SHORT_LIFE_S = 10.0
LONGEST_PAUSE_S = 30.0

logger = logging.getLogger(__name__)


class WebProcess:
    """Keeps the web process running from the first call on."""

    def __init__(self, command: Sequence[str], listening: socket.socket) -> None:
        self._command = [*command, "--listens-on", str(listening.fileno())]
        self._listening = listening
        listening.listen()

    async def run(self, stop: asyncio.Event) -> None:
        """Wait for the first call, start the process, and start it again when it ends, until `stop` is set."""
        pause_s = 0.2
        while await self._is_called(stop):
            started_s = time.monotonic()
            # Not asyncio's: uvloop forks for it, and gRPC minds; this one uses vfork and exec.
            process = subprocess.Popen(self._command, stdin=subprocess.PIPE, pass_fds=[self._listening.fileno()])
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

    async def _is_called(self, stop: asyncio.Event) -> bool:
        """Wait until somebody connects; False when `stop` is set before."""
        loop = asyncio.get_running_loop()
        called = asyncio.Event()
        loop.add_reader(self._listening.fileno(), called.set)
        waits = {asyncio.create_task(called.wait()), asyncio.create_task(stop.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(self._listening.fileno())
            for task in waits:
                task.cancel()
        return not stop.is_set()

    async def _end(self, process: subprocess.Popen[bytes]) -> None:
        try:
            await asyncio.to_thread(process.wait, STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
