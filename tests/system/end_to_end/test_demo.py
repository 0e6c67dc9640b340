"""What the demo says to type can be typed."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long


def test_the_commands_that_are_shown_work_as_they_are_shown(tmp_path: Path) -> None:
    folder = tmp_path / "my data #1"
    command = [sys.executable, "-m", "tracegrade"]
    demo = subprocess.Popen(
        [*command, "demo", "--data-dir", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert demo.stdout is not None
    shown: list[str] = []
    with demo.stdout:
        try:
            for line in demo.stdout:
                shown.append(line)
                if line.startswith("Metrics:"):
                    break
            typed = [line[14:].strip() for line in shown[-3:-1]]
            environment = {**os.environ, "PATH": "/nowhere"}
            told = [
                subprocess.run(["/bin/sh", "-c", line], env=environment, capture_output=True, text=True)
                for line in typed
            ]
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait()
    assert [shlex.split(line)[:4] for line in typed] == [[*command, "results"], [*command, "why"]]
    assert [found.returncode for found in told] == [0, 0], [found.stderr for found in told]
    assert "order-steps-out-of-order" in told[0].stdout
    assert "trace " in told[1].stdout
