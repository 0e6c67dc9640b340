import os
import subprocess
import sys
from pathlib import Path

import pytest

from tracegrade.serve.supervising import judge_process
from tracegrade.serve.supervising.judge_process import Silence, waited_for_processor_ns
from waiting import eventually

S = 1_000_000_000


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """How long each process has waited for a processor, to be set by the test."""
    times: dict[int, int] = {}
    monkeypatch.setattr(judge_process, "waited_for_processor_ns", lambda pid: times.get(pid, 0))
    return times


def test_time_in_which_a_process_waits_for_a_processor_does_not_count(waited: dict[int, int]) -> None:
    found = Silence()
    waited[1] = 100 * S  # before the last sign of life
    assert found.lasts_ns(1, 10 * S, 11 * S) == 1 * S
    waited[1] = 125 * S
    assert found.lasts_ns(1, 10 * S, 50 * S) == 15 * S


def test_time_in_which_it_sleeps_or_computes_counts(waited: dict[int, int]) -> None:
    found = Silence()
    assert found.lasts_ns(1, 10 * S, 11 * S) == 1 * S
    assert found.lasts_ns(1, 10 * S, 50 * S) == 40 * S


def test_each_sign_of_life_and_each_process_begins_anew(waited: dict[int, int]) -> None:
    found = Silence()
    found.lasts_ns(1, 10 * S, 11 * S)
    waited[1] = 20 * S
    assert found.lasts_ns(1, 40 * S, 41 * S) == 1 * S
    assert found.lasts_ns(2, 40 * S, 42 * S) == 2 * S
    waited[2] = 5 * S
    assert found.lasts_ns(2, 40 * S, 52 * S) == 7 * S


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system does not tell")
def test_the_system_tells_who_waits_for_a_processor_and_who_sleeps() -> None:
    processor = min(os.sched_getaffinity(0))
    bound = f"import os, time; os.sched_setaffinity(0, [{processor}])\n"
    busy = [subprocess.Popen([sys.executable, "-c", f"{bound}while True: pass"]) for _ in range(2)]
    sleeping = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(3600)"], stdout=-1)
    try:
        assert sleeping.stdout is not None
        sleeping.stdout.readline()
        waited_ns = waited_for_processor_ns(sleeping.pid)
        eventually(lambda: all(waited_for_processor_ns(one.pid) > S // 5 for one in busy), "one to wait for the other")
        assert waited_for_processor_ns(sleeping.pid) - waited_ns < S // 20
    finally:
        for one in (*busy, sleeping):
            one.kill()
            one.wait()
        if sleeping.stdout is not None:
            sleeping.stdout.close()


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    assert waited_for_processor_ns(2**22 + 1) == 0
