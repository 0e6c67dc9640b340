"""The journal's clock: the time of day, made to never go back."""

import time
from collections.abc import Callable


class JournalClock:
    """Receive times in ns since 1970 UTC that never decrease, whatever the time of day does.

    While the time of day is earlier than a time already given (it was set back), time goes on from the latter at the
    pace of the monotonic clock: if it stood still, every idle trace would stay open until the time of day caught up.
    """

    def __init__(
        self, now_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._now_ns = now_ns
        self._monotonic_ns = monotonic_ns
        self._last_ns = 0
        self._last_monotonic_ns = monotonic_ns()

    def not_before(self, ns: int) -> None:
        """Never give a time before `ns` again."""
        self._last_ns = max(self._last_ns, ns)

    def read(self) -> int:
        """The time now, at least the last one given."""
        monotonic_ns = self._monotonic_ns()
        elapsed_ns = monotonic_ns - self._last_monotonic_ns
        self._last_monotonic_ns = monotonic_ns
        now_ns = self._now_ns()
        self._last_ns = now_ns if now_ns >= self._last_ns else self._last_ns + elapsed_ns
        return self._last_ns
