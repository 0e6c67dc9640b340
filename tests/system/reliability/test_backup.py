"""A backup that is made while a server works has everything that was answered before it, and can be served."""

import subprocess
import sys
from pathlib import Path

import pytest
from reliability.conftest import Report
from reliability.load import count_stored
from reliability.table import Row
from reliability.test_kill import Load, check_stored, wait_until_judging

from build.served import Server, served
from waiting import eventually

pytestmark = pytest.mark.long


def test_what_was_answered_before_a_backup_is_in_it_also_when_one_before_was_killed(
    tmp_path: Path, report: Report
) -> None:
    with served(tmp_path) as server:
        load = Load(server)
        load.start()
        wait_until_judging(server)
        _killed_amid(server, tmp_path / "backup")
        answered = list(load.answered)
        made = server.cli("backup", "-c", str(server.config), "--to", str(tmp_path / "backup"))
        assert made.exit_code == 0, made.stderr
        load.wait_until_answered()
        load.stop()
    (tmp_path / "other").mkdir()
    other = Server(tmp_path / "other")
    brought = other.cli("restore", str(tmp_path / "backup"), "-c", str(other.config))
    assert brought.exit_code == 0, brought.stderr
    other.start()
    try:
        eventually(lambda: count_stored(other) >= len(answered), "the answered traces", 60)
        eventually(lambda: other.metric("tracegrade_spans_open", "judge") == 0, "all to be judged", 60)
        check_stored(other, answered)
        lost = other.metric("tracegrade_spans_total", "judge", fate="dropped")
        assert lost == 0, "what retention had deleted was judged before"
        assert other.canonical("replay") == other.canonical("results", "list", "--limit", "1000000")
    finally:
        other.stop()
    report(Row("backup under load, one killed before it", 2, 0, 0, 0.0, f"{len(answered):,} traces, restored, judged"))


def _killed_amid(server: Server, to: Path) -> None:
    """A backup that ends by kill -9 before it is whole; there is no backup then."""
    code = (
        "import os, signal, shutil, sys\n"
        "from tracegrade.cli import main\n"
        "copied, copy = [], shutil.copyfile\n"
        "def copy_few(*given):\n"
        "    copied.append(given)\n"
        "    if len(copied) == 4: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return copy(*given)\n"
        "shutil.copyfile = copy_few\n"
        "main()\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, "backup", "-c", str(server.config), "--to", str(to)])
    assert killed.returncode == -9
    assert not to.exists()
