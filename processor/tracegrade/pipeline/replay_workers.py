"""Replay on all cores: this process reads and assembles, workers judge the traces that closed.

Assembly must see all records, in their order and with their clock, and sessions are made of several traces: both stay
here. What a trace's judgement depends on is in the trace, so any worker may make it, and what comes back is given in
the order in which the traces closed: results are the same whatever the number of workers. Dividing the traces up over
workers that each read the journal would save handing them over, but the bounds on all live traces together would then
cut other traces.

Workers are started afresh, never forked, once there is enough to do, and get work when they are ready: a small input is
judged before that.
"""

import gc
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

from tracegrade.judge import judge
from tracegrade.match.load import load_rules
from tracegrade.match.rule_set import RuleSet
from tracegrade.match.tool_aliases import ToolAliases
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.trace import Trace
from tracegrade.pipeline.record_judge import Judged, JudgedClosing
from tracegrade.store.kept_spans import decode_spans, encode_spans

T = TypeVar("T")

# A worker takes a second to start, in which this process judges that many; none of them for 0.
SPANS_HERE = 30_000
_SPANS_A_BATCH = 1_000
_BATCHES_A_WORKER = 2  # one that it judges, one that waits
_BATCHES_IN_ORDER = 16  # a worker; what was judged waits for what closed before it
_ENDS_WITHIN_S = 5.0

_SPAWN = multiprocessing.get_context("spawn")
_Packed = tuple[Trace, bytes]  # a trace without its spans, and they


class WorkerEnded(TraceGradeError):
    """A worker ended before its work did."""


@dataclass(frozen=True, slots=True)
class ReplayJob(Generic[T]):
    """How traces are judged and what is made of it: plain data, so that a worker does what this process would.

    ``rules`` is the hash that the rules at ``rule_paths`` must have when they are read again. ``show`` makes of what
    was judged what is wanted of it, None for nothing; a function of a module, so that a worker finds it too.
    """

    rule_paths: Sequence[str]
    semantic_model: str | None
    rules: str
    run: str
    tool_aliases: Mapping[str, list[str]]
    show: Callable[[Judged], T | None]


def shown_by_workers(judged: Iterable[Judged], job: ReplayJob[T], rule_set: RuleSet, jobs: int) -> Iterator[T]:
    """What ``job.show`` makes of `judged`, in its order.

    Args:
        judged: sessions, and traces that are not judged yet (`RecordJudge` without ``judges_traces``).
        job: the rest.
        rule_set: the rules at ``job.rule_paths``.
        jobs: how many workers there may be.

    Raises:
        WorkerEnded: a worker was killed, crashed, or found other rules.
    """
    judge_here = _TraceJudge(job, rule_set)
    spans_here = 0
    batch = _Batch[T]()
    with ExitStack() as stack:
        workers: _Workers[T] | None = None
        for item in judged:
            if workers is None and spans_here >= SPANS_HERE:
                workers = stack.enter_context(_Workers(jobs, job))
            if workers is None or not workers.are_ready():
                if isinstance(item, JudgedClosing):
                    spans_here += len(item.trace.spans)
                if (shown := judge_here.shown(item)) is not None:
                    yield shown
                continue
            if isinstance(item, JudgedClosing):
                batch.add_trace(item.trace)
            else:
                batch.add_shown(job.show(item))
            if batch.is_full:
                yield from workers.judge(batch)
                batch = _Batch()
        if workers is not None:
            yield from workers.judge(batch)
            yield from workers.rest()


class _TraceJudge(Generic[T]):
    """Judges traces by a job."""

    def __init__(self, job: ReplayJob[T], rule_set: RuleSet) -> None:
        self._job = job
        self._rule_set = rule_set
        self._tool_name = ToolAliases(job.tool_aliases) if job.tool_aliases else None

    def shown(self, item: Judged) -> T | None:
        """What is shown of `item`; judges it first when it is a trace."""
        if isinstance(item, JudgedClosing):
            judgement = judge(item.trace, self._rule_set, run=self._job.run, tool_name=self._tool_name)
            item = JudgedClosing(item.sequence, item.trace, judgement)
        return self._job.show(item)

    def shown_of_packed(self, packed: _Packed) -> T | None:
        """What is shown of a trace that was handed over."""
        trace, blob = packed
        kept = decode_spans(blob)
        trace = replace(trace, spans=kept.spans, replaced=kept.replaced, log_records=kept.log_records)
        judgement = judge(trace, self._rule_set, run=self._job.run, tool_name=self._tool_name)
        return self._job.show(JudgedClosing(0, trace, judgement))


@dataclass(slots=True)
class _Batch(Generic[T]):
    """Some of what is judged, in its order."""

    shown: list[T | None] = field(default_factory=list)  # None, too, of traces until a worker answers
    places: list[int] = field(default_factory=list)  # of the traces in it
    traces: list[_Packed] = field(default_factory=list)
    spans: int = 0
    is_judged: bool = False

    @property
    def is_full(self) -> bool:
        """Whether it is time to hand it over."""
        return self.spans >= _SPANS_A_BATCH or len(self.shown) >= _SPANS_A_BATCH

    def add_trace(self, trace: Trace) -> None:
        """Add one to be judged."""
        self.spans += len(trace.spans)
        blob = encode_spans(trace.spans, trace.replaced, trace.log_records)
        self.places.append(len(self.shown))
        self.traces.append((replace(trace, spans=[], replaced=[], log_records=[]), blob))
        self.shown.append(None)

    def add_shown(self, shown: T | None) -> None:
        """Add what was judged already."""
        self.shown.append(shown)

    def answer(self, answers: list[T | None]) -> None:
        """What is shown of its traces."""
        for place, shown in zip(self.places, answers, strict=True):
            self.shown[place] = shown
        self.traces.clear()
        self.is_judged = True


class _Worker(Generic[T]):
    """One worker as this process sees it."""

    def __init__(self, job: ReplayJob[T]) -> None:
        self.is_ready = False
        self.batches: deque[_Batch[T]] = deque()  # handed over and not answered
        self.connection, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=work, args=(theirs, job), daemon=True)
        # What is blocked stays so in the worker: Ctrl-C, which a terminal sends to both, is for this process alone.
        resource_tracker.ensure_running()  # would be started with the first worker, and unblock it
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        theirs.close()

    def judge(self, batch: _Batch[T]) -> None:
        """Hand `batch` over."""
        self.batches.append(batch)
        try:
            self.connection.send(batch.traces)
        except OSError:
            raise self._ended() from None

    def receive(self) -> None:
        """Take what it sent; waits for it."""
        try:
            answer: Any = self.connection.recv()
        except (OSError, EOFError):
            raise self._ended() from None
        if isinstance(answer, str):
            raise WorkerEnded(answer)
        if answer is None:
            self.is_ready = True
        else:
            self.batches.popleft().answer(answer)

    def _ended(self) -> WorkerEnded:
        self.process.join(_ENDS_WITHIN_S)
        code = self.process.exitcode
        if code is None:
            how = "closed its connection"
        else:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        traces = [trace for batch in self.batches for trace, _ in batch.traces]
        when = "while it started"
        if traces:
            first, last = traces[0].trace_id.hex(), traces[-1].trace_id.hex()
            when = f"while it judged one of {len(traces)} traces, the first {first}, the last {last}"
        return WorkerEnded(
            f"a worker of the replay {how} {when}; --jobs 1 judges without workers and needs less memory"
        )


class _Workers(Generic[T]):
    """All workers, and what they were given, in its order."""

    def __init__(self, jobs: int, job: ReplayJob[T]) -> None:
        self._jobs = jobs
        self._job = job
        self._workers: list[_Worker[T]] = []
        self._in_order: deque[_Batch[T]] = deque()

    def __enter__(self) -> "_Workers[T]":
        for _ in range(self._jobs):
            self._workers.append(_Worker(self._job))
        while not SPANS_HERE and not all(worker.is_ready for worker in self._workers):
            self._receive()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.connection.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
            worker.process.close()

    def are_ready(self) -> bool:
        """Whether one of them can take work; from then on that stays so."""
        if not any(worker.is_ready for worker in self._workers):
            self._receive(0)
        return any(worker.is_ready for worker in self._workers)

    def judge(self, batch: _Batch[T]) -> Iterator[T]:
        """Hand `batch` over, when somebody has time; gives what is judged by then and next in order."""
        self._in_order.append(batch)
        if batch.traces:
            while len((worker := self._least_busy()).batches) >= _BATCHES_A_WORKER:
                self._receive()
            worker.judge(batch)
        else:
            batch.is_judged = True
        self._receive(0)
        while self._in_order and self._in_order[0].is_judged:
            yield from self._first()
        while len(self._in_order) > _BATCHES_IN_ORDER * self._jobs:
            yield from self._first()

    def rest(self) -> Iterator[T]:
        """All that was not given yet; waits for it."""
        while self._in_order:
            yield from self._first()

    def _first(self) -> Iterator[T]:
        batch = self._in_order[0]
        while not batch.is_judged:
            self._receive()
        self._in_order.popleft()
        return (shown for shown in batch.shown if shown is not None)

    def _least_busy(self) -> _Worker[T]:
        return min((worker for worker in self._workers if worker.is_ready), key=lambda worker: len(worker.batches))

    def _receive(self, timeout_s: float | None = None) -> None:
        """Take what has come; waits for something, at most so long."""
        by_connection = {worker.connection: worker for worker in self._workers}
        for connection in wait(list(by_connection), timeout_s):
            assert isinstance(connection, Connection)
            by_connection[connection].receive()


def work(connection: Connection, job: ReplayJob[Any]) -> None:
    """A worker's life: batches of traces in, what is shown of them out, until the other end is closed."""
    inbox: SimpleQueue[list[_Packed] | None] = SimpleQueue()
    # Always reading: the other side never waits for us to take a batch while we wait for it to take an answer.
    Thread(target=_read, args=(connection, inbox), daemon=True).start()
    try:
        rule_set = load_rules(job.rule_paths, semantic_model=job.semantic_model)
    except TraceGradeError as error:
        connection.send(str(error))
        return
    if rule_set.hash != job.rules:
        connection.send("rules changed while the replay began; run it again")
        return
    trace_judge = _TraceJudge(job, rule_set)
    gc.freeze()
    try:
        connection.send(None)
        while (batch := inbox.get()) is not None:
            connection.send([trace_judge.shown_of_packed(packed) for packed in batch])
    except BrokenPipeError:
        return  # nobody wants to know any more


def _read(connection: Connection, inbox: "SimpleQueue[list[_Packed] | None]") -> None:
    try:
        while True:
            inbox.put(connection.recv())
    except (EOFError, OSError):
        inbox.put(None)
