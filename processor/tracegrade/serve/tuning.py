"""Settings of the system for processes that serve: how freed memory is kept, how many connections may be open."""

import ctypes
import gc
import logging
import sys
import time

logger = logging.getLogger(__name__)

# Parameters of glibc's mallopt(3), from its malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

_MIB = 1024 * 1024
_OF_ITS_OWN = 32 * _MIB  # the highest value that glibc takes
_KEPT = 64 * _MIB
_ARENAS = 2  # one for the main thread, one for all others, which hardly ever allocate at the same time

# Segments, the store, positions, connections to exporters, and files that libraries open.
BESIDE_CONNECTIONS = 512
GARBAGE_EVERY_S = 60.0
# The time for which a thread may keep the interpreter while others wait. Switching every 5 ms, the default, took about
# 7 % of judging, and sinks can wait.
THREAD_SWITCH_S = 0.05


def keep_freed_memory() -> None:
    """Keep freed memory in the process for later use; call it before there are threads.

    By default, glibc maps every large buffer newly, returns freed memory at once, and gives each of gRPC's threads
    memory of its own: a request of 500 KB then costs 130 page faults, of 1-4 µs each on a virtual machine. At most 64
    MiB of free memory at the end of a heap are kept. Does nothing with another C library.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl does not have it
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _OF_ITS_OWN)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
        mallopt(_M_ARENA_MAX, _ARENAS)


def allow_connections(number: int) -> None:
    """Raise the soft limit of open files so that `number` connections fit; logs when the hard limit forbids it.

    Many systems have a soft limit of 1024, because of programs that use select().
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    wanted = number + BESIDE_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        logger.warning(
            "%d files may be open, connections included, and receivers.otlp allows %d connections; raise the limit "
            "(LimitNOFILE, ulimit -n), or lower max_connections",
            hard,
            number,
        )
        wanted = hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class RareGarbageCollection:
    """Collects cyclic garbage once a minute instead of after a number of allocations.

    Live traces are many objects that live for seconds, and judging makes no cycles: with 25,000 spans in live traces,
    searching them again and again took a quarter of the time. Objects made at the start are never searched again.
    """

    def __init__(self) -> None:
        gc.collect()
        gc.freeze()
        gc.disable()
        self._due_s = time.monotonic() + GARBAGE_EVERY_S

    def collect_when_due(self, now_s: float) -> None:
        """Collect if a minute has passed."""
        if now_s >= self._due_s:
            gc.collect()
            self._due_s = time.monotonic() + GARBAGE_EVERY_S
