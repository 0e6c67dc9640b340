"""Starts and watches the processes that judge: one; or several and one that delivers what all of them judged."""

import asyncio
import logging
from collections.abc import Sequence

from tracegrade.config import Config
from tracegrade.journal.lock import FolderLock
from tracegrade.pipeline.data_folder import DELIVERY, DataFolder
from tracegrade.pipeline.judge_set import JudgeSet
from tracegrade.serve.supervising.judge_process import JudgeProcess
from tracegrade.serve.supervising.supervisor import supervise
from tracegrade.telemetry.metrics import Telemetry

logger = logging.getLogger(__name__)


class JudgeKeeper:
    """Keeps the judges that the settings want; each process is restarted alone."""

    def __init__(self, command: Sequence[str], config: Config, folder: DataFolder, telemetry: Telemetry) -> None:
        """Make it the set in force; nothing is started yet.

        Args:
            command: starts a judge; which one is added.
            config: the settings.
            folder: the data folder.
            telemetry: counts restarts, and says which processes are down.

        Raises:
            JournalLocked: another process keeps the judges of this data folder.
            OSError: the data folder cannot be written.
        """
        self._lock = lock_judges(folder)
        judge_set = put_in_force(folder, config)
        size = judge_set.size
        names = [judge.name for judge in judge_set.judges]
        if size > 1:
            names.append(DELIVERY)
        self._processes = [
            JudgeProcess(command if size == 1 else [*command, "--part", name], folder, config.judge, telemetry, name)
            for name in names
        ]

    @property
    def refused_to_start(self) -> bool:
        """Whether one of them cannot start with these settings."""
        return any(process.refused_to_start for process in self._processes)

    def close(self) -> None:
        """Let another process keep the judges."""
        self._lock.release()

    async def run(self, stop: asyncio.Event) -> None:
        """Keep them running until `stop` is set, or one refuses to start."""
        kept = [asyncio.create_task(supervise(process, stop)) for process in self._processes]
        await asyncio.wait(kept, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        for each in kept:
            await each


def lock_judges(folder: DataFolder) -> FolderLock:
    """The right to say how many judges there are, and to keep them.

    Raises:
        JournalLocked: another process has it.
    """
    return FolderLock(folder.path / "judges.lock", "keeping the judges")


def put_in_force(folder: DataFolder, config: Config) -> JudgeSet:
    """Let as many judges share the traces as the settings want; for the holder of `lock_judges`.

    Raises:
        OSError: the data folder cannot be written.
    """
    judge_set = JudgeSet(folder)
    before, size = judge_set.size, config.judge.worker_count
    judge_set.change(size)
    if before != size and folder.results_journals():
        logger.info("judge.workers is %d now, and was %d: traces that are open are read again", size, before)
    return judge_set
