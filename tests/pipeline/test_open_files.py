import subprocess
import sys

import pytest

pytest.importorskip("resource", reason="Windows has no limit of open files")

# In a process of its own, whose limits may be spoilt.
RUN = """
import logging, resource, sys
from tracegrade.pipeline.open_files import allow_connections
soft, hard, connections = map(int, sys.argv[1:])
logging.basicConfig(stream=sys.stdout, format="%(levelname)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
allow_connections(connections)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


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
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == expected
