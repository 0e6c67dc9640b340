"""One judged trace as its row of ``traces``, which contains the rows of the views."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from sqlalchemy import Connection

from tracegrade.codec.json_text import rows_to_json, storable
from tracegrade.model.evaluation import Decision, JudgedSubject
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace_result import RunSummary, TraceResult, TraceSummary
from tracegrade.store.schema import DECISION_KINDS, OUTCOMES, SUBJECT_KINDS, WHOLE_RULE
from tracegrade.store.series import Origin, Rule, SeriesNumbers

Key: TypeAlias = tuple[bytes, str, str]  # trace id, tenant, run

# (id, series, case, subject kind, subject id, outcome, score, time), as the view `evaluations` has them.
EvaluationRow: TypeAlias = Sequence[Any]
# (series, subject kind, subject id, kind, outcome), as the view `decisions` has them; where something was measured,
# also a list of (series, value).
DecisionRow: TypeAlias = Sequence[Any]

_OUTCOME = {name: place for place, name in enumerate(OUTCOMES)}
_DECISION_KIND = {name: place for place, name in enumerate(DECISION_KINDS)}
_SUBJECT_KIND = {name: place for place, name in enumerate(SUBJECT_KINDS)}

_MAX_INTEGER = 2**63 - 1


def trace_key(trace: TraceSummary) -> Key:
    """The key of a stored trace; a session has a trace id of its own."""
    return trace.own_id, trace.tenant, trace.run


class ResultRows:
    """The rows made from decisions on one trace, which share an origin."""

    def __init__(
        self, connection: Connection, series: SeriesNumbers, origin: Origin, decisions: Iterable[Decision]
    ) -> None:
        self._connection = connection
        self._series = series
        self._origin = origin
        self._known = series.known(self._origin)
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
            rule = (pair.rule_id, pair.rule_hash, pair.level, subject.agent, pair.probability)
            known = self._known[rule]
            for item in decision.evaluations:
                name = item.evaluation
                series = known.get(name)
                if series is None:
                    rest = (item.evaluator, item.threshold)
                    series = self._series.learn(self._connection, self._origin, rule, name, *rest)
                outcome = _OUTCOME[item.outcome]
                add_evaluation((item.id, series, item.case, subject_kind, subject_id, outcome, item.score, time))
            series = known.get(WHOLE_RULE)
            if series is None:
                series = self._series.learn(self._connection, self._origin, rule, WHOLE_RULE)
            # not_evaluable and error are both kinds and outcomes; sampled_out has no outcome and counts nowhere.
            result = _OUTCOME.get(decision.outcome or kind)
            row = (series, subject_kind, subject_id, _DECISION_KIND[kind], result)
            add_decision((*row, self._measured(decision, rule)) if decision.measured else row)

    def _measured(self, decision: Decision, rule: Rule) -> list[tuple[int, float | None]]:
        known = self._known[rule]
        found = []
        for name, value in decision.measured:
            series = known.get(name)
            if series is None:
                series = self._series.learn(self._connection, self._origin, rule, name)
            found.append((series, value))
        return found


class TraceRows(ResultRows):
    """The rows made from one judged trace.

    Raises:
        TypeError: the result holds a value that no database takes.
    """

    def __init__(self, connection: Connection, series: SeriesNumbers, judged: TraceResult) -> None:
        self._judged = judged
        trace = judged.trace
        origin = (trace.tenant, trace.run, trace.service, trace.release, trace.tracegrade)
        super().__init__(connection, series, origin, judged.decisions)

    def trace_row(self, number: int, key: Key) -> tuple[Any, ...]:
        """The row to store under `number`, in the order of the columns."""
        trace = self._judged.trace
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
            rows_to_json(self.evaluations),
            rows_to_json(self.decisions),
            rows_to_json(call_rows(self._judged.tool_calls)),
            self._judged.packed,
            self._judged.spans,
            None if members is None else json.dumps({other.hex(): revision for other, revision in members.items()}),
            rows_to_json(run_rows(trace.runs)),
            None if trace.not_decoded is None else trace.not_decoded.reason,
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
