"""Judged traces in, rows out: one transaction for each batch; writing twice stores once.

New series of a batch are stored before it, in transactions of their own, so that a batch with very many names keeps
other writers waiting for none of these for long. What a kill leaves of them is there when the batch comes again.

Only the highest revision of a trace is kept. It replaces the lower one and all its results, because a late root can
change the subjects. A record of a revision that is already stored changes nothing.

Several processes may write to one PostgreSQL at once. They take numbers from a sequence, and make and insert rows
beside each other. They wait for each other only for a trace that both store, which they claim first, and for the rows
of ``counts``, ``arrivals`` and ``blocks`` that both change, which a transaction changes last; for all in one order.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

from sqlalchemy import Connection, Engine, delete

from tracegrade.codec.json_text import rows_to_json, storable
from tracegrade.model.evaluation import Decision, JudgedSubject
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace_result import RunSummary, TraceResult, TraceSummary
from tracegrade.store import schema
from tracegrade.store.database import Key
from tracegrade.store.index import Arrivals, Blocks, RunNumbers
from tracegrade.store.open import beside_others, check_version, one_at_a_time
from tracegrade.store.registry import database
from tracegrade.store.schema import (
    DECISION_KINDS,
    LIVE,
    OUTCOMES,
    SUBJECT_KINDS,
    WHOLE_RULE,
    DecisionRow,
    EvaluationRow,
)
from tracegrade.store.series import AGENT, TRACES, Beyond, Missing, Origin, Rule, Series, SeriesNumbers
from tracegrade.store.several_processes import HasTurns, note_turns, turns_of
from tracegrade.store.tallies import CountChanges, counted_minute
from tracegrade.telemetry.series_bound import MAX_NAMES

_OUTCOME = {name: place for place, name in enumerate(OUTCOMES)}
_DECISION_KIND = {name: place for place, name in enumerate(DECISION_KINDS)}
_SUBJECT_KIND = {name: place for place, name in enumerate(SUBJECT_KINDS)}

_MAX_INTEGER = 2**63 - 1


def trace_key(trace: TraceSummary) -> Key:
    """The key of a stored trace; a session has a trace id of its own."""
    return trace.own_id, trace.tenant, trace.run


class ResultRows:
    """The rows made from decisions on one trace, which share an origin: of one tenant, run, service and release.

    Those of series that are ``missing`` have no number: once these are learnt, make the rows again.
    """

    def __init__(
        self,
        series: SeriesNumbers,
        origin: Origin,
        decisions: Iterable[Decision],
    ) -> None:
        tenant, _, self._service, self._release, _ = origin
        self._series = series
        self._names = series.names_of(tenant)
        self._origin = series.origin(*origin)
        self._known = series.known(self._origin)
        self.missing: Missing = {}
        self.evaluations: list[EvaluationRow] = []
        self.decisions: list[DecisionRow] = []
        self._add(decisions)

    def _add(self, decisions: Iterable[Decision]) -> None:
        add_evaluation, add_decision = self.evaluations.append, self.decisions.append
        subject: JudgedSubject | None = None
        for decision in decisions:
            pair, kind = decision.pair, decision.kind
            if subject is not pair.subject:  # the decisions on one subject come one after the other
                subject = pair.subject
                subject_kind, subject_id = _SUBJECT_KIND[subject.kind], subject.id
                time = min(subject.time, _MAX_INTEGER)
                agent = self._names.counted(AGENT, subject.agent, self._service)
                own = self._own_names(subject.agent, agent)
            rule = (pair.rule_id, pair.rule_hash, pair.level, agent, pair.probability)
            known = self._known[rule]
            for item in decision.evaluations:
                name = item.evaluation
                series = known.get(name)
                if series is None:
                    series = self._miss(self._origin, rule, name, item.evaluator, item.threshold)
                outcome = _OUTCOME[item.outcome]
                row = (item.id, series, item.case, subject_kind, subject_id, outcome, item.score, time)
                add_evaluation((*row, own) if own else row)
            series = known.get(WHOLE_RULE)
            if series is None:
                series = self._miss(self._origin, rule, WHOLE_RULE)
            # not_evaluable and error are both kinds and outcomes; sampled_out has no outcome and counts nowhere.
            result = _OUTCOME.get(decision.outcome or kind)
            whole = (series, subject_kind, subject_id, _DECISION_KIND[kind], result)
            add_decision((*whole, self._measured(decision, rule)) if decision.measured else whole)

    def _miss(
        self, origin: Origin, rule: Rule, evaluation: str, evaluator: str = "", threshold: float | None = None
    ) -> int:
        self.missing[Series.of(origin, rule, evaluation, evaluator, threshold)] = (origin, rule)
        return 0

    def _own_names(self, agent: str, counted: str) -> tuple[str | None, ...] | None:
        """The names that the results of an agent came with, where they are counted by another one."""
        own = (storable(self._service), None if self._release is None else storable(self._release), storable(agent))
        _, _, service, release, _ = self._origin
        return own if own != (service, release, counted) else None

    def _measured(self, decision: Decision, rule: Rule) -> list[tuple[int, float | None]]:
        known = self._known[rule]
        found = []
        for name, value in decision.measured:
            series = known.get(name)
            if series is None:
                series = self._miss(self._origin, rule, name)
            found.append((series, value))
        return found


class TraceRows(ResultRows):
    """The rows made from one judged trace.

    Raises:
        TypeError: the result holds a value that no database takes.
    """

    def __init__(self, series: SeriesNumbers, judged: TraceResult) -> None:
        self.judged = judged
        trace = judged.trace
        origin = (trace.tenant, trace.run, trace.service, trace.release, trace.tracegrade)
        super().__init__(series, origin, judged.decisions)
        # A session is no traffic: its traces are.
        self.traffic = None if trace.members is not None else self._traffic_series()

    def _traffic_series(self) -> int:
        tenant, run, service, _, _ = self._origin
        origin = (tenant, run, service, None, "")
        found = self._series.known(origin)[TRACES].get(WHOLE_RULE)
        return self._miss(origin, TRACES, WHOLE_RULE) if found is None else found

    def trace_row(self, number: int, key: Key) -> tuple[Any, ...]:
        """The row to store under `number`, in the order of the columns."""
        trace = self.judged.trace
        session, members = trace.session, trace.members
        return (
            number,
            *key,
            trace.revision,
            storable(trace.service),
            storable(session) if session is not None else None,
            storable(trace.root_name or ""),
            trace.close_reason,
            bool(trace.complete),
            trace.cut_by,
            trace.span_count,
            trace.call_count,
            min(trace.start_ns, _MAX_INTEGER),
            min(trace.end_ns, _MAX_INTEGER),
            trace.first_received_ns,
            trace.last_received_ns,
            trace.closed_ns,
            trace.first_position,
            trace.rule_set_hash,
            None if members is None else json.dumps({other.hex(): revision for other, revision in members.items()}),
            None if trace.not_decoded is None else trace.not_decoded.reason,
            self.traffic if self._origin[2] != storable(trace.service) else None,
            None if trace.release is None else storable(trace.release),
            trace.cost,
            None if trace.prompt is None else storable(trace.prompt),
            rows_to_json(run_rows(trace.runs)),
            rows_to_json(self.evaluations),
            rows_to_json(self.decisions),
            rows_to_json(call_rows(self.judged.tool_calls)),
            self.judged.packed,
            self.judged.spans,
        )


def run_rows(runs: Sequence[RunSummary]) -> list[tuple[Any, ...]]:
    """The rows of the view ``agent_runs``; where a cache was used, its tokens follow, which the view does not have."""
    return [
        (
            run.span_id,
            run.agent,
            run.parent_span_id,
            run.session,
            run.model,
            run.prompt_hash,
            run.input_tokens,
            run.output_tokens,
            run.duration_ns,
            *_cache_tokens(run),
        )
        for run in runs
    ]


def _cache_tokens(run: RunSummary) -> tuple[int, ...]:
    found = (run.cached_input_tokens or 0, run.cache_write_tokens or 0)
    return found if any(found) else ()


def call_rows(tool_calls: Sequence[ToolCall]) -> list[tuple[Any, ...]]:
    """The rows of the view ``tool_calls``."""
    rows = []
    for call in tool_calls:
        error, start_ns, end_ns = call.error, call.start_ns, call.end_ns
        rows.append(
            (
                call.name,
                call.agent,
                call.span_id,
                start_ns if start_ns < _MAX_INTEGER else _MAX_INTEGER,
                end_ns if end_ns < _MAX_INTEGER else _MAX_INTEGER,
                call.arguments_status,
                call.output_status,
                error.type if error else None,
            )
        )
    return rows


_LEARNT_AT_ONCE = 4000  # series: 0.1 s


class StoreWriter:
    """Writes batches to one store; used by one thread at a time."""

    def __init__(self, engine: Engine, has_turns: HasTurns | None = None, max_names: int = MAX_NAMES) -> None:
        """Prepare.

        Args:
            engine: the store, open for writing.
            has_turns: chooses the traces of which turns of sessions are noted.
            max_names: as of `SeriesNumbers`.
        """
        self._engine = engine
        self._has_turns = has_turns
        self._series = SeriesNumbers(max_names)
        self._room = 0  # below this number, there are parts of PostgreSQL's `traces`
        # Of `write_part`: the records that wait for series, by key with their revision, and these series.
        self._waiting: dict[Key, int] = {}
        self._to_learn: Missing = {}

    def write(self, batch: Sequence[TraceResult]) -> None:
        """Store every record of `batch`, or none.

        Raises:
            TraceGradeError: a record is of a run that takes no results; nothing was stored.
            StoreError: a newer version has changed the tables; nothing was stored.
            SQLAlchemyError: the database refused; nothing was stored.
            TypeError: a result holds a value that no database takes; nothing was stored.
        """
        with self._forgetting():
            self._series.prepare(self._engine)
            self._store(self._learnt(self._rows(_newest(batch))))

    def write_allowed(
        self, batch: Sequence[TraceResult], allowed: Callable[[Connection], Sequence[TraceResult]]
    ) -> None:
        """As `write`, of those of `batch` that `allowed` gives in their transaction: no other process writes meanwhile.

        New series of `batch` are stored before, and stay.
        """
        with self._forgetting():
            self._series.prepare(self._engine)
            rows = self._learnt(self._rows(_newest(batch)))
            with self._transaction(one_at_a_time) as connection:
                kept = {trace_key(judged.trace) for judged in allowed(connection)}
                self._write(connection, {key: found for key, found in rows.items() if key in kept})

    def write_part(self, batch: Sequence[TraceResult]) -> list[TraceResult]:
        """Store what of `batch` needs few new series, and a part of the series that the rest needs.

        So a record with very many names keeps others waiting for a part of its series, and for itself.

        Returns:
            The rest, of which nothing is stored yet: to be given again, alone or with more, until none is left.

        Raises:
            Exception: as `write`; some of `batch` may be stored.
        """
        with self._forgetting():
            if not self._to_learn:
                self._series.prepare(self._engine)
            newest = _newest(batch)
            rest = {key: judged for key, judged in newest.items() if self._waiting.get(key) == judged.trace.revision}
            rows = self._rows({key: judged for key, judged in newest.items() if key not in rest})
            missing = 0
            for key, found in list(rows.items()):
                if found.missing and missing + len(found.missing) > _LEARNT_AT_ONCE:
                    rest[key] = rows.pop(key).judged
                    self._waiting[key] = found.judged.trace.revision
                    self._to_learn |= found.missing
                else:
                    missing += len(found.missing)
            self._store(self._learnt(rows))
            part = dict(islice(self._to_learn.items(), _LEARNT_AT_ONCE))
            self._series.learn(self._engine, part)
            for each in part:
                del self._to_learn[each]
            if self._to_learn:
                return list(rest.values())
            self._waiting.clear()
            self._store(self._learnt(self._rows(rest)))
            return []

    def take_beyond(self) -> list[Beyond]:
        """The attributes of which names were counted as `other` since the last call."""
        return self._series.take_beyond()

    def _rows(self, newest: Mapping[Key, TraceResult]) -> dict[Key, TraceRows]:
        return {key: TraceRows(self._series, judged) for key, judged in newest.items()}

    def _learnt(self, rows: dict[Key, TraceRows]) -> dict[Key, TraceRows]:
        """`rows`, of which those that miss series are made again, once these are learnt."""
        # Once; again where another process has stored names in between.
        while missing := dict(chain.from_iterable(found.missing.items() for found in rows.values())):
            self._series.learn(self._engine, missing)
            rows |= self._rows({key: found.judged for key, found in rows.items() if found.missing})
        return rows

    def _store(self, rows: dict[Key, TraceRows]) -> None:
        if rows:
            with self._transaction(beside_others) as connection:
                self._write(connection, rows)

    @contextmanager
    def _transaction(self, wait: Callable[[Connection], None]) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            wait(connection)
            check_version(connection)
            yield connection

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """Forget what is known of the store after an error: it may be another store the next time."""
        try:
            yield
        except Exception:
            self._series.forget()
            self._waiting.clear()
            self._to_learn.clear()
            raise

    def _write(self, connection: Connection, made: dict[Key, TraceRows]) -> None:
        sums = CountChanges()
        newest = {key: found.judged for key, found in made.items()}
        turns = turns_of(connection, newest, self._has_turns) if self._has_turns is not None else {}
        numbers = self._places(connection, newest, sums)
        if not numbers:
            return
        arrivals, run_numbers, blocks, rows = Arrivals(), RunNumbers(), Blocks(), []
        for key, number in numbers.items():
            found, trace = made[key], newest[key].trace
            rows.append(found.trace_row(number, key))
            blocks.add(number, found.evaluations)
            if trace.run == LIVE:
                arrivals.add(trace.first_received_ns, number)
            else:
                run_numbers.add(trace.tenant, trace.run, number)
            sums.add(
                found.traffic,
                counted_minute(trace.run, trace.last_received_ns),
                trace.complete,
                found.evaluations,
                found.decisions,
            )
        database(connection).insert(connection, schema.traces, rows)
        sums.write(connection)
        arrivals.write(connection)
        run_numbers.write(connection)
        blocks.write(connection)
        note_turns(connection, chain.from_iterable(of for key, of in turns.items() if key in numbers))

    def _places(self, connection: Connection, newest: Mapping[Key, TraceResult], sums: CountChanges) -> dict[Key, int]:
        """Delete the lower revisions of `newest`, and take them back from `sums`.

        Returns:
            The number of each record to store, in their order; none for a revision that is already stored.
        """
        revisions = {key: judged.trace.revision for key, judged in newest.items()}
        numbers, replaced = database(connection).claim(connection, revisions)
        if replaced:
            sums.take_back(connection, replaced)
            connection.execute(delete(schema.traces).where(schema.traces.c.number.in_(replaced)))
        if numbers and (last := max(numbers.values())) >= self._room:
            self._room = database(connection).make_room(self._engine, last)
        return numbers


def _newest(batch: Sequence[TraceResult]) -> dict[Key, TraceResult]:
    """Of each trace in `batch`, the record of its highest revision."""
    newest: dict[Key, TraceResult] = {}
    for judged in batch:
        key = trace_key(judged.trace)
        if key not in newest or newest[key].trace.revision < judged.trace.revision:
            newest[key] = judged
    return newest
