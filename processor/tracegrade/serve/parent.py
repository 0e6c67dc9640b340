"""Lets a child process notice that its parent has ended: the parent holds the other end of a pipe."""

import os
import sys
import threading
from collections.abc import Callable


def stop_when_parent_ends(stop: Callable[[], object]) -> None:
    """Call `stop`, from a new thread, when standard input ends: in whatever way the parent ends, its end closes."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        stop()

    threading.Thread(target=watch, name="parent", daemon=True).start()
