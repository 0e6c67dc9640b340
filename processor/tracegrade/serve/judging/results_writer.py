"""Makes results durable in the results journal and hands them over to delivery."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from tracegrade.codec.results import encode_result
from tracegrade.journal.errors import JournalRefused
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.signal import Signal
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.pipeline.judged import Judged, JudgedTrace
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.trace_result import result_of
from tracegrade.serve.judging.hand_over import HandOver

_RETRY_S = 0.2
_LOOK_AT_STORE_S = 0.1


class _Unstored(NamedTuple):
    """Results of one judge, up to its ``sequence``, that end at ``end`` in their journal."""

    end: int
    judge: RecordJudge
    sequence: int
    spans: int


class ResultsWriter:
    """The judging thread's side of the results journal.

    A closed trace stays in the judge's memory until the store holds it; this class counts those.
    """

    def __init__(
        self, journal: LocalJournal, hand_over: HandOver, heartbeat: Heartbeat, settings_hash: str, max_spans: int
    ) -> None:
        """`max_spans`: the largest number of spans in closed traces not stored yet; beyond it, judging waits.

        ``wait`` waits so many seconds and says whether to stop; to be replaced where something must go on meanwhile.
        """
        self._journal = journal
        self._hand_over = hand_over
        self._heartbeat = heartbeat
        self._settings_hash = settings_hash
        self._max_spans = max_spans
        self.wait: Callable[[float], bool] = hand_over.stopping.wait
        self._unstored: deque[_Unstored] = deque()
        self._unstored_spans = 0

    @property
    def end(self) -> int:
        """Every result so far is before this position of the results journal."""
        return self._journal.end

    @property
    def stored_to(self) -> int:
        """The store holds every result before this position."""
        return self._hand_over.stored_to

    def append(self, judged: Mapping[RecordJudge, Sequence[Judged]], position: int) -> bool:
        """Make results durable together; waits while their journal is full. False when stopped meanwhile.

        Args:
            judged: what each judge judged, in its order, at least one of each.
            position: what is read up to, for the heartbeat.
        """
        batch, entries = [], []
        for item in chain.from_iterable(judged.values()):
            self._heartbeat.working(item.key[1])
            result = result_of(item, "live", self._settings_hash)
            batch.append(result)
            entries.append(Entry(Signal.RESULTS, Encoding.PROTOBUF, result.trace.tenant, 1, encode_result(result)))
        while True:
            try:
                end = self._heartbeat.beat_until(self._journal.append_all(entries), position)
                break
            except JournalRefused:
                # Sinks are behind, or the disk is full: wait, with heartbeats for the watchdog.
                self._heartbeat.beat(position)
                if self.wait(_RETRY_S):
                    return False
        self._hand_over.add(batch, end)
        for judge, items in judged.items():
            spans = sum(len(item.trace.spans) for item in items if isinstance(item, JudgedTrace))
            self._unstored.append(_Unstored(end, judge, items[-1].sequence, spans))
            self._unstored_spans += spans
        return True

    def wait_for_room(self, position: int) -> bool:
        """Wait until enough closed traces are stored; False when stopped meanwhile. `position` is as in `append`."""
        self.release_stored()
        while self._unstored_spans > self._max_spans:
            self._heartbeat.beat(position)
            if self.wait(_LOOK_AT_STORE_S):
                return False
            self.release_stored()
        return True

    def wait_until_stored(self) -> None:
        """Wait until the store holds every result in the journal, or judging is stopped.

        Raises:
            BaseException: the error that ended delivery.
        """
        while not self._hand_over.stopping.is_set():
            self._heartbeat.beat(0)
            if self._hand_over.wait_until_stored(self._journal.end, _RETRY_S):
                return

    def release_stored(self) -> None:
        """Let judges forget the closed traces that the store holds by now."""
        while self._unstored and self._unstored[0].end <= self._hand_over.stored_to:
            stored = self._unstored.popleft()
            stored.judge.release(stored.sequence)
            self._unstored_spans -= stored.spans

    def forget(self) -> None:
        """Forget all counts: records of the journal were erased, and a new judge without closed traces takes over."""
        self._hand_over.forget()
        self._unstored.clear()
        self._unstored_spans = 0
