"""How often one provider is asked: so many requests a minute, and none while it asks us to wait."""

import threading
import time
from collections.abc import Callable


class Stopped(Exception):
    """The run was ended while something waited for its turn."""


class Pace:
    """When the next request to one provider may begin; used by several threads.

    Requests are spread evenly: with 60 a minute, one a second. A burst at the start of each minute would make every
    provider that counts by the second refuse it.
    """

    def __init__(
        self,
        a_minute: int | None,
        stop: threading.Event,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """Begin with a request allowed at once.

        Args:
            a_minute: most requests begun in a minute; None for any number.
            stop: set to end all waiting.
            now: a clock, in s.
            wait: waits for so many s, and says whether `stop` is set; that of `stop` if None.
        """
        self._gap_s = 60 / a_minute if a_minute else 0.0
        self._stop = stop
        self._now = now
        self._wait = wait or stop.wait
        self._lock = threading.Lock()
        self._next_s = now()

    def turn(self) -> None:
        """Wait until a request may begin. Raises `Stopped` when the run ended meanwhile."""
        while True:
            with self._lock:
                now = self._now()
                if (left_s := self._next_s - now) <= 0:
                    self._next_s = now + self._gap_s
                    break
            self.pause(left_s)
        if self._stop.is_set():
            raise Stopped

    def hold(self, for_s: float) -> None:
        """Let no request begin for so long: the provider asked for it."""
        with self._lock:
            self._next_s = max(self._next_s, self._now() + for_s)

    def pause(self, for_s: float) -> None:
        """Wait for so long. Raises `Stopped` when the run ended meanwhile."""
        if self._wait(for_s):
            raise Stopped
