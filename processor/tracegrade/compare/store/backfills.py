"""What ``rules backtest --store`` judged afterwards: results of the run ``backfill``, in the rows of live traces.

Each is in the row of the live trace that it judges, after what was judged live, and counts in the minute of that trace.
So it goes with the trace: when that is deleted, by request or by age, and when a higher revision replaces it. A subject
has none where it has a decision of the same rule, by its hash, that was made live. Of each rule there is one backfill:
the next one replaces it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import orjson
from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, insert, or_, select, update

from tracegrade.codec.json_text import rows_to_json
from tracegrade.codec.packing import Unreadable
from tracegrade.codec.results import with_backfilled
from tracegrade.model.evaluation import Decision
from tracegrade.store.database import rows_in
from tracegrade.store.index import Blocks, block_ranges
from tracegrade.store.open import one_at_a_time, reading
from tracegrade.store.read import newest_number
from tracegrade.store.registry import database
from tracegrade.store.schema import (
    BACKFILL,
    BLOCK_TRACES,
    LIVE,
    OUTCOMES,
    SUBJECT_KINDS,
    WHOLE_RULE,
    backfills,
    series,
    traces,
)
from tracegrade.store.series import SeriesNumbers
from tracegrade.store.tallies import CountChanges, counted_minute
from tracegrade.store.write import ResultRows

_BLOCKS_TOGETHER = 3
_READ = (
    traces.c.number,
    traces.c.trace_id,
    traces.c.tenant,
    traces.c.revision,
    traces.c.service,
    traces.c.complete,
    traces.c.last_received_ns,
    traces.c.evaluations,
    traces.c.decisions,
    traces.c.judged,
)


class JudgedAfter(NamedTuple):
    """What rules said of one stored trace, in this revision, after it was judged live."""

    number: int
    trace_id: bytes
    tenant: str
    revision: int
    decisions: Sequence[Decision]


@dataclass(slots=True)
class StoredBackfill:
    """How much was stored.

    ``subjects`` in so many ``traces``. ``judged_live``: subjects without a backfilled result, since the same rule has
    judged them live. ``changed``: traces that were deleted, or got more spans, after they were read, or are damaged.
    """

    subjects: int = 0
    traces: int = 0
    judged_live: int = 0
    changed: int = 0


@dataclass(slots=True)
class BackfillWriter:
    """Stores one backfill of some rules, a few traces in a transaction, so that another writer waits milliseconds.

    A process that was killed leaves it incomplete; to store it again gives the same as if nothing had happened.

    ``rules``: hash by id. ``tenant``: None for all. Times: of its traces, and when it was made, ns since 1970 UTC.
    ``tracegrade``: the version that judged.
    """

    engine: Engine
    rules: Mapping[str, str]
    tenant: str | None
    since_ns: int
    until_ns: int
    made_ns: int
    tracegrade: str
    stored: StoredBackfill = field(default_factory=StoredBackfill)
    _series: SeriesNumbers = field(default_factory=SeriesNumbers)

    def remove_earlier(self) -> Iterator[int]:
        """Remove what was backfilled of these rules before; after each transaction, how many traces are looked at."""
        own = and_(backfills.c.rule_id.in_(self.rules), *self._of_tenant(backfills.c.tenant))
        with self.engine.begin() as connection:
            one_at_a_time(connection)
            connection.execute(delete(backfills).where(own))
        with reading(self.engine) as connection:
            wholes = self._numbers(connection, series.c.run == BACKFILL, series.c.evaluation == WHOLE_RULE)
            high = newest_number(connection)
            ranges = list(block_ranges(connection, wholes, range(len(OUTCOMES)), 0, high))
        left = iter(ranges)
        while some := list(islice(left, _BLOCKS_TOGETHER)):
            self._in_transaction(partial(self._remove, some))
            yield len(some) * BLOCK_TRACES

    def write(self, batch: Sequence[JudgedAfter]) -> None:
        """Store what was said of some traces, in one transaction.

        Raises:
            SQLAlchemyError: the database refused; nothing of `batch` was stored.
        """
        with reading(self.engine) as connection:
            rows = self._trace_rows(connection, batch)
        known = [(rows[judged.number], judged.decisions) for judged in batch if judged.number in rows]
        self._series.prepare(self.engine)
        while missing := dict(chain.from_iterable(self._rows_of(*each).missing.items() for each in known)):
            self._series.learn(self.engine, missing)
        self._in_transaction(partial(self._write, batch))

    def finish(self) -> None:
        """Note that all is stored."""
        own = and_(backfills.c.rule_id.in_(self.rules), backfills.c.made_ns == self.made_ns)
        with self.engine.begin() as connection:
            one_at_a_time(connection)
            connection.execute(update(backfills).where(own).values(complete=True))

    def _in_transaction(self, change: Callable[[Connection], None]) -> None:
        try:
            with self.engine.begin() as connection:
                one_at_a_time(connection)
                change(connection)
        except Exception:
            self._series.forget()
            raise

    def _remove(self, ranges: Sequence[tuple[int, int]], connection: Connection) -> None:
        changes = _Changes(self.rules, self._numbers(connection, series.c.run == BACKFILL))
        query = select(*_READ).where(*self._rows())
        for first, last in ranges:
            for row in connection.execute(query.where(traces.c.number.between(first, last))).all():
                changes.replace(row)
        changes.write(connection)

    def _write(self, batch: Sequence[JudgedAfter], connection: Connection) -> None:
        changes = _Changes(self.rules, self._numbers(connection, series.c.run == BACKFILL))
        live = self._live(connection)
        rows = self._trace_rows(connection, batch)
        subjects: dict[tuple[str, str], int] = {}
        stored = StoredBackfill()
        for judged in batch:
            row = rows.get(judged.number)
            # Numbers of deleted traces are used again.
            if row is None or (bytes(row.trace_id), row.tenant, row.revision) != judged[1:4]:
                stored.changed += 1
                continue
            decided = {
                (live[number], kind, id) for number, kind, id, *_ in orjson.loads(row.decisions) if number in live
            }
            new = sorted(
                (decision for decision in judged.decisions if _key(decision) not in decided),
                key=lambda decision: decision.pair.rule_id,
            )
            if not changes.replace(row, new, partial(self._rows_of, row)):
                stored.changed += 1
                continue
            stored.judged_live += len(judged.decisions) - len(new)
            stored.subjects += len(new)
            stored.traces += bool(new)
            for decision in new:
                key = (judged.tenant, decision.pair.rule_id)
                subjects[key] = subjects.get(key, 0) + 1
        changes.write(connection)
        for (tenant, rule_id), number in subjects.items():
            self._note(connection, tenant, rule_id, number)
        for name in ("subjects", "traces", "judged_live", "changed"):
            setattr(self.stored, name, getattr(self.stored, name) + getattr(stored, name))

    def _trace_rows(self, connection: Connection, batch: Sequence[JudgedAfter]) -> dict[int, Any]:
        """The rows of the traces of `batch`, by number."""
        query = select(*_READ).where(*self._rows())
        rows = rows_in(connection, query, traces.c.number, [judged.number for judged in batch])
        return {row.number: row for row in rows}

    def _rows_of(self, row: Any, decisions: Sequence[Decision]) -> ResultRows:
        release = decisions[0].pair.subject.release if decisions else None
        origin = (row.tenant, BACKFILL, row.service, release, self.tracegrade)
        return ResultRows(self._series, origin, decisions)

    def _live(self, connection: Connection) -> dict[int, str]:
        """The rule ids of the series of decisions that the rules made live, as they are."""
        same = or_(
            *(and_(series.c.rule_id == rule_id, series.c.rule_hash == found) for rule_id, found in self.rules.items())
        )
        query = select(series.c.number, series.c.rule_id).where(
            series.c.run == LIVE, series.c.evaluation == WHOLE_RULE, same
        )
        return {number: rule_id for number, rule_id in connection.execute(query)}

    def _numbers(self, connection: Connection, *conditions: ColumnElement[bool]) -> frozenset[int]:
        own = (series.c.rule_id.in_(self.rules), *self._of_tenant(series.c.tenant))
        return frozenset(connection.execute(select(series.c.number).where(*own, *conditions)).scalars())

    def _rows(self) -> tuple[ColumnElement[bool], ...]:
        return (traces.c.run == LIVE, *self._of_tenant(traces.c.tenant))

    def _of_tenant(self, column: ColumnElement[str]) -> tuple[ColumnElement[bool], ...]:
        return () if self.tenant is None else (column == self.tenant,)

    def _note(self, connection: Connection, tenant: str, rule_id: str, subjects: int) -> None:
        same = and_(backfills.c.tenant == tenant, backfills.c.rule_id == rule_id)
        own = and_(same, backfills.c.made_ns == self.made_ns)
        more = update(backfills).where(own).values(subjects=backfills.c.subjects + subjects)
        if not connection.execute(more).rowcount:
            connection.execute(delete(backfills).where(same))
            times = {"made_ns": self.made_ns, "since_ns": self.since_ns, "until_ns": self.until_ns}
            values = {"tenant": tenant, "rule_id": rule_id, "rule_hash": self.rules[rule_id], **times}
            connection.execute(insert(backfills).values(**values, subjects=subjects, complete=False))


class _Changes:
    """The changes of one transaction to rows of ``traces``, and to what is counted and noted of them."""

    def __init__(self, rule_ids: Collection[str], dropped: frozenset[int]) -> None:
        """``dropped``: the numbers of the series of what was backfilled of these rules before."""
        self._rule_ids = rule_ids
        self._dropped = dropped
        self._sums, self._blocks = CountChanges(), Blocks()
        self._updates: list[tuple[str, str, bytes, int]] = []

    def replace(
        self,
        row: Any,
        decisions: Sequence[Decision] = (),
        rows_of: Callable[[Sequence[Decision]], ResultRows] | None = None,
    ) -> bool:
        """Let `decisions` be what is backfilled of the rules in `row`; False where its results cannot be read."""
        evaluations, decided = orjson.loads(row.evaluations), orjson.loads(row.decisions)
        dropped = (
            [item for item in evaluations if item[1] in self._dropped],
            [item for item in decided if item[0] in self._dropped],
        )
        if not decisions and not any(dropped):
            return True
        try:
            packed = with_backfilled(row.judged, self._rule_ids, decisions)
        except Unreadable:  # damaged, or of another version
            if decisions:
                return False
            packed = row.judged
        left = (
            [item for item in evaluations if item[1] not in self._dropped],
            [item for item in decided if item[0] not in self._dropped],
        )
        minute = counted_minute(LIVE, row.last_received_ns)
        self._sums.add(None, minute, row.complete, *dropped, by=-1)
        if rows_of is not None and decisions:
            new = rows_of(decisions)
            self._sums.add(None, minute, row.complete, new.evaluations, new.decisions)
            self._blocks.add(row.number, new.evaluations)
            # Also those of decisions without an evaluation: by these numbers, a later backfill finds them.
            self._blocks.note(row.number, [(item[0], item[4] or 0) for item in new.decisions])
            left[0].extend(new.evaluations)
            left[1].extend(new.decisions)
        self._updates.append((rows_to_json(left[0]), rows_to_json(left[1]), packed, row.number))
        return True

    def write(self, connection: Connection) -> None:
        """Write them."""
        if self._updates:
            mark = database(connection).mark
            changed = ", ".join(f"{name} = {mark}" for name in ("evaluations", "decisions", "judged"))
            connection.exec_driver_sql(f"UPDATE traces SET {changed} WHERE number = {mark}", self._updates)
        self._sums.write(connection)
        self._blocks.write(connection)


def _key(decision: Decision) -> tuple[str, int, str]:
    """The rule and the subject, as ``decisions`` has them."""
    subject = decision.pair.subject
    return decision.pair.rule_id, SUBJECT_KINDS.index(subject.kind), subject.id
