"""How long a process gives no sign of life, without the time in which it could not give one."""

from pathlib import Path

_PROC = Path("/proc")


class Silence:
    """The silence of one process after another, looked at several times a second.

    The time in which the system had a process wait for a processor does not count: on a machine with more work than
    processors, a judge that was at nothing wrong would be ended, and its start would make the machine busier still. A
    process that sleeps, waits for a lock or is stopped does not wait for a processor, so its time counts; so does the
    time that it computes.
    """

    def __init__(self) -> None:
        self._since: tuple[int, int] | None = None  # the process, and its last sign of life (monotonic)
        self._waited_before_ns = 0

    def lasts_ns(self, pid: int, last_sign_ns: int, now_ns: int) -> int:
        """How long `pid` has been silent at `now_ns`, both times monotonic, after a sign of life at `last_sign_ns`."""
        waited_ns = waited_for_processor_ns(pid)
        if self._since != (pid, last_sign_ns):
            self._since = pid, last_sign_ns
            self._waited_before_ns = waited_ns
        return now_ns - last_sign_ns - (waited_ns - self._waited_before_ns)


def waited_for_processor_ns(pid: int) -> int:
    """How long the main thread of a process could run and had no processor; 0 where the system does not tell."""
    try:
        # On a processor (ns), waiting for one (ns), how many times it got one.
        return int((_PROC / str(pid) / "schedstat").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
