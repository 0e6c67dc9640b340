"""The journal on local disk: one writer process, any number of readers."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from errno import EDQUOT, ENOSPC
from itertools import chain, pairwise
from pathlib import Path
from typing import Self

from tracegrade.journal.clock import JournalClock
from tracegrade.journal.disk import Disk, sync_folder
from tracegrade.journal.erase import Change, remove_leftovers, rewrite_segment
from tracegrade.journal.errors import FolderGoneError, JournalClosed, JournalFull, JournalUnavailable
from tracegrade.journal.lock import FolderLock
from tracegrade.journal.published import Publisher
from tracegrade.journal.recent import RecentRecords
from tracegrade.journal.record import HEADER_BYTES, MAX_TENANT_BYTES, Entry, Signal, Unreadable, decode_header
from tracegrade.journal.recovery import Recovery, recover
from tracegrade.journal.request import Request, answer
from tracegrade.journal.retention import Consumer, Segment, count_items, decide
from tracegrade.journal.segments import FOLDER_NAME, segment_bases, segment_path
from tracegrade.journal.settings import JournalSettings
from tracegrade.journal.writer import SegmentWriter
from tracegrade.telemetry import Telemetry

TICK_S = 0.05  # how often the published clock moves on without traffic
GAUGES_EVERY_NS = 1_000_000_000
# A bound that is reached and left with every request is one state: it ends when nothing was refused for so long.
QUIET_NS = 3_000_000_000
MAX_WAITING_BYTES = 64 * 1024 * 1024  # appended and not yet durable

_MIB = 1024**2
_GIB = 1024**3


class LocalJournal:
    """The writer's side. Any thread may append; one thread of its own commits everything that waits, together.

    A commit is: one write, one fdatasync, then the end and the clock are published, then the appends are answered.
    ``recovery`` tells what the start found.
    """

    def __init__(
        self,
        folder: Path,
        settings: JournalSettings,
        writer: SegmentWriter,
        disk: Disk,
        publisher: Publisher,
        clock: JournalClock,
        lock: FolderLock,
        recovery: Recovery,
        telemetry: Telemetry,
        name: str,
        clocked: bool,
    ) -> None:
        """Use `open`."""
        self.recovery = recovery
        self._folder = folder
        self._max_bytes = settings.max_bytes
        self._segment_bytes = settings.segment_bytes
        self._max_age_ns = int(settings.max_age * 1e9)
        self._sync_interval_ns = int(settings.sync_interval * 1e9)
        self._writer = writer
        self._disk = disk
        self._publisher = publisher
        self._clock = clock
        self._lock = lock
        self.telemetry = telemetry
        self._name = name
        self._clocked = clocked
        self._wake = threading.Condition(threading.Lock())
        self._waiting: list[Request] = []
        self._waiting_bytes = 0  # with those being committed
        self._calls: list[tuple[Callable[[], None], Future[None]]] = []
        self._closing = False
        self._closed = False
        self._held_by: list[str] = []
        self._trimming = threading.Lock()
        self._gauges_due_ns = 0
        self._sync_due_ns = 0
        self._recent: RecentRecords | None = None
        self._refused: dict[str, tuple[int, int]] = {}  # condition -> when it last refused, monotonic, and what size
        writer.publish(clock.read())
        self._thread = threading.Thread(target=self._run, name=f"{name}-writer", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls,
        folder: Path,
        settings: JournalSettings | None = None,
        now_ns: Callable[[], int] = time.time_ns,
        telemetry: Telemetry | None = None,
        name: str = "journal",
        *,
        consumed: int = 0,
        clocked: bool = True,
        disk: Disk | None = None,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> Self:
        """Take the writer's lock on `folder`, recover what is there, and start committing.

        Args:
            folder: created when missing.
            settings: defaults when omitted.
            now_ns: the time of day.
            telemetry: counts commits, sizes and damage.
            name: the metrics' label ``journal``.
            consumed: the highest position that any consumer has committed; no record is written before it, even when
                a disk that lied, or ``sync: interval``, lost what stood there.
            clocked: readers go by the published clock; without them it moves on with commits, and once a second.
            disk: for tests.
            monotonic_ns: for tests.

        Raises:
            JournalLocked: another process writes here.
            OSError: the folder cannot be used.
        """
        settings = settings or JournalSettings()
        telemetry = telemetry or Telemetry("journal")
        disk = disk or Disk()
        (folder / FOLDER_NAME).mkdir(parents=True, exist_ok=True)
        lock = FolderLock(folder / "lock", f"the journal {name!r}")
        try:
            publisher = Publisher(folder)
            recovery = recover(folder, publisher.last, disk)
            clock = JournalClock(now_ns, monotonic_ns)
            clock.not_before(max(recovery.last_received_ns, publisher.last.clock_ns if publisher.last else 0))
            writer = SegmentWriter(
                folder,
                disk,
                publisher,
                end=max(recovery.end, consumed),
                begun_ns={base: _first_received_ns(folder, base, clock.read()) for base in segment_bases(folder)},
                segment_bytes=settings.segment_bytes,
            )
            writer.sync_every_write = settings.sync == "always"
            if recovery.appendable and writer.end == recovery.end:
                writer.write_on()
            for reason, count in (("torn", recovery.torn_bytes), ("corrupt", recovery.corrupt_bytes)):
                if count:
                    telemetry.add("tracegrade.journal.corrupt_bytes", count, journal=name, reason=reason)
            return cls(folder, settings, writer, disk, publisher, clock, lock, recovery, telemetry, name, clocked)
        except BaseException:
            lock.release()
            raise

    @property
    def end(self) -> int:
        """The durable end: where the next record will begin."""
        return self._writer.end

    @property
    def first(self) -> int:
        """The first position that retention has left; the end when there is no record."""
        bases = self._writer.bases
        return bases[0] if bases else self._writer.end

    def append(self, entry: Entry) -> "Future[int]":
        """Have `entry` written.

        Returns:
            The record's end position, once it is durable. It fails with `JournalFull` or `JournalUnavailable` when the
            disk did not take it.

        Raises:
            JournalRefused: not even tried: full, or closed.
            ValueError: the entry cannot be a record.
        """
        return self.append_all((entry,))

    def append_all(self, entries: Sequence[Entry]) -> "Future[int]":
        """As `append`, for several entries in one commit and one segment: all of them are taken, or none is."""
        future: Future[int] = Future()
        self._enqueue(Request(entries, future))
        return future

    async def appended(self, *entries: Entry) -> int:
        """`append_all` for a coroutine, which goes on once `entries` are durable; returns the last one's end.

        One commit wakes the loop once, however many coroutines wait for it.

        Raises:
            JournalRefused: nothing was taken.
            ValueError: an entry cannot be a record.
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._enqueue(Request(entries, future))
        return await future

    def keep_recent(self, max_bytes: int) -> RecentRecords:
        """Keep the newest records in memory from now on, for readers in this process."""
        self._recent = RecentRecords(max_bytes)
        return self._recent

    def trim(self, consumers: Mapping[str, Consumer]) -> dict[str, Counter[Signal]]:
        """Delete what retention says; call it about once a second, from any one thread that may wait for the disk.

        A segment goes when every consumer is done with it and it is older than ``max_age`` or the journal is above
        seven eighths of ``max_size_mib``. In the latter case it also goes when all consumers that still want it are
        ``drop_oldest``; one ``refuse`` consumer keeps it, and at the bound appends are refused.

        Returns:
            For each consumer that lost something, the items lost by signal.
        """
        with self._trimming:
            if self.telemetry.conditions.holds("data_folder_gone", self._name):
                return {}  # what stands under these names is not ours
            bases = list(self._writer.bases)
            sealed = [Segment(base, following, self._writer.begun_ns[following]) for base, following in pairwise(bases)]
            assert self._publisher.last is not None
            decision = decide(
                sealed,
                self._writer.end,
                consumers,
                expired_ns=self._publisher.last.clock_ns - self._max_age_ns,
                keep_bytes=self._max_bytes * 7 // 8,
            )
            self._held_by = decision.held_by
            lost: dict[str, Counter[Signal]] = {}
            for segment in decision.delete:
                self._count_lost(segment, consumers, lost)
                segment_path(self._folder, segment.base).unlink(missing_ok=True)
                self._writer.bases.remove(segment.base)
                del self._writer.begun_ns[segment.base]
            if decision.delete:
                sync_folder(self._folder / FOLDER_NAME)
            for consumer, state in consumers.items():
                self.telemetry.set("tracegrade.journal.position", state.position, journal=self._name, consumer=consumer)
            return lost

    def erase(self, change: Change) -> int:
        """Have `change` applied to every record that is durable now; from any one thread that may wait for the disk.

        Positions, receive times and counts stay as they are. Readers see the new bytes from the return on; what they
        have read before is theirs. Doing it again after a kill does what is left.

        Returns:
            The number of records changed.

        Raises:
            OSError: the disk refused; some segments may be changed already.
            JournalClosed: shutting down.
        """
        with self._trimming:
            self._in_writer(self._writer.check_in_place)
            self._in_writer(self._end_segment)
            remove_leftovers(self._folder)
            changed = 0
            for base, following in pairwise(list(self._writer.bases)):
                changed += rewrite_segment(self._folder, base, following, change, self._disk)
            self._in_writer(self._show_rewritten)
            if self._recent is not None:
                self._recent.forget()
            return changed

    def close(self) -> None:
        """Commit what waits, refuse what comes later, publish for the last time, give the lock back."""
        if self._closed:
            return
        self._closed = True
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()
        try:
            self._writer.close()
        finally:
            self._publisher.close()
            self._lock.release()

    def _count_lost(
        self, segment: Segment, consumers: Mapping[str, Consumer], lost: dict[str, Counter[Signal]]
    ) -> None:
        behind = {name: state.position for name, state in consumers.items() if state.position < segment.end}
        if behind:
            for name, items in count_items(self._folder, segment, behind).items():
                lost.setdefault(name, Counter()).update(items)

    def _enqueue(self, request: Request) -> None:
        with self._wake:
            if self._closing:
                raise JournalClosed("the journal is shutting down; the sender should retry")
            self._check_room(request.size)
            self._waiting.append(request)
            self._waiting_bytes += request.size
            if len(self._waiting) == 1:
                self._wake.notify()

    def _check_room(self, size: int) -> None:
        waiting = self._waiting_bytes + size
        if waiting > MAX_WAITING_BYTES and self._waiting_bytes:
            found = f"the disk is too slow: {self._waiting_bytes / 1e6:.0f} MB wait to be written"
            self._note_refused("disk_slow", found, size)
            raise JournalFull(f"{found}; the sender should retry")
        if self._used + waiting > self._max_bytes:
            found = _full(self._used, self._max_bytes, self._held_by)
            self._note_refused("journal_full", found, size)
            raise JournalFull(f"{found}; the sender should retry")

    @property
    def _used(self) -> int:
        return self._writer.end - self._writer.bases[0] if self._writer.bases else 0

    def _note_refused(self, condition: str, message: str, size: int) -> None:
        self._refused[condition] = (time.monotonic_ns(), size)
        self.telemetry.conditions.begin(condition, message, self._name)

    def _end_refusals(self, now_ns: int) -> None:
        """End the conditions under which what was refused last would be taken now."""
        for condition, (refused_ns, size) in list(self._refused.items()):
            if time.monotonic_ns() - refused_ns < QUIET_NS:
                continue
            if condition in ("disk_failing", "data_folder_gone"):
                try:
                    self._writer.check_in_place()
                    if condition == "disk_failing":
                        self._writer.probe(max(size, 1), now_ns)
                except OSError:
                    self._refused[condition] = (time.monotonic_ns(), size)
                    continue
            waiting = self._waiting_bytes + size
            if condition == "journal_full" and self._used + waiting > self._max_bytes:
                continue
            if condition == "disk_slow" and waiting > MAX_WAITING_BYTES:
                continue
            del self._refused[condition]
            self.telemetry.conditions.end(condition, self._name)

    def _run(self) -> None:
        """The writer thread; should a bug end it, nobody waits for ever."""
        try:
            self._commit_until_closed()
        finally:
            with self._wake:
                self._closing = True
                left, self._waiting = self._waiting, []
                calls, self._calls = self._calls, []
            answer(left, JournalUnavailable("the journal's writer has ended; restart this process"))
            for _, future in calls:
                future.set_exception(JournalClosed("the journal is shutting down; try again"))

    def _commit_until_closed(self) -> None:
        while True:
            with self._wake:
                if not self._waiting and not self._calls and not self._closing:
                    self._wake.wait(TICK_S if self._clocked or self._writer.unsynced else GAUGES_EVERY_NS / 1e9)
                requests, self._waiting = self._waiting, []
                calls, self._calls = self._calls, []
                closing = self._closing
            for call, future in calls:
                _settle_call(call, future)
            if requests:
                self._commit(requests)
            elif closing:
                self._writer.publish(self._clock.read())
                return
            else:
                self._tick()

    def _commit(self, requests: list[Request]) -> None:
        for run in self._runs(requests):
            size = sum(request.size for request in run)
            error = self._write(run, size)
            with self._wake:
                self._waiting_bytes -= size
            answer(run, error)
        self._tick()

    def _runs(self, requests: list[Request]) -> Iterator[list[Request]]:
        """`requests` in runs, none of which crosses from one segment into the next."""
        run: list[Request] = []
        used = self._writer.segment_used
        for request in requests:
            if run and used + request.size > self._segment_bytes:
                yield run
                run = []
                used = 0
            run.append(request)
            used += request.size
        yield run

    def _write(self, run: list[Request], size: int) -> Exception | None:
        """Make `run` durable and published; the error when the disk did not take it."""
        clock_ns = self._clock.read()
        try:
            buffers: list[bytes] = []
            position = self._writer.end
            for request in run:
                buffers += request.encode(position, clock_ns)
                position = request.end
            self._writer.append(buffers, size, clock_ns)
        except OSError as error:
            return self._refusal(error, size)
        except Exception as error:  # a bug: the thread must live on, the senders must hear of it
            return JournalUnavailable(f"the journal failed: {error!r}; the sender should retry")
        self.telemetry.add("tracegrade.journal.commits", journal=self._name)
        if self._recent is not None:
            self._recent.add(chain.from_iterable([request.records(clock_ns) for request in run]))
        return None

    def _refusal(self, error: OSError, size: int) -> Exception:
        if isinstance(error, FolderGoneError):
            self.telemetry.add("tracegrade.journal.failed_commits", journal=self._name, reason="folder_gone")
            self._note_refused("data_folder_gone", str(error), size)
            return JournalUnavailable(f"{error}; the sender should retry")
        no_room = error.errno in (ENOSPC, EDQUOT)
        self.telemetry.add(
            "tracegrade.journal.failed_commits", journal=self._name, reason="disk_full" if no_room else "disk_error"
        )
        found = f"{self._folder}: the disk {'is full' if no_room else 'failed'} ({error.strerror})"
        self._note_refused("disk_failing", found, size)
        if no_room:
            return JournalFull(f"{found}; make room, the sender should retry")
        return JournalUnavailable(f"{found}; check it, the sender should retry")

    def _tick(self) -> None:
        """What is done with and without traffic: the clock moves on, gauges, old segments end, interval sync."""
        now_ns = self._clock.read()
        try:
            if self._writer.unsynced and now_ns >= self._sync_due_ns:
                self._sync_due_ns = now_ns + self._sync_interval_ns
                self._writer.sync()
            if now_ns >= self._gauges_due_ns:
                self._gauges_due_ns = now_ns + GAUGES_EVERY_NS
                self._set_gauges()
                self._writer.check_in_place()
                self._end_old_segment(now_ns)
                self._end_refusals(now_ns)
        except FolderGoneError as error:
            self._note_refused("data_folder_gone", str(error), 0)
        except OSError as error:
            self._refusal(error, self._refused.get("disk_failing", (0, 0))[1])  # counted; the next write hears of it
        self._writer.publish(now_ns)

    def _set_gauges(self) -> None:
        self.telemetry.set("tracegrade.journal.size", self._used, journal=self._name)
        self.telemetry.set("tracegrade.journal.end", self._writer.end, journal=self._name)

    def _in_writer(self, call: Callable[[], None]) -> None:
        """Have the writer's thread make `call` between two commits; what it raises is raised here."""
        future: Future[None] = Future()
        with self._wake:
            if self._closing:
                raise JournalClosed("the journal is shutting down; try again")
            self._calls.append((call, future))
            self._wake.notify()
        future.result()

    def _end_segment(self) -> None:
        """See to it that all that was written stands in segments that are no longer written."""
        if self._writer.bases and self._writer.end > self._writer.bases[-1]:
            self._writer.begin_segment(self._clock.read())

    def _show_rewritten(self) -> None:
        self._writer.publish_rewritten(self._clock.read())

    def _end_old_segment(self, now_ns: int) -> None:
        """With little traffic, a segment ends after an eighth of ``max_age``, so that its records can be deleted."""
        used = self._writer.segment_used
        if used and now_ns - self._writer.begun_ns[self._writer.bases[-1]] > self._max_age_ns // 8:
            self._writer.begin_segment(now_ns)


def _settle_call(call: Callable[[], None], future: Future[None]) -> None:
    try:
        call()
    except Exception as error:  # the writer's thread must live on; whoever waits hears of it
        future.set_exception(error)
    else:
        future.set_result(None)


def _first_received_ns(folder: Path, base: int, otherwise: int) -> int:
    """When the segment's first record came; `otherwise` when it has none."""
    with segment_path(folder, base).open("rb") as file:
        header = decode_header(file.read(HEADER_BYTES + MAX_TENANT_BYTES), 0, base)
    return otherwise if isinstance(header, Unreadable) else header.received_ns


def _full(used: int, bound: int, held_by: list[str]) -> str:
    unit, name = (_GIB, "GiB") if bound >= _GIB else (_MIB, "MiB")
    sizes = f"{used / unit:.1f} of {bound / unit:.1f} {name}"
    waiting = f", waiting for {', '.join(held_by)}" if held_by else ""
    return f"journal is full ({sizes}, the bound journal.max_size_mib){waiting}"
