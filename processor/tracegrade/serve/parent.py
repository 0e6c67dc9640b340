"""How a child process notices that its parent is gone: it holds the other end of a pipe."""

import os
import sys
import threading
from collections.abc import Callable


def stop_when_parent_ends(stop: Callable[[], object]) -> None:
    """Call `stop`, from a thread of its own, when standard input ends: however the parent ended, its end is closed."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        stop()

    threading.Thread(target=watch, name="parent", daemon=True).start()
