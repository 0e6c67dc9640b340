"""One judged trace as its row of ``traces``, which contains the rows of the views."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from tracegrade.codec.json_text import rows_to_json, storable
from tracegrade.model.evaluation import Decision, JudgedSubject
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace_result import RunSummary, TraceResult, TraceSummary
from tracegrade.store.database import Key
from tracegrade.store.names import AGENT
from tracegrade.store.schema import DECISION_KINDS, OUTCOMES, SUBJECT_KINDS, WHOLE_RULE
from tracegrade.store.series import TRACES, Missing, Origin, Rule, Series, SeriesNumbers

# (id, series, case, subject kind, subject id, outcome, score, time), as the view `evaluations` has them; where one of
# these names is `other` in the series, also a list of the own (service, release, agent).
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
    """The rows made from decisions on one trace, which share an origin: of one tenant, run, service and release.

    Those of series that are ``missing`` have no number: once these are learnt, make the rows again.
    """

    def __init__(
        self,
        series: SeriesNumbers,
        tenant: str,
        run: str,
        service: str,
        release: str | None,
        tracegrade: str,
        decisions: Iterable[Decision],
    ) -> None:
        self._series = series
        self._names = series.names_of(tenant)
        self._service, self._release = service, release
        self._origin = series.origin(tenant, run, service, release, tracegrade)
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
        super().__init__(series, *origin, judged.decisions)
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
            rows_to_json(self.evaluations),
            rows_to_json(self.decisions),
            rows_to_json(call_rows(self.judged.tool_calls)),
            self.judged.packed,
            self.judged.spans,
            None if members is None else json.dumps({other.hex(): revision for other, revision in members.items()}),
            rows_to_json(run_rows(trace.runs)),
            None if trace.not_decoded is None else trace.not_decoded.reason,
            self.traffic if self._origin[2] != storable(trace.service) else None,
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
