import platform
import subprocess
import sys
from textwrap import dedent

import pytest

_PAGES_OF_ONE = 8 * 1024 * 1024 // 4096


def _faults(first: str) -> int:
    """Page faults of making five buffers of 8 MiB when five such were there and freed before."""
    program = f"""
        import resource
        {first}
        for _ in range(4):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            buffers = [b"x" * (8 << 20) for _ in range(5)]
            del buffers
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc: others keep what is freed their own way")
def test_buffers_are_made_of_memory_that_was_freed() -> None:
    assert _faults("pass") > _PAGES_OF_ONE
    assert _faults("from tracegrade.serve.tuning import keep_freed_memory as keep; keep()") < _PAGES_OF_ONE // 8


# In a process of its own, whose limits may be spoilt.
RUN = """
import logging, resource, sys
from tracegrade.serve.tuning import allow_connections
soft, hard, connections = map(int, sys.argv[1:])
logging.basicConfig(stream=sys.stdout, format="%(levelname)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
allow_connections(connections)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of open files")
@pytest.mark.parametrize(
    ("soft", "hard", "connections", "expected"),
    [
        (256, 4096, 1000, ["1512"]),
        (2048, 4096, 1000, ["2048"]),
        (256, 1024, 1000, ["WARNING", "1024"]),
    ],
    ids=["raised", "enough", "as far as it may be"],
)
def test_connections_fit_into_the_limit_of_open_files(
    soft: int, hard: int, connections: int, expected: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, (soft, hard, connections))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == expected
