"""The worker of jobs as its supervisor sees it: started when there is something to do, ended when it hangs."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tracegrade.serve.supervising.judge_process import EXIT_NOT_YET, HUNG
from tracegrade.serve.supervising.supervisor import CRASHED, Ended, Launch
from tracegrade.suites.jobs import process as jobs_process
from tracegrade.suites.jobs.process import HANGS_AFTER_S, JobsProcess
from waiting import eventually_in_loop

S = 10**9


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The monotonic clock, set by ``now.s``."""

    class Now:
        s = 1000.0

        def monotonic_ns(self) -> int:
            return round(self.s * S)

    clock = Now()
    monkeypatch.setattr(jobs_process, "time", clock)
    return clock


def process_in(folder: Path) -> JobsProcess:
    return JobsProcess(["worker"], folder / "jobs.wait", folder / "jobs.beat")


def beat(folder: Path, at_ns: int) -> None:
    (folder / "jobs.beat").touch()
    os.utime(folder / "jobs.beat", ns=(at_ns, at_ns))


def launch(child: JobsProcess, stop: asyncio.Event | None = None) -> Launch | None:
    return asyncio.run(child.next_launch(stop or asyncio.Event()))


def test_it_is_started_once_a_job_was_submitted(tmp_path: Path) -> None:
    async def run() -> Launch | None:
        launching = asyncio.create_task(process_in(tmp_path).next_launch(asyncio.Event()))
        await asyncio.wait({launching}, timeout=0.05)
        assert not launching.done()
        (tmp_path / "jobs.wait").touch()
        await eventually_in_loop(launching.done, "the launch")
        return launching.result()

    launched = asyncio.run(run())
    assert launched is not None
    assert launched.command == ["worker"]


def test_without_work_it_is_not_started_before_the_stop(tmp_path: Path) -> None:
    stop = asyncio.Event()
    stop.set()
    assert launch(process_in(tmp_path), stop) is None


def test_a_worker_without_signs_of_life_is_ended_and_one_that_starts_is_not(tmp_path: Path, now: Any) -> None:
    (tmp_path / "jobs.wait").touch()
    beat(tmp_path, 7)  # of an earlier worker
    child = process_in(tmp_path)
    assert launch(child) is not None
    now.s += 10 * HANGS_AFTER_S
    assert child.why_end(0, 0) is None  # it updates a large store, perhaps
    beat(tmp_path, 5)  # whatever the clock says: another time is a sign of life
    assert child.why_end(0, 0) is None
    now.s += HANGS_AFTER_S - 1
    assert child.why_end(0, 0) is None
    beat(tmp_path, 9)
    assert child.why_end(0, 0) is None
    now.s += HANGS_AFTER_S + 1
    assert child.why_end(0, 0) == HUNG
    (tmp_path / "jobs.beat").unlink()
    assert process_in(tmp_path).why_end(0, 0) is None


def test_only_an_end_that_nobody_wanted_is_told(tmp_path: Path) -> None:
    child = process_in(tmp_path)
    ends = [Ended(0, CRASHED, 0), Ended(EXIT_NOT_YET, CRASHED, 0), Ended(-9, CRASHED, 0), Ended(-9, HUNG, 0)]
    told = [asyncio.run(child.after(ended)) for ended in ends]
    assert [(restart.reason, restart.is_done) for restart in told] == [
        ("done", True),
        ("not_yet", False),
        (CRASHED, False),
        (HUNG, False),
    ]
