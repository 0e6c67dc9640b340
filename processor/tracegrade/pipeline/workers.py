"""Replay on all cores: this process reads and assembles, workers judge the traces that closed.

Assembly must see all records, in their order and with their clock, and sessions have several traces: both stay here.
The judgement of a trace depends only on the trace, so any worker may make it, and results are given in the order in
which the traces closed: they are the same with any number of workers. Dividing the traces up over
workers that each read the journal would save handing them over, but the bounds on all live traces together would then
cut other traces.

Workers are started afresh, never forked, once there is enough to do, and get work when they are ready: a small input is
judged before that. What is handed over and not answered is bounded, and so is what waits for what closed before it.
"""

import gc
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from threading import Thread
from typing import Any, Generic, TypeAlias, TypeVar

from tracegrade.codec.packed_trace import PackedTrace
from tracegrade.codec.packing import Unreadable
from tracegrade.extract.extract import extract
from tracegrade.judge import judge_extraction, judge_session
from tracegrade.model.errors import CannotTell, TraceGradeError
from tracegrade.model.extraction import Extraction
from tracegrade.pipeline.extracted_traces import ExtractedTrace
from tracegrade.pipeline.judged import Judged, JudgedSession, JudgedTrace
from tracegrade.pipeline.packed import PackedSession, Requirement, Unjudgeable, packed_trace
from tracegrade.pipeline.session_judge import session_of
from tracegrade.rule.prices import Price, cost_by
from tracegrade.rule.reading import RuleReading
from tracegrade.rule.rule_set import RuleSet
from tracegrade.rule.tool_aliases import ToolAliases

T = TypeVar("T")
Packed: TypeAlias = PackedTrace | PackedSession

# A worker takes a second to start, in which this process judges this many.
SPANS_HERE = 30_000
SPANS_A_BATCH = 1_000
_BATCHES_A_WORKER = 2  # one being judged, one waiting
_BATCHES_IN_ORDER = 16  # for each worker; results wait for those of traces that closed before


@dataclass(frozen=True, slots=True)
class ReplayJob(Generic[T]):
    """How traces are judged and shown: plain data, so that a worker does the same as this process.

    ``rules`` is the hash that the rules at ``rule_paths`` must have when they are read again; of those with
    ``rule_ids`` alone, where these are given. ``show`` turns a judged item into its output, None for nothing; it is a
    function of a module, so that a worker finds it too. ``kept`` says which packed traces can be judged; without it all
    can be.
    """

    rule_paths: Sequence[str]
    reading: RuleReading
    rules: str
    run: str
    tool_aliases: Mapping[str, list[str]]
    prices: Mapping[str, Price]
    show: Callable[[Judged], T | None]
    rule_ids: Collection[str] | None = None
    kept: Requirement[T] | None = None


def shown_by_workers(judged: Iterable[Judged | Packed], job: ReplayJob[T], rule_set: RuleSet, jobs: int) -> Iterator[T]:
    """The results of ``job.show`` for `judged`, in its order.

    Args:
        judged: sessions, and traces that are not judged yet (`RecordJudge` without ``judges_traces``), or both packed.
        job: how they are judged and shown.
        rule_set: the rules at ``job.rule_paths``.
        jobs: how many workers there may be.

    Raises:
        CannotTell: a worker was killed, crashed, or found other rules.
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
                spans_here += _span_count(item)
                if (shown := judge_here.shown(item)) is not None:
                    yield shown
                continue
            if isinstance(item, JudgedTrace):
                batch.add(packed_trace(item))
            elif isinstance(item, Packed):
                batch.add(item)
            else:
                batch.shown.append(job.show(item))
            if batch.is_full:
                yield from workers.judge(batch)
                batch = _Batch()
        if workers is not None:
            yield from workers.judge(batch)
            yield from workers.rest()


def shown_here(judged: Iterable[Judged | Packed], job: ReplayJob[T], rule_set: RuleSet) -> Iterator[T]:
    """As `shown_by_workers`, judged in this process."""
    judge_here = _TraceJudge(job, rule_set)
    return (shown for item in judged if (shown := judge_here.shown(item)) is not None)


class _TraceJudge(Generic[T]):
    """Judges traces by a job."""

    def __init__(self, job: ReplayJob[T], rule_set: RuleSet) -> None:
        self._job = job
        self._rule_set = rule_set
        self._tool_name = ToolAliases(job.tool_aliases) if job.tool_aliases else None
        self._cost_of = cost_by(job.prices)

    def shown(self, item: Judged | Packed) -> T | None:
        """The output for `item`; judges it first, unless it is a judged session.

        Raises:
            Unreadable: the spans of a packed trace are damaged, and the job does not say what then.
        """
        if isinstance(item, JudgedSession):
            return self._job.show(item)
        if isinstance(item, PackedSession):
            return self._shown_session(item)
        if isinstance(item, PackedTrace):
            return self._shown_packed(item)
        return self._judge_and_show(item.sequence, extract(item.trace, self._tool_name))

    def _judge_and_show(self, number: int, extraction: Extraction) -> T | None:
        judgement = judge_extraction(extraction, self._rule_set, run=self._job.run, cost_of=self._cost_of)
        return self._job.show(JudgedTrace(number, extraction.trace, judgement))

    def _shown_packed(self, packed: PackedTrace) -> T | None:
        kept = self._job.kept
        if kept is None:
            return self._judge_and_show(packed.number, extract(packed.unpacked(), self._tool_name))
        lacking = (packed.trace_id,)
        try:
            if kept.takes_all or kept.is_enough(packed.filter_hash):
                return self._judge_and_show(packed.number, extract(packed.unpacked(), self._tool_name))
            of = extract(packed.unpacked(), self._tool_name) if kept.asks else None
        except Unreadable as error:
            return kept.left_out(Unjudgeable(packed.number, lacking, (_damage(packed, error),), None))
        return kept.left_out(Unjudgeable(packed.number, lacking, (), of))

    def _shown_session(self, packed: PackedSession) -> T | None:
        kept, lacking = self._job.kept, list(packed.gone)
        extracted, problems = [], []
        for member in packed.traces:
            found = self._extraction_of(member)
            if isinstance(found, str):
                problems.append(found)
                lacking.append(member.trace_id)
                continue
            extracted.append(ExtractedTrace.of(found))
            if kept is not None and not kept.is_enough(found.trace.filter_hash):
                lacking.append(member.trace_id)
        session = session_of(packed.known, packed.close_reason, extracted, self._rule_set.hash, packed.max_calls)
        if kept is not None and (lacking or not session.parts):
            of = session if session.parts else None
            return kept.left_out(Unjudgeable(packed.number, tuple(lacking), tuple(problems), of))
        decisions = judge_session(session, self._rule_set, run=self._job.run, cost_of=self._cost_of)
        return self._job.show(JudgedSession(packed.number, session, decisions))

    def _extraction_of(self, packed: PackedTrace) -> Extraction | str:
        """What is read of a trace, or in which way its spans are damaged."""
        try:
            trace = packed.unpacked()
        except Unreadable as error:
            if self._job.kept is None:
                raise
            return _damage(packed, error)
        return extract(trace, self._tool_name)


def _damage(packed: PackedTrace, error: Unreadable) -> str:
    return f"trace {packed.trace_id.hex()}: {error}"


def _span_count(item: Judged | Packed) -> int:
    """How much work it is to judge `item`."""
    if isinstance(item, JudgedTrace):
        return len(item.trace.spans)
    return item.span_count if isinstance(item, Packed) else 0


@dataclass(slots=True)
class _Batch(Generic[T]):
    """Some traces and sessions, in their order."""

    shown: list[T | None] = field(default_factory=list)  # also None for traces until a worker answers
    places: list[int] = field(default_factory=list)  # of what a worker judges
    packed: list[Packed] = field(default_factory=list)
    spans: int = 0
    answers: "Future[list[T | None]] | None" = None  # of a worker, after the batch was handed over

    @property
    def is_full(self) -> bool:
        """Whether it is time to hand the batch over."""
        return self.spans >= SPANS_A_BATCH or len(self.shown) >= SPANS_A_BATCH

    @property
    def is_judged(self) -> bool:
        """Whether the outputs are known."""
        return self.answers is None or self.answers.done()

    def add(self, packed: Packed) -> None:
        """Add what is to be judged."""
        self.spans += packed.span_count
        self.places.append(len(self.shown))
        self.packed.append(packed)
        self.shown.append(None)

    def hand_over(self, answers: "Future[list[T | None]]") -> None:
        """Let a worker answer; then what was handed over is no longer needed."""
        self.answers = answers
        answers.add_done_callback(lambda done: None if _failed(done) else self.packed.clear())

    def all_shown(self) -> Iterator[T]:
        """The outputs; waits for the worker."""
        if self.answers is not None:
            for place, shown in zip(self.places, self.answers.result(), strict=True):
                self.shown[place] = shown
        return (shown for shown in self.shown if shown is not None)


class _Workers(Generic[T]):
    """The worker processes and their batches, in order."""

    def __init__(self, jobs: int, job: ReplayJob[T]) -> None:
        self._jobs = jobs
        self._in_order: deque[_Batch[T]] = deque()
        others = set(multiprocessing.active_children())
        # Blocked signals stay blocked in the workers: Ctrl-C, which a terminal sends to all, is only for this process.
        resource_tracker.ensure_running()  # would be started with the first worker, and unblock it
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_start, initargs=(job,))
            self._started = [self._pool.submit(_ready) for _ in range(jobs)]  # each starts a process
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        self._processes = [child for child in multiprocessing.active_children() if child not in others]

    def __enter__(self) -> "_Workers[T]":
        if not SPANS_HERE:
            wait(self._started)
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def are_ready(self) -> bool:
        """Whether a worker can take work; once true, it stays true."""
        return any(started.done() for started in self._started)

    def judge(self, batch: _Batch[T]) -> Iterator[T]:
        """Hand `batch` over when a worker has time; gives outputs that are ready by then, in order."""
        if batch.packed:
            self._wait_for_time()
            try:
                batch.hand_over(self._pool.submit(_judge, batch.packed))
            except BrokenProcessPool:
                raise self._ended() from None
        self._in_order.append(batch)
        while self._in_order and (self._in_order[0].is_judged or len(self._in_order) > _BATCHES_IN_ORDER * self._jobs):
            yield from self._first()

    def rest(self) -> Iterator[T]:
        """All outputs not given yet; waits for them."""
        while self._in_order:
            yield from self._first()

    def _wait_for_time(self) -> None:
        """Wait until fewer batches are handed over than the workers can judge next."""
        while len(under_way := self._under_way()) >= _BATCHES_A_WORKER * self._jobs:
            wait([batch.answers for batch in under_way if batch.answers is not None], return_when=FIRST_COMPLETED)

    def _under_way(self) -> list[_Batch[T]]:
        return [batch for batch in self._in_order if not batch.is_judged]

    def _first(self) -> Iterator[T]:
        try:
            shown = self._in_order[0].all_shown()
        except BrokenProcessPool:
            raise self._ended() from None
        self._in_order.popleft()
        return shown

    def _ended(self) -> CannotTell:
        """The error that says how a worker ended, and on what they all worked."""
        self._pool.shutdown(cancel_futures=True)
        codes = [code for process in self._processes if (code := process.exitcode)]
        # When one ends, the pool terminates the others.
        code = next((code for code in codes if code != -signal.SIGTERM), -signal.SIGTERM)
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        failed = [batch for batch in self._in_order if batch.answers is not None and _failed(batch.answers)]
        traces = [packed for batch in failed for packed in batch.packed]
        when = "while it started"
        if traces:
            first, last = traces[0].trace_id.hex(), traces[-1].trace_id.hex()
            when = f"while it judged one of {len(traces)} traces, the first {first}, the last {last}"
        return CannotTell(f"a worker of the replay {how} {when}; --jobs 1 judges without workers and needs less memory")


def _failed(answers: "Future[Any]") -> bool:
    return not answers.cancelled() and answers.exception() is not None


# The functions below run in a worker.

_trace_judge: "_TraceJudge[Any] | TraceGradeError" = TraceGradeError("the worker was not started")


def _start(job: ReplayJob[Any]) -> None:
    """Read the rules once for all batches; an error in them is raised by every job."""
    global _trace_judge
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        rule_set = job.reading.load(job.rule_paths).only(job.rule_ids)
    except TraceGradeError as error:
        _trace_judge = CannotTell(str(error))
        return
    if rule_set.hash == job.rules:
        _trace_judge = _TraceJudge(job, rule_set)
    else:
        _trace_judge = CannotTell("rules changed while the replay began; run it again")
    gc.freeze()


def _end_with_parent() -> None:
    """End with the parent: a killed parent closes nothing, and this process would wait for work for ever."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def _ready() -> None:
    """Returns when the worker is ready."""


def _judge(traces: list[Packed]) -> list[Any]:
    if isinstance(_trace_judge, TraceGradeError):
        raise _trace_judge
    return [_trace_judge.shown(packed) for packed in traces]
