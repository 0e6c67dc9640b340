"""Wrong tokens, by the address that they come from."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable

FAILURES = 10
FAILURES_WITHIN_S = 60.0

_MAX_ADDRESSES = 10_000


class WrongTokens:
    """Counts wrong tokens by address: after ten in a minute, the address must wait.

    A request with the right token is never refused; the length of tokens protects them from being guessed.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def add(self, address: str) -> None:
        """Note a wrong token."""
        times = self._times.setdefault(address, deque(maxlen=FAILURES))
        times.append(self._now_s())
        self._times.move_to_end(address)
        if len(self._times) > _MAX_ADDRESSES:
            self._times.popitem(last=False)

    def wait_s(self, address: str) -> float:
        """The time until the next attempt is accepted; 0 for now."""
        times = self._times.get(address)
        if times is None or len(times) < FAILURES:
            return 0.0
        return max(0.0, times[0] + FAILURES_WITHIN_S - self._now_s())
