"""A start with closed standard streams, as by some who make daemons."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from build.served import Server
from waiting import eventually

pytestmark = pytest.mark.long


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_serve_works_and_no_file_of_its_own_gets_their_numbers(tmp_path: Path, closed: str) -> None:
    server = Server(tmp_path)
    shell = ["/bin/sh", "-c", f'exec "$0" -m tracegrade serve -c "$1" {closed}']
    process = subprocess.Popen([*shell, sys.executable, str(server.config)])
    try:
        eventually(lambda: any(server.data.glob("*snapshot*")) or process.poll() is not None, "a snapshot of the judge")
        assert process.poll() is None
        assert os.readlink(f"/proc/{process.pid}/fd/2") == os.devnull
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
