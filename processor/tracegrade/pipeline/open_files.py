"""How many files and connections this process may have open."""

import logging

logger = logging.getLogger(__name__)

# Segments, the store, positions, connections to exporters, and room for what libraries open.
BESIDE_CONNECTIONS = 512


def allow_connections(number: int) -> None:
    """Raise the soft limit of open files so that `number` connections fit; say so when the hard limit forbids it.

    Many systems begin with a soft limit of 1024, for the sake of programs that use select().
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
