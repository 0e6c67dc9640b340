"""An event loop in a thread of its own, beside a main thread that never waits for it; and work done again and again."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from tracegrade.deliver.consumer import wait
from tracegrade.model.errors import TraceGradeError

logger = logging.getLogger(__name__)

Work = Coroutine[Any, Any, object]


class BackgroundLoop:
    """Runs one coroutine in a thread, until it is told to stop."""

    def __init__(
        self,
        name: str,
        main: Callable[[asyncio.Event], Coroutine[Any, Any, None]],
        failed: Callable[[BaseException], object],
    ) -> None:
        """Prepare.

        Args:
            name: of the thread.
            main: gets the event that `stop` sets.
            failed: called, in the thread, with what `main` raises.
        """
        self.loop = asyncio.new_event_loop()
        self._main = main
        self._failed = failed
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def call(self, action: Callable[[], object]) -> None:
        """Have `action` called in the loop; from any thread. Nothing happens once the loop has ended."""
        with suppress(RuntimeError):  # it was closed: it has failed, or was stopped
            self.loop.call_soon_threadsafe(action)

    def stop(self, within_s: float) -> None:
        """Tell it to stop, and wait for its end, at most `within_s` seconds."""
        if self._thread.is_alive():
            self.call(self._stopping.set)
            self._thread.join(within_s)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._main(self._stopping))
        except BaseException as error:
            self._failed(error)
            raise
        finally:
            self.loop.close()


async def run_until(
    stopping: asyncio.Event, halt: asyncio.Event, works: Sequence[Work], wake: Callable[[], object]
) -> None:
    """Run `works` until `stopping` is set or one of them fails; then set `halt`, `wake` them, and wait for all.

    Raises:
        Exception: what one of them raised; a RuntimeError when one ended by itself, which would end all others unseen.
    """
    tasks = [asyncio.create_task(work) for work in works]
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait({stopped, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    ended = [str(task.get_coro()) for task in tasks if task.done()]
    halt.set()
    wake()
    for task in tasks:
        await task  # a failed task raises here and ends the process with its traceback
    if not stopped.done():
        stopped.cancel()
        raise RuntimeError(f"{', '.join(ended)} ended without being told to")


async def every(seconds: float, action: Callable[[], object], stop: asyncio.Event) -> None:
    """Call `action` again and again, at once and then after so many seconds, until `stop` is set."""
    while not stop.is_set():
        action()
        await wait(stop, seconds)


async def repeat(seconds: float, action: Callable[[], Any], stop: asyncio.Event, what: str = "") -> None:
    """Await `action()` every `seconds` until `stop` is set; an error of a disk or service is logged once and passes.

    Args:
        seconds: also before the first time.
        action: what is done.
        stop: ends it.
        what: what fails with an error, for the log.
    """
    said = ""
    while not stop.is_set():
        if not await wait(stop, seconds):
            try:
                await action()
                said = ""
            except (OSError, TraceGradeError) as error:  # no file descriptor left, or a failing disk: receiving goes on
                if said != (said := f"{what}: {error}" if what else str(error)):
                    logger.warning("%s; trying again every %.0f s", said, seconds)
