"""Sets aside what ended the judge: records of the journal, traces, and (trace, rule) pairs.

``set_aside.json`` in the data folder says which, and why; ``set_aside/`` holds the records' requests, as OTLP protobuf
that any tool reads, also when retention has deleted them from the journal. A record or a trace is set aside when it has
ended two judges in a row, a kill -9 of everything included; replay passes over the same ones. `retry` has a record read
again: it goes to the journal's end once more, for the judge alone, since it was forwarded when it came.

A message of Kafka stands for a record, known by the number of its place. Who watches a judge cannot read it, so a judge
keeps the message beside `set_aside` before it reads it after one end (`keep_suspect`).
"""

import fcntl
import gzip
import json
import logging
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tracegrade.display import count
from tracegrade.journal.errors import JournalError
from tracegrade.journal.kafka.place import place_of
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry, Record
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.pipeline.heartbeat import Beat
from tracegrade.telemetry.conditions import Conditions

# One end may have any cause: an operator's kill, a machine without memory. A judge that gets past a suspect clears it;
# if one ends at the same place again, the suspect is the cause.
DEATHS = 2
MAX_PAIRS = 10_000
MAX_SUSPECTS = 100
# Of kept requests; the oldest are deleted first, and their records stay set aside.
MAX_KEPT_BYTES = 1024 * 1024 * 1024

JUDGE = "judge"
"""The name of a judge that is the only one."""
_RECORD = "record "
_TRACE = "trace "
_SUSPECT = ".suspect"
# What has ended one of several judges says which one it was: two that are killed together met no record twice.
_RECORD_OF = re.compile(rf"{_RECORD}(?P<position>\d+)( of (?P<judge>\S+))?")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SetAsideRecord:
    """A journal record that ended the judge: its position and content, and why it was set aside.

    ``read_again_ns`` is when it was appended to the journal to be read again: from then on nothing of it is kept here,
    and the record at ``position`` is still skipped.
    """

    position: int
    end: int
    received_ns: int
    tenant: str
    signal: str  # traces or logs
    items: int  # spans or log records
    reason: str
    set_aside_ns: int
    read_again_ns: int = 0

    @property
    def what(self) -> str:
        """``3 spans``."""
        return count(self.items, "span" if self.signal == "traces" else "log record")


@dataclass(slots=True)
class Aside:
    """Everything set aside at one moment; a ``(trace, "")`` pair is a whole trace, set aside for every rule."""

    pairs: dict[tuple[str, str], str] = field(default_factory=dict)
    records: list[SetAsideRecord] = field(default_factory=list)
    deaths: dict[str, int] = field(default_factory=dict)  # of suspects that are not set aside

    @property
    def positions(self) -> frozenset[int]:
        """The positions of the records that are skipped."""
        return frozenset(record.position for record in self.records)

    def suspects(self, judge: str) -> list[int]:
        """The positions of the records that have ended this judge once; what has ended another one says nothing."""
        found = (_RECORD_OF.fullmatch(name) for name in self.deaths)
        return sorted(int(match["position"]) for match in found if match and (match["judge"] or JUDGE) == judge)

    @property
    def waiting(self) -> list[SetAsideRecord]:
        """The records that were not requested to be read again."""
        return [record for record in self.records if not record.read_again_ns]

    @property
    def traces(self) -> frozenset[bytes]:
        """The ids of traces set aside for every rule."""
        return frozenset(bytes.fromhex(trace_id) for trace_id, rule_id in self.pairs if not rule_id)


class SetAside:
    """What is set aside in one data folder. Any process may read and change it; one change at a time."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "set_aside.json"
        self._journal = folder / "journal"
        self._requests = folder / "set_aside"

    def load(self) -> Aside:
        """Everything set aside; nothing if a power cut damaged the file: what ends a judge is found again."""
        try:
            found: Any = json.loads(self.path.read_text())
        except (FileNotFoundError, ValueError):
            return Aside()
        if isinstance(found, list):  # only pairs, as the first version wrote them
            found = {"pairs": found}
        return Aside(
            {(trace_id, rule_id): reason for trace_id, rule_id, reason in found["pairs"]},
            [SetAsideRecord(**record) for record in found.get("records", ())],
            found.get("deaths", {}),
        )

    def add_pair(self, trace_id: str, rule_id: str, reason: str) -> None:
        """Remember that evaluating this trace by this rule ends a judge; the newest pairs are kept."""
        with self._changing() as aside:
            aside.pairs.setdefault((trace_id, rule_id), reason)

    def note_death(self, beat: Beat, reason: str, judge: str = JUDGE) -> None:
        """Suspect, or set aside, what `beat` names: the last heartbeat of `judge`, which ended, without a rule.

        Raises:
            OSError: the disk refused.
        """
        if beat.record is not None:
            self._note_death_at(beat.record, reason, judge)
        elif beat.trace_id is not None and beat.rule_id is None:
            with self._changing() as aside:
                if self._dies_again(aside, f"{_TRACE}{beat.trace_id}", reason):
                    aside.pairs.setdefault((beat.trace_id, ""), reason)

    def _note_death_at(self, position: int, reason: str, judge: str) -> None:
        name = _record_name(position, judge)
        place = place_of(position)
        record = self._record_at(position) if place is None else self._suspect_at(position)
        with self._changing() as aside:
            if record is None and place is not None:  # its judge keeps it when it comes to it again
                aside.deaths[name] = DEATHS - 1
            elif record is None:  # retention has deleted it, so it is not read again
                aside.deaths.pop(name, None)
            elif position not in aside.positions and self._dies_again(aside, name, reason):
                self._keep(record)
                self._suspect(position).unlink(missing_ok=True)
                aside.records.append(
                    SetAsideRecord(
                        position,
                        record.end,
                        record.received_ns,
                        record.tenant,
                        record.signal.name.lower(),
                        record.items,
                        reason if place is None else f"{reason}; {place}",
                        time.time_ns(),
                    )
                )

    def _dies_again(self, aside: Aside, name: str, reason: str) -> bool:
        deaths = aside.deaths.pop(name, 0) + 1
        if deaths < DEATHS:
            aside.deaths[name] = deaths
            logger.warning("the judge was ended (%s) by %s, which is set aside if it happens again", reason, name)
            return False
        logger.error(
            "%s ended the judge again (%s) and is set aside; 'tracegrade set-aside list' shows it", name, reason
        )
        return True

    def passed(self, position: int, judge: str = JUDGE) -> None:
        """`judge` has read all records before `position`: clear its suspects among them."""
        with self._changing() as aside:
            for suspect in aside.suspects(judge):
                if suspect < position:
                    aside.deaths.pop(_record_name(suspect, judge), None)

    def keep_suspect(self, record: Record) -> None:
        """Keep a message of Kafka that has ended a judge, before it is read again."""
        self._requests.mkdir(exist_ok=True)
        head = [record.received_ns, record.tenant, int(record.signal), record.items]
        self._suspect(record.known_as).write_bytes(json.dumps(head).encode() + b"\n" + record.payload)

    def clear_suspect(self, number: int, judge: str = JUDGE) -> None:
        """`judge` has read the message of Kafka at the place with this number."""
        with self._changing() as aside:
            aside.deaths.pop(_record_name(number, judge), None)
        self._suspect(number).unlink(missing_ok=True)

    def ask_to_retry(self, position: int) -> None:
        """Request that the journal's writer appends the record set aside at `position` again."""
        self._waiting_record(position)
        self._asked(position).touch()

    def is_asked(self, position: int) -> bool:
        """Whether the request was not carried out yet."""
        return self._asked(position).exists()

    def retry(self, append: Callable[[Entry], object]) -> list[SetAsideRecord]:
        """Append requested records to the journal again; `append` returns once they are durable.

        After a kill in between, a record is appended twice, which the judge notices from its spans.
        """
        asked = [record for record in self.load().waiting if self.is_asked(record.position)]
        for record in asked:
            signal = Signal[record.signal.upper()]
            payload = gzip.decompress(self._request(record).read_bytes())
            append(Entry(signal, Encoding.READ_AGAIN, record.tenant, record.items, payload))
            with self._changing() as aside:
                done = replace(record, read_again_ns=time.time_ns())
                aside.records = [done if held.position == record.position else held for held in aside.records]
            self._request(record).unlink(missing_ok=True)
            self._asked(record.position).unlink(missing_ok=True)
        return asked

    def retry_trace(self, trace_id: str) -> None:
        """From now on, judge spans that still come of a trace that was set aside; raises TraceGradeError."""
        with self._changing() as aside:
            if aside.pairs.pop((trace_id, ""), None) is None:
                raise TraceGradeError(f"trace {trace_id} is not set aside; 'tracegrade set-aside list' shows what is")

    def forget(self, first: int) -> None:
        """Forget records that were read again and that the journal, which begins at `first`, no longer holds."""
        if any(record.read_again_ns and record.end <= first for record in self.load().records):
            with self._changing() as aside:
                aside.records = [held for held in aside.records if not held.read_again_ns or held.end > first]

    def erase(self, trace_ids: Collection[bytes], tenant: str | None = None) -> None:
        """Delete the kept requests that name one of these traces: as a whole, since reading them is not safe.

        Of one `tenant`, or of all.
        """
        of_others = {self._request(record) for record in self.load().records if tenant not in (None, record.tenant)}
        for path in set(self._requests.glob("*.pb.gz")) - of_others:
            payload = gzip.decompress(path.read_bytes())
            if any(trace_id in payload for trace_id in trace_ids):
                path.unlink(missing_ok=True)

    def delete_older(self, before_ns: int) -> int:
        """Delete the kept requests that were received before a time; their records stay set aside. Returns how many.

        Raises:
            OSError: the disk refused.
        """
        deleted = 0
        for record in self.load().waiting:
            if record.received_ns < before_ns and (path := self.request_path(record)) is not None:
                path.unlink(missing_ok=True)
                self._asked(record.position).unlink(missing_ok=True)
                deleted += 1
        for suspect in self._requests.glob(f"*{_SUSPECT}"):
            if suspect.stat().st_mtime_ns < before_ns:
                suspect.unlink(missing_ok=True)
        return deleted

    def request_path(self, record: SetAsideRecord) -> Path | None:
        """The file of its request; None when it is no longer kept."""
        path = self._request(record)
        return path if path.exists() else None

    def report(self, conditions: Conditions) -> None:
        """Begin the condition ``record_set_aside`` while something is set aside, else end it."""
        aside = self.load()
        texts = [f"the record at {record.position} ({record.what}): {record.reason}" for record in aside.waiting]
        texts += [f"trace {trace_id}: {reason}" for (trace_id, rule), reason in aside.pairs.items() if not rule]
        more = f", and {len(texts) - 1} more" if len(texts) > 1 else ""
        conditions.say("record_set_aside", f"{texts[-1]}{more}" if texts else None)

    def _waiting_record(self, position: int) -> SetAsideRecord:
        for record in self.load().waiting:
            if record.position == position:
                if self.request_path(record) is None:
                    raise TraceGradeError(f"the record at {position} is no longer kept, and cannot be read again")
                return record
        raise TraceGradeError(f"no record at {position} is set aside; 'tracegrade set-aside list' shows what is")

    def _record_at(self, position: int) -> Record | None:
        try:
            reader = JournalReader(self._journal)
        except JournalError:
            return None
        try:
            found = next(iter(reader.read(position, 1)), None)
        except JournalError:
            return None
        finally:
            reader.close()
        return found if found is not None and found.position == position else None

    def _suspect_at(self, number: int) -> Record | None:
        try:
            head, _, payload = self._suspect(number).read_bytes().partition(b"\n")
            received_ns, tenant, signal, items = json.loads(head)
        except (FileNotFoundError, ValueError):
            return None
        end = number + len(payload)
        return Record(number, end, received_ns, tenant, Signal(signal), Encoding.PROTOBUF, items, payload)

    def _suspect(self, number: int) -> Path:
        return self._requests / f"{number:020d}{_SUSPECT}"

    def _keep(self, record: Record) -> None:
        self._requests.mkdir(exist_ok=True)
        path = self._requests / f"{record.position:020d}.{record.signal.name.lower()}.pb.gz"
        path.write_bytes(gzip.compress(record.payload, 1))
        kept = sorted(self._requests.glob("*.pb.gz"))
        sizes = [other.stat().st_size for other in kept]
        while sum(sizes) > MAX_KEPT_BYTES and len(kept) > 1:
            logger.warning("%s is deleted: more than %d bytes are set aside", kept[0], MAX_KEPT_BYTES)
            kept.pop(0).unlink()
            sizes.pop(0)

    def _request(self, record: SetAsideRecord) -> Path:
        return self._requests / f"{record.position:020d}.{record.signal}.pb.gz"

    def _asked(self, position: int) -> Path:
        return self._requests / f"{position:020d}.retry"

    @contextmanager
    def _changing(self) -> Iterator[Aside]:
        with self.path.with_name("set_aside.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            aside = self.load()
            yield aside
            pairs = [[*pair, reason] for pair, reason in aside.pairs.items()]
            found = {
                "pairs": pairs[-MAX_PAIRS:],
                "records": [asdict(record) for record in aside.records],
                "deaths": dict([*aside.deaths.items()][-MAX_SUSPECTS:]),
            }
            temporary = self.path.with_name(self.path.name + ".tmp")
            temporary.write_text(json.dumps(found))
            temporary.replace(self.path)


def _record_name(position: int, judge: str) -> str:
    return f"{_RECORD}{position}" if judge == JUDGE else f"{_RECORD}{position} of {judge}"
