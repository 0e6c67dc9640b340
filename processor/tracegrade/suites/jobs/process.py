"""The worker of jobs as the receive role sees it: started when a job was submitted, it ends when none is left."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from tracegrade.config import Config
from tracegrade.deliver.consumer import wait
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.serve.process import role_command
from tracegrade.serve.supervising.judge_process import EXIT_NOT_YET, HUNG
from tracegrade.serve.supervising.supervisor import LOOK_EVERY_S, Ended, Launch, Restart

STOP_WITHIN_S = 5.0
HANGS_AFTER_S = 60.0


def worker(config: Config, config_path: Path | None, folder: DataFolder) -> tuple[str, "JobsProcess"]:
    """The worker of jobs over a data folder, for the supervisor, and its name."""
    return "jobs", JobsProcess(role_command("jobs", config, config_path), folder.jobs_wait, folder.jobs_beat)


class JobsProcess:
    """One worker after another, for the supervisor."""

    def __init__(self, command: Sequence[str], jobs_wait: Path, jobs_beat: Path) -> None:
        """Nothing runs yet.

        Args:
            command: of the worker.
            jobs_wait: the file that who submits a job makes, and the worker takes away when it has nothing to do.
            jobs_beat: the file to which the worker gives a new time every few seconds.
        """
        self._launch = Launch("the worker of jobs", command, STOP_WITHIN_S)
        self._jobs_wait = jobs_wait
        self._jobs_beat = jobs_beat
        self._beat = 0  # the time of the file when it was looked at last
        self._changed_ns: int | None = None  # when it was seen to change (monotonic); None: not by this worker

    async def next_launch(self, stop: asyncio.Event) -> Launch | None:
        """The worker, once there is something to do."""
        while not self._jobs_wait.exists():
            if await wait(stop, LOOK_EVERY_S):
                return None
        self._beat, self._changed_ns = self._last_beat(), None
        return None if stop.is_set() else self._launch

    def why_end(self, started_ns: int, pid: int) -> str | None:
        """`HUNG` when a worker that gave signs of life gives none for long: its jobs go on in another one."""
        beat, now_ns = self._last_beat(), time.monotonic_ns()
        if beat != self._beat:
            self._beat, self._changed_ns = beat, now_ns
        if self._changed_ns is None:  # it is starting, or another worker has the store
            return None
        return HUNG if now_ns - self._changed_ns > HANGS_AFTER_S * 1e9 else None

    def _last_beat(self) -> int:
        try:
            return self._jobs_beat.stat().st_mtime_ns
        except OSError:
            return 0

    async def after(self, ended: Ended) -> Restart:
        """It is started again, when there is something to do."""
        if ended.exit_code == 0:
            return Restart("done", is_done=True)
        return Restart("not_yet" if ended.exit_code == EXIT_NOT_YET else ended.reason)
