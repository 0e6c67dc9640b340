"""Several judges without disk or clock, and what delivers for all of them: kills and restarts wherever a test wants."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from build.harness import NS_PER_S, Store
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.assemble.share import Share, Shares
from tracegrade.codec.results import decode_result, encode_result
from tracegrade.journal.record import Record
from tracegrade.model.session import session_trace_id
from tracegrade.pipeline.judged import Judged
from tracegrade.pipeline.record_judge import Mode, RecordJudge
from tracegrade.pipeline.session_judge import Turn
from tracegrade.pipeline.trace_result import result_of
from tracegrade.rule.rule_set import RuleSet


@dataclass
class Kept:
    """What survives a kill of one judge: its positions, and its results journal with the store's position in it."""

    position: int = 0
    turns_read: int = 0
    results: list[bytes] = field(default_factory=list)
    stored: int = 0
    judged: list[tuple[int, int]] = field(default_factory=list)  # its clock, and how many results there were by then

    @property
    def stored_ns(self) -> int:
        """The store has all of it up to this time."""
        return max((clock_ns for clock_ns, end in self.judged if end <= self.stored), default=0)


class Judges:
    """The processes of one set after another over the same records, as `worker_role` and `delivery_role` do it."""

    def __init__(
        self, rule_set: RuleSet, settings: TracesSettings, of: int, decided_at_once: int | None = None
    ) -> None:
        self.store = Store()
        self._rule_set = rule_set
        self._settings = settings
        self._decided_at_once = decided_at_once
        self._turns: list[Turn] = []
        self._kept = [Kept() for _ in range(of)]
        self._sequences: list[list[int]] = []
        self._read_turns: dict[int, int] = {}
        self.judges: list[RecordJudge] = []
        self._start_all()

    def _start_all(self) -> None:
        self._sequences = [[] for _ in self._kept]
        self.judges = [self._new(number) for number in range(len(self._kept))]

    def _new(self, number: int) -> RecordJudge:
        kept = self._kept[number]
        self.deliver(number)  # nothing is read before the store has all results
        share = Share(number, len(self._kept))
        closed = ClosedTraces(
            self.store.lookup,
            max_unpacked_spans=self._settings.max_unpacked_spans,
            lookup_session=self.store.session,
        )
        mode = Mode(decided_at_once=self._decided_at_once)
        judge = RecordJudge(self._settings, self._rule_set, closed, mode, shares=Shares(share))
        own = [known for known in self.store.sessions_going_on() if share.takes(session_trace_id(*known.key))]
        judge.resume(own)
        judge.read_position = kept.position
        self._sequences[number] = [0] * kept.stored
        self._read_turns[number] = kept.turns_read
        return judge

    def read(self, number: int, journal: Sequence[Record], *, commits: bool = True) -> None:
        """Let one judge read what it has not read of `journal`, which is all that is durable now."""
        judge = self.judges[number]
        for record in journal:
            if record.position >= judge.read_position:
                for judged in judge.read(record):
                    self._append(number, judged)
        self._go_on(number)
        if commits:
            oldest = judge.oldest_position
            self._kept[number].position = judge.read_position if oldest is None else min(oldest, judge.read_position)

    def tick(self, number: int, clock_s: float) -> None:
        judge = self.judges[number]
        for judged in judge.tick(max(judge.clock_ns, round(clock_s * NS_PER_S))):
            self._append(number, judged)
        self._go_on(number)

    def _go_on(self, number: int) -> None:
        for judged in self.judges[number].go_on():
            self._append(number, judged)
        self._judged(number)

    def deliver(self, number: int, most: int | None = None) -> None:
        """Store the next results of one judge, and tell of the traces of sessions among them."""
        kept = self._kept[number]
        end = len(kept.results) if most is None else min(len(kept.results), kept.stored + most)
        while kept.stored < end:
            payload = kept.results[kept.stored]
            head = decode_result(payload).trace
            before = self.store.traces.get((head.tenant, head.own_id))
            self.store.write(payload)
            names = [*head.sessions, *(before.trace.sessions if before is not None else ())]
            if head.members is None and names:
                turn = Turn(head.tenant, head.own_id, head.revision, head.closed_ns, list(dict.fromkeys(names)))
                self._turns.append(turn)
            kept.stored += 1
            if self.judges and number < len(self.judges) and (sequence := self._sequences[number][kept.stored - 1]):
                self.judges[number].release(sequence)

    def take_turns(self, number: int, *, commits: bool = True) -> None:
        """Let one judge judge its sessions."""
        clock_ns = min(kept.stored_ns for kept in self._kept)
        judge = self.judges[number]
        for turn in self._turns[self._read_turns[number] :]:
            for judged in judge.turn(turn):
                self._append(number, judged)
        self._read_turns[number] = len(self._turns)
        for judged in judge.end_sessions(clock_ns):
            self._append(number, judged)
        if commits:
            self._kept[number].turns_read = self._read_turns[number]

    def kill(self, number: int) -> None:
        """One judge is gone; another one of its share starts."""
        self.judges[number] = self._new(number)

    def change(self, of: int) -> None:
        """Everything is gone; `of` judges start, after all that was left is stored."""
        for number in range(len(self._kept)):
            self.deliver(number)
        position = min(kept.position for kept in self._kept)
        turns_read = min(kept.turns_read for kept in self._kept)
        self._kept = [Kept(position, turns_read) for _ in range(of)]
        self.judges = []
        self._start_all()

    def end(self, journal: Sequence[Record], clock_s: float) -> None:
        """Read everything, let everything close and end, and store it."""
        for number in range(len(self.judges)):
            self.read(number, journal)
            self.tick(number, clock_s)
            while self.judges[number].is_judging:
                self._go_on(number)
        for _ in range(3):  # traces, their sessions as they stand, those that ended
            for number in range(len(self.judges)):
                self._judged(number)
                self.deliver(number)
            for number in range(len(self.judges)):
                self.take_turns(number)
        for number in range(len(self.judges)):
            self.deliver(number)

    def _append(self, number: int, judged: Judged) -> None:
        self._kept[number].results.append(encode_result(result_of(judged, "live", "hash")))
        self._sequences[number].append(judged.sequence)

    def _judged(self, number: int) -> None:
        self._kept[number].judged.append((self.judges[number].judged_to_ns, len(self._kept[number].results)))
