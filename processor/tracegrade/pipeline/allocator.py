"""How the C library keeps memory, for processes through which large buffers pass all the time."""

import ctypes
import sys

# Parameters of glibc's mallopt(3), from its malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

_MIB = 1024 * 1024
_OF_ITS_OWN = 32 * _MIB  # the highest that glibc takes
_KEPT = 64 * _MIB
_ARENAS = 2  # one for the main thread, one for all others: they hardly ever allocate at the same time


def keep_freed_memory() -> None:
    """Have what is freed stay here for what comes next; call it before there are threads.

    As it comes, glibc maps every large buffer anew, gives back what is freed at once, and each of gRPC's threads has
    memory of its own: a request of 500 KB then costs 130 page faults, of 1-4 µs each on a virtual machine. At most
    64 MiB that are free at the end of a heap stay. Does nothing where the C library is another one.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _OF_ITS_OWN)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
        mallopt(_M_ARENA_MAX, _ARENAS)
