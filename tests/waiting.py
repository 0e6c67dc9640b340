"""Waiting for a condition: the one place where tests sleep. None waits for a time.

Between two looks a test sleeps at least twice as long as a look takes, so that dear ones leave the machine to what is
waited for.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

# Just below the bound of the runner, which would not say what for: a wait fails only where nothing will come.
WITHIN_S = 590.0


def eventually(look: Callable[[], Any], what: str = "it", within_s: float = WITHIN_S, every_s: float = 0.005) -> Any:
    """The first true value that `look` gives, asked every so often; fails after `within_s`."""
    deadline = time.monotonic() + within_s
    while (begun := time.monotonic()) < deadline:
        if value := look():
            return value
        time.sleep(max(every_s, 2 * (time.monotonic() - begun)))
    raise AssertionError(f"waited {within_s} s for {what}")


async def eventually_in_loop(look: Callable[[], Any], what: str = "it", within_s: float = WITHIN_S) -> Any:
    """As `eventually`, while the other tasks of the loop go on."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if value := look():
            return value
        await asyncio.sleep(0.002)
    raise AssertionError(f"waited {within_s} s for {what}")
