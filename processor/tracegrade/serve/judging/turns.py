"""The journal of turns: which traces of sessions were stored, told by delivery to the judges of those sessions.

A session may have traces of every one of several judges. It is judged by the one whose share its own id is in, from
the traces that the store holds. So delivery writes a line here for each trace of a session, after it was stored and
before the results journal is passed over: after a kill in between both are done again, which changes nothing. Each
judge has a position here, which it commits when what it made of the turns before is in its results journal.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Sequence

import orjson
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tracegrade.codec.results import erased, is_erased
from tracegrade.deliver.sink import Delivery, Sink
from tracegrade.journal.errors import JournalRefused, SegmentDeleted
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry, Record
from tracegrade.journal.retention import Consumer
from tracegrade.model.signal import Signal
from tracegrade.model.trace_result import TraceResult, TraceSummary
from tracegrade.pipeline.data_folder import DataFolder, Judge
from tracegrade.pipeline.judged import JudgedSession
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.session_judge import Turn
from tracegrade.rule.rule_set import RuleSet
from tracegrade.serve.judging.source import Fetched, Results
from tracegrade.store.open import reading
from tracegrade.store.read import stored_summary

NAME = "turns"
_READ_BYTES = 256 * 1024
_RETRY_S = 1.0
TURNS_EVERY_S = 0.2


def encode_turn(turn: Turn) -> bytes:
    """A record of the journal of turns."""
    found = [turn.tenant, turn.trace_id.hex(), turn.revision, turn.closed_ns, list(turn.sessions)]
    return orjson.dumps(found)


def decode_turn(payload: bytes) -> Turn:
    """What `encode_turn` wrote."""
    tenant, trace_id, revision, closed_ns, sessions = orjson.loads(payload)
    return Turn(tenant, bytes.fromhex(trace_id), revision, closed_ns, sessions)


def may_have_turn(trace: TraceSummary, rules: RuleSet) -> bool:
    """Whether a rule may judge the sessions of a trace: one of those in force, or of others that judged it."""
    return trace.rule_set_hash != rules.hash or "session" in rules.scopes


class TellingSink:
    """The sink into the store, which then tells the judges of sessions what it has stored."""

    def __init__(self, sink: Sink, journal: LocalJournal, store: Engine, rules: Callable[[], RuleSet]) -> None:
        """`rules` gives those in force: under rules none of which is for sessions, nothing is told."""
        self.name = sink.name
        self.when_full = sink.when_full
        self.failing = sink.failing
        self._sink = sink
        self._journal = journal
        self._store = store
        self._rules = rules

    async def deliver(self, batch: Sequence[TraceResult]) -> Delivery:
        """Store `batch`, then tell of what is stored."""
        try:
            turns = await asyncio.to_thread(self._turns, batch)
        except SQLAlchemyError:
            return Delivery("retry", reason="store_unavailable")
        delivery = await self._sink.deliver(batch)
        put_off = {(result.trace.tenant, result.trace.own_id) for result in delivery.rest}
        turns = [turn for turn in turns if (turn.tenant, turn.trace_id) not in put_off]
        if turns and delivery.kind == "done":
            entries = [Entry(Signal.RESULTS, Encoding.PROTOBUF, turn.tenant, 1, encode_turn(turn)) for turn in turns]
            try:
                await self._journal.appended(*entries)
            except JournalRefused:
                return Delivery("retry", "turns_refused", _RETRY_S)
        return delivery

    async def close(self) -> None:
        """Close the sink."""
        await self._sink.close()

    def _turns(self, batch: Sequence[TraceResult]) -> list[Turn]:
        return [turn for result in batch if (turn := self._turn(result.trace)) is not None]

    def _turn(self, trace: TraceSummary) -> Turn | None:
        if trace.members is not None or not may_have_turn(trace, self._rules()):
            return None
        names = list(trace.sessions)
        if trace.supersedes is not None:
            # A session that the trace was part of in its last revision has to be judged without it.
            with reading(self._store) as connection:
                before = stored_summary(connection, trace.tenant, trace.own_id)
            names += [name for name in (before.sessions if before is not None else ()) if name not in names]
        return Turn(trace.tenant, trace.own_id, trace.revision, trace.closed_ns, names) if names else None


class SessionTurns:
    """What one judge reads of the journal of turns."""

    def __init__(self, folder: DataFolder, judge: Judge, clock: Callable[[], int]) -> None:
        """Begin at the committed position.

        Args:
            folder: has the journal.
            judge: whose turns.
            clock: gives a time up to which all turns are in the journal: sessions that ended by then are judged.

        Nothing is opened before turns are read.
        """
        self._folder = folder
        self._reader: JournalReader | None = None
        self._committed = Position(folder.turns_position(judge))
        self._clock = clock
        self._due_s = 0.0
        self.read_to = 0
        self.clock_ns = 0

    def take(self, fetched: Sequence[Fetched], results: Results) -> bool:
        """As in `Sessions`, of the one judge that we are.

        Raises:
            JournalNotFound: there is no journal of turns.
        """
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self._due_s = now_s + TURNS_EVERY_S
            for part in fetched:
                if not results.add(part.judge, self.judged(part.judge)) or not results.append():
                    return False
                self.commit()
        return True

    def judged(self, judge: RecordJudge) -> Iterator[JudgedSession]:
        """The sessions of the turns that have come, and those that have ended."""
        clock_ns = self._clock()  # before turns are read: all up to then are there
        while records := self._next_records():
            for record in records:
                if not is_erased(record.payload):
                    yield from judge.turn(decode_turn(record.payload))
                self.read_to = record.end
        yield from judge.end_sessions(clock_ns)
        self.clock_ns = clock_ns

    def commit(self) -> None:
        """All that was `judged` is durable."""
        if self.read_to != self._committed.load():
            self._committed.commit(self.read_to)

    def close(self) -> None:
        """Close the files."""
        if self._reader is not None:
            self._reader.close()
        self._committed.close()

    def _next_records(self) -> list[Record]:
        if self._reader is None:
            self._reader = JournalReader(self._folder.turns)
            self.read_to = self._committed.load() or 0
        try:
            return self._reader.read(self.read_to, _READ_BYTES)
        except SegmentDeleted as error:
            self.read_to = error.first
            return []


def erase_turns(journal: LocalJournal, trace_ids: Collection[bytes]) -> None:
    """Erase what tells of these traces.

    Raises:
        OSError, JournalError: the disk refused, or the journal is closing; the next try goes on.
    """

    def change(record: Record) -> bytes | None:
        if is_erased(record.payload) or decode_turn(record.payload).trace_id not in trace_ids:
            return None
        return erased(record.payload)

    journal.erase(change)


def trim_turns(journal: LocalJournal, folder: DataFolder, judges: Sequence[Judge]) -> None:
    """Delete what every judge has read."""
    positions = {judge.name: Position(folder.turns_position(judge)).load() or 0 for judge in judges}
    journal.trim({name: Consumer(position, "refuse") for name, position in positions.items()})
