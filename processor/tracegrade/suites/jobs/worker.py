"""The worker: claims jobs that wait, and runs each in a thread of its own, since they mostly wait for models.

One works on a store at a time; another one waits, and takes over what the first was doing when that ends, however it
ends. Whatever becomes of the clock: who works is decided by a lock, and the times that are written are for people.
"""

import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from tracegrade.config import Config
from tracegrade.model.errors import TraceGradeError
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.store.database import Lock
from tracegrade.store.errors import StoreError
from tracegrade.store.open import one_at_a_time, open_store, reading
from tracegrade.store.registry import database
from tracegrade.suites.jobs.suite_job import JobLost, SuiteJob
from tracegrade.suites.jobs.suite_request import providers_of
from tracegrade.suites.settings import JobsSettings, suites_settings
from tracegrade.suites.store.jobs import UNFINISHED, WAITING, Job, claim, interrupt_running, note, stored_jobs

LOOK_EVERY_S = 0.25
"""How soon a cancelled job ends, and a submitted one begins."""

BEAT_EVERY_S = 2.0
IDLE_S = 10.0
"""A worker without work waits for so long for the next job before it ends."""

_TRY_LOCK_EVERY_S = 1.0
_STOP_WITHIN_S = 3.0

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Running:
    job: Job
    claim_name: str
    work: SuiteJob
    thread: threading.Thread


class Worker:
    """One worker over one store."""

    def __init__(self, config: Config, *, ends_when_idle: bool) -> None:
        """Open the store.

        Args:
            config: the settings.
            ends_when_idle: `run` returns when nothing is to be done.

        Raises:
            StoreError: it cannot be opened, or a judge has yet to bring it up to date: an older one may be using it.
        """
        self._config = config
        self._folder = DataFolder(config.data_path)
        self._engine = open_store(config.store_url)
        self._ends_when_idle = ends_when_idle
        self._stop = threading.Event()
        self.running: dict[tuple[str, str], _Running] = {}
        """What runs here, by tenant and id; read by tests."""
        self._claims = 0
        self._broken: Exception | None = None

    def stop(self) -> None:
        """Ask `run` to return: what runs is interrupted, and goes on with the next worker. Called from any thread."""
        self._stop.set()

    def run(self) -> None:
        """Work until `stop` is called, or nothing is to be done.

        Raises:
            StoreError: the store cannot be read or written; another worker goes on later.
            SQLAlchemyError: the same.
        """
        try:
            while not self._stop.is_set():
                with database(self._engine).alone(self._engine, Lock.JOBS) as is_only:
                    if is_only:
                        self._work()
                        return
                if self._ends_when_idle and self._is_nothing_left():
                    return
                self._stop.wait(_TRY_LOCK_EVERY_S)
        finally:
            self._engine.dispose()

    def _work(self) -> None:
        with self._engine.begin() as connection:
            one_at_a_time(connection)
            if interrupted := interrupt_running(connection, time.time_ns()):
                logger.info("%d jobs go on that an earlier worker did not finish", interrupted)
        beat_s = idle_since_s = time.monotonic()
        try:
            while not self._stop.is_set() and self._broken is None:
                with reading(self._engine) as connection:
                    unfinished = stored_jobs(connection, None, UNFINISHED)
                self._stop_lost(unfinished)
                if next_job(unfinished, suites_settings(self._config).jobs) is not None:
                    self._claim_next()
                now_s = time.monotonic()
                if now_s - beat_s >= BEAT_EVERY_S:
                    beat_s = now_s
                    self._beat()
                if unfinished or self.running:
                    idle_since_s = now_s
                elif self._ends_when_idle and now_s - idle_since_s > IDLE_S and self._is_nothing_left():
                    return
                self._stop.wait(LOOK_EVERY_S)
        finally:
            self._interrupt()
        if self._broken is not None:
            raise self._broken

    def _is_nothing_left(self) -> bool:
        """Whether no job is left; who submits one afterwards asks for a worker again, since its note is taken away."""
        self._folder.jobs_wait.unlink(missing_ok=True)
        with reading(self._engine) as connection:
            if not stored_jobs(connection, None, UNFINISHED, limit=1):
                return True
        self._folder.note_jobs_wait()
        return False

    def _stop_lost(self, unfinished: list[Job]) -> None:
        """Stop what was cancelled or deleted, and forget what has ended."""
        claims = {(job.tenant, job.id): job.worker for job in unfinished if job.state == "running"}
        for key, running in list(self.running.items()):
            if claims.get(key) != running.claim_name:
                running.work.stop()
            if not running.thread.is_alive():
                del self.running[key]

    def _claim_next(self) -> None:
        """Claim the next job; what may begin is looked at again in the transaction, in which no other can claim."""
        name = f"{socket.gethostname()}/{os.getpid()}/{self._claims}"
        now_ns = time.time_ns()
        with self._engine.begin() as connection:
            one_at_a_time(connection)
            job = next_job(stored_jobs(connection, None, UNFINISHED), suites_settings(self._config).jobs)
            # A job that was cancelled and queued again waits until its thread has ended.
            if job is None or (job.tenant, job.id) in self.running or not claim(connection, job, name, now_ns):
                return
        self._claims += 1
        logger.info("job %s begins", job.id)
        work = SuiteJob(job, name, self._engine, self._config)
        thread = threading.Thread(target=self._run, args=(work,), name=f"job {job.id}", daemon=True)
        self.running[job.tenant, job.id] = _Running(job, name, work, thread)
        thread.start()

    def _run(self, work: SuiteJob) -> None:
        """Run one job, in its thread."""
        try:
            try:
                work.run()
            except (JobLost, StoreError, SQLAlchemyError):
                raise
            except TraceGradeError as error:
                logger.info("job %s failed: %s", work.job.id, error)
                work.end("failed", str(error))
            except Exception as error:
                logger.exception("job %s failed", work.job.id)
                work.end("failed", f"an error of TraceGrade, which the worker's log describes: {error!r}")
        except JobLost:
            logger.info("job %s was cancelled, deleted, or taken over", work.job.id)
        except (StoreError, SQLAlchemyError) as error:
            self._broken = error

    def _beat(self) -> None:
        """Note that we live: for the supervisor by the time of a file, for people in the store."""
        self._folder.jobs_beat.touch(mode=0o600)
        if self.running:
            with self._engine.begin() as connection:
                for running in self.running.values():
                    note(connection, running.job, running.claim_name, time.time_ns())

    def _interrupt(self) -> None:
        """Stop all that runs; it goes on with the next worker."""
        for running in self.running.values():
            running.work.stop()
        until_s = time.monotonic() + _STOP_WITHIN_S
        for running in self.running.values():
            running.thread.join(max(0.0, until_s - time.monotonic()))
            with suppress(JobLost, SQLAlchemyError):
                running.work.end("interrupted", "its worker ended")


def next_job(unfinished: Sequence[Job], limits: JobsSettings) -> Job | None:
    """The job to begin; None where none may.

    The first that was submitted comes first, those that were interrupted before all others. One that waits for a
    provider is not overtaken by a later one that asks this provider.
    """
    running = [job for job in unfinished if job.state == "running"]
    if len(running) >= limits.at_a_time:
        return None
    of_tokens = Counter((job.tenant, job.owner) for job in running)
    asked = Counter(provider for job in running for provider in providers_of(job.request))
    taken = {provider for provider, number in asked.items() if number >= limits.of_one_provider}
    waiting = [job for job in unfinished if job.state in WAITING]
    for job in sorted(waiting, key=lambda job: (job.state != "interrupted", job.created_ns, job.id)):
        if of_tokens[job.tenant, job.owner] >= limits.of_one_token:
            continue
        providers = providers_of(job.request)
        if not providers & taken:
            return job
        taken |= providers
    return None
