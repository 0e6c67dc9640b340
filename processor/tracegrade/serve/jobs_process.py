"""The worker of jobs as the receive role sees it: started when a job was submitted, it ends when none is left."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tracegrade.deliver.consumer import wait
from tracegrade.serve.judge_process import EXIT_NOT_YET
from tracegrade.serve.supervisor import LOOK_EVERY_S, Ended, Launch, Restart

STOP_WITHIN_S = 5.0


class JobsProcess:
    """One worker after another, for the supervisor."""

    def __init__(self, command: Sequence[str], jobs_wait: Path) -> None:
        """Nothing runs yet.

        Args:
            command: of the worker.
            jobs_wait: the file that who submits a job makes, and the worker takes away when it has nothing to do.
        """
        self._launch = Launch("the worker of jobs", command, STOP_WITHIN_S)
        self._jobs_wait = jobs_wait

    async def next_launch(self, stop: asyncio.Event) -> Launch | None:
        """The worker, once there is something to do."""
        while not self._jobs_wait.exists():
            if await wait(stop, LOOK_EVERY_S):
                return None
        return None if stop.is_set() else self._launch

    def why_end(self, started_ns: int) -> str | None:
        """Never: it may go on."""
        return None

    async def after(self, ended: Ended) -> Restart:
        """It is started again, when there is something to do."""
        if ended.exit_code == 0:
            return Restart("done", is_done=True)
        return Restart("not_yet" if ended.exit_code == EXIT_NOT_YET else ended.reason)
