"""The keeper of the judge, with small stand-ins for the judge."""

import asyncio
import re
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tracegrade.config import JudgeSettings
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.heartbeat import Heartbeat, read_heartbeat
from tracegrade.serve.supervising.judge_process import JudgeProcess
from tracegrade.serve.supervising.supervisor import supervise
from tracegrade.telemetry.metrics import Telemetry
from waiting import eventually, eventually_in_loop

TRACE = bytes(15) + b"\x07"

# Each stand-in notes that it was started, then behaves as its name says.
PREAMBLE = """
import os, signal, sys, time
from pathlib import Path
from tracegrade.pipeline.heartbeat import Heartbeat
folder = Path(sys.argv[1])
with (folder / "starts").open("a") as starts:
    starts.write("x")
beat = Heartbeat(folder / "judge.heartbeat")
"""
HANGS_ON_A_RULE = PREAMBLE + "beat.working(bytes(15) + b'\\x07', 'slow-rule'); time.sleep(60)"
REFUSES_TO_START = PREAMBLE + "sys.exit(2)"
KILLED_ON_A_RULE = PREAMBLE + "beat.working(bytes(15) + b'\\x07', 'fatal-rule'); os.kill(os.getpid(), signal.SIGKILL)"
LEAVES_ON_A_RULE = PREAMBLE + "beat.working(bytes(15) + b'\\x07', 'fatal-rule'); os._exit(3)"
REFUSES_TO_START_AGAIN = PREAMBLE + "sys.exit(1 if (folder / 'starts').read_text() == 'x' else 2)"
FINDS_NO_STORE = PREAMBLE + "sys.exit(75 if (folder / 'starts').read_text() in ('x', 'xx') else 2)"
READS_ON_AND_IS_KILLED = (
    PREAMBLE + "beat.beat(10 * len((folder / 'starts').read_text())); os.kill(os.getpid(), signal.SIGKILL)"
)
READS_AGAIN_AND_IS_KILLED = PREAMBLE + "beat.beat(10); os.kill(os.getpid(), signal.SIGKILL)"
LEAVES_WITH_ITS_PIPE = PREAMBLE + "sys.stdin.read(); (folder / 'left').touch()"


def keep(folder: Path, script: str, until: "asyncio.Event | int", **settings: object) -> tuple[JudgeProcess, Telemetry]:
    """Keep a judge of `script` running until it was started `until` times and ended again, or stopped itself."""
    telemetry = Telemetry("receive")
    command = [sys.executable, "-c", script, str(folder)]
    process = JudgeProcess(command, DataFolder(folder), JudgeSettings(**settings), telemetry)

    async def run() -> None:
        stop = asyncio.Event()
        keeper = asyncio.create_task(supervise(process, stop))
        await eventually_in_loop(
            lambda: (
                keeper.done()
                or ((folder / "starts").exists() and telemetry.value("tracegrade.judge.restarts") >= until)
            ),
        )
        stop.set()
        await keeper

    asyncio.run(asyncio.wait_for(run(), 600))
    return process, telemetry


def test_a_judge_that_hangs_is_ended_and_what_it_hung_on_is_set_aside(tmp_path: Path) -> None:
    _, telemetry = keep(tmp_path, HANGS_ON_A_RULE, 1, hang_timeout="500ms")
    assert telemetry.value("tracegrade.judge.restarts", reason="hung") == 1
    assert DataFolder(tmp_path).set_aside.load().pairs == {(TRACE.hex(), "slow-rule"): "hung"}


@pytest.mark.parametrize(
    ("script", "reason"),
    [(KILLED_ON_A_RULE, "crashed: SIGKILL"), (LEAVES_ON_A_RULE, "crashed: exit code 3")],
    ids=["killed", "left"],
)
def test_one_crash_on_a_rule_sets_nothing_aside_three_do(tmp_path: Path, script: str, reason: str) -> None:
    keep(tmp_path, script, 1)
    assert DataFolder(tmp_path).set_aside.load().pairs == {}
    keep(tmp_path, script, 3)
    assert DataFolder(tmp_path).set_aside.load().pairs == {(TRACE.hex(), "fatal-rule"): reason}


def test_a_judge_that_ends_before_it_works_is_not_blamed_for_what_an_earlier_one_was_at(tmp_path: Path) -> None:
    keep(tmp_path, KILLED_ON_A_RULE, 1)
    keep(tmp_path, "import sys; sys.exit(1)", 3)
    assert DataFolder(tmp_path).set_aside.load().pairs == {}


def test_a_judge_that_cannot_start_as_configured_is_not_started_again(tmp_path: Path) -> None:
    process, telemetry = keep(tmp_path, REFUSES_TO_START, 1)
    assert process.refused_to_start
    assert (tmp_path / "starts").read_text() == "x"
    assert telemetry.value("tracegrade.judge.restarts") == 0


def test_a_judge_that_refuses_to_start_again_is_tried_again_and_ends_nobody_else(tmp_path: Path) -> None:
    process, telemetry = keep(tmp_path, REFUSES_TO_START_AGAIN, 2)
    assert not process.refused_to_start
    assert telemetry.value("tracegrade.judge.restarts", reason="crashed") == 1
    assert telemetry.value("tracegrade.judge.restarts", reason="refused") == 1


def test_a_judge_whose_store_is_away_is_tried_again_and_ends_nobody_else(tmp_path: Path) -> None:
    process, telemetry = keep(tmp_path, FINDS_NO_STORE, 3)
    assert telemetry.value("tracegrade.judge.restarts", reason="not_yet") == 2
    assert telemetry.value("tracegrade.judge.restarts", reason="refused") == 1
    assert not process.refused_to_start
    (condition,) = telemetry.conditions.current()
    assert (condition.name, condition.message) == (
        "judge_down",
        "it cannot start as it is configured; its log says why",
    )


@pytest.mark.parametrize(
    ("script", "pauses"),
    [(READS_ON_AND_IS_KILLED, ["0.2", "0.2", "0.2"]), (READS_AGAIN_AND_IS_KILLED, ["0.2", "0.4", "0.8"])],
    ids=["reads on", "reads the same again"],
)
def test_pauses_before_a_start_grow_while_judges_get_no_further(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, script: str, pauses: list[str]
) -> None:
    keep(tmp_path, script, 3)
    assert re.findall(r"next start in (\S+) s", caplog.text) == pauses


def test_a_judge_that_waits_for_its_store_is_not_said_to_work_again(tmp_path: Path) -> None:
    telemetry, folder = Telemetry("receive"), DataFolder(tmp_path)
    process = JudgeProcess([], folder, JudgeSettings(), telemetry)
    telemetry.conditions.begin("judge_down", "it cannot start yet; its log says why")
    Heartbeat(folder.heartbeat("judge")).beat(0)  # as it does while the server of the store does not answer, for 10 s
    now_ns = time.monotonic_ns()
    process.why_end(now_ns - 15_000_000_000, 0)
    assert telemetry.conditions.holds("judge_down", "")
    process.why_end(now_ns - 40_000_000_000, 0)
    assert not telemetry.conditions.holds("judge_down", "")


def test_stopping_ends_the_pipe_and_the_judge_leaves_by_itself(tmp_path: Path) -> None:
    keep(tmp_path, LEAVES_WITH_ITS_PIPE, 0)
    assert (tmp_path / "left").exists()


def test_a_heartbeat_says_what_is_judged_and_that_nothing_is(tmp_path: Path) -> None:
    path = tmp_path / "judge.heartbeat"
    assert read_heartbeat(path) is None
    heartbeat = Heartbeat(path)
    heartbeat.working(TRACE, "some-rule")
    beat = read_heartbeat(path)
    assert beat is not None
    assert (beat.trace_id, beat.rule_id) == (TRACE.hex(), "some-rule")
    heartbeat.beat(1234)
    later = read_heartbeat(path)
    assert later is not None
    assert (later.position, later.trace_id, later.rule_id) == (1234, None, None)
    assert later.changed_ns >= beat.changed_ns
    heartbeat.close()


BEATS_WITHOUT_A_PAUSE = """
from pathlib import Path; import sys
from tracegrade.pipeline.heartbeat import Heartbeat
heartbeat = Heartbeat(Path(sys.argv[1]))
print("beating", flush=True)
while True:
    heartbeat.working(b"t" * 16, "some-rule")
    heartbeat.beat(1234)
"""


def test_no_beat_is_read_that_was_not_given(tmp_path: Path) -> None:
    path = tmp_path / "judge.heartbeat"
    begun_ns = time.monotonic_ns()
    with subprocess.Popen([sys.executable, "-c", BEATS_WITHOUT_A_PAUSE, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            for _ in range(20_000):
                beat = read_heartbeat(path)
                assert beat is not None
                assert begun_ns < beat.changed_ns <= time.monotonic_ns()  # a time in the past: a judge that hangs
                assert beat.position in (0, 1234)
        finally:
            process.kill()


def test_who_waits_for_a_slow_disk_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.pipeline.heartbeat.BEAT_EVERY_S", 0.01)
    path = tmp_path / "judge.heartbeat"
    heartbeat = Heartbeat(path)
    durable: Future[int] = Future()

    def slow_disk() -> None:
        eventually(lambda: (beat := read_heartbeat(path)) is not None and beat.position == 7)
        durable.set_result(42)

    with ThreadPoolExecutor() as pool:
        disk = pool.submit(slow_disk)
        assert heartbeat.beat_until(durable, 7) == 42
        disk.result()
    refused: Future[int] = Future()
    refused.set_exception(TimeoutError("by the disk itself"))
    with pytest.raises(TimeoutError, match="by the disk itself"):
        heartbeat.beat_until(refused, 7)
    heartbeat.close()


def test_a_judge_that_gets_no_processor_is_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = DataFolder(tmp_path)
    process = JudgeProcess([], folder, JudgeSettings(hang_timeout="30s"), Telemetry("receive"))
    started_ns = time.monotonic_ns()
    Heartbeat(folder.heartbeat("judge")).beat(1)
    waited_ns = 0
    monkeypatch.setattr("tracegrade.serve.supervising.judge_process.waited_for_processor_ns", lambda pid: waited_ns)
    assert process.why_end(started_ns, 1) is None
    later_ns = time.monotonic_ns() + 40_000_000_000
    monkeypatch.setattr("tracegrade.serve.supervising.judge_process.time.monotonic_ns", lambda: later_ns)
    waited_ns = 20_000_000_000
    assert process.why_end(started_ns, 1) is None
    waited_ns = 0
    assert process.why_end(started_ns, 1) == "hung"
