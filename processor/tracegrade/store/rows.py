"""One judged trace as its row of ``traces``, with the rows of the three views inside."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from sqlalchemy import Connection

from tracegrade.store.json_text import rows_to_json, storable
from tracegrade.store.schema import DECISION_KINDS, OUTCOMES, SUBJECT_KINDS, WHOLE_RULE
from tracegrade.store.series import Origin, SeriesNumbers

Key: TypeAlias = tuple[bytes, str, str]  # trace id, tenant, run

# (id, series, case, subject kind, subject id, outcome, score, time), as the view `evaluations` has them.
EvaluationRow: TypeAlias = Sequence[Any]
# (series, subject kind, subject id, kind, outcome), as the view `decisions` has them.
DecisionRow: TypeAlias = Sequence[Any]

_OUTCOME = {name: place for place, name in enumerate(OUTCOMES)}
_DECISION_KIND = {name: place for place, name in enumerate(DECISION_KINDS)}
_SUBJECT_KIND = {name: place for place, name in enumerate(SUBJECT_KINDS)}

_MAX_INTEGER = 2**63 - 1


class Judged(Protocol):
    """What is stored of one trace: `tracegrade.deliver.record.JudgedTrace`, whose docstring lists the keys."""

    trace: dict[str, Any]
    spans: bytes
    tool_calls: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    packed: bytes


def trace_key(trace: dict[str, Any]) -> Key:
    """What tells one stored trace from another."""
    return bytes.fromhex(trace["trace_id"]), trace["tenant"], trace["run"]


class TraceRows:
    """The rows that come of one judged trace.

    Raises:
        KeyError, TypeError, ValueError: the record is not of the shape that is delivered.
    """

    def __init__(self, connection: Connection, series: SeriesNumbers, judged: Judged) -> None:
        self._connection = connection
        self._series = series
        self._judged = judged
        trace = judged.trace
        self._origin: Origin = trace["tenant"], trace["run"], trace["service"], trace["release"]
        self._known = series.known(self._origin)
        self._agents: dict[str, str] = {}  # of each subject; decisions do not name it
        self.evaluations = self._evaluation_rows()
        self.decisions = self._decision_rows()

    def trace_row(self, number: int, key: Key) -> tuple[Any, ...]:
        """The row to store under `number`, in the order of the columns."""
        trace = self._judged.trace
        session = trace["session"]
        return (
            number,
            *key,
            trace["revision"],
            storable(trace["service"]),
            storable(session) if session is not None else None,
            storable(trace["root_name"] or ""),
            trace["close_reason"],
            bool(trace["complete"]),
            trace["cut_by"],
            trace["span_count"],
            trace["call_count"],
            min(trace["start_ns"], _MAX_INTEGER),
            min(trace["end_ns"], _MAX_INTEGER),
            trace["first_received_ns"],
            trace["last_received_ns"],
            trace["closed_ns"],
            trace["first_position"],
            trace["rule_set_hash"],
            rows_to_json(self.evaluations),
            rows_to_json(self.decisions),
            rows_to_json(_call_rows(self._judged.tool_calls)),
            self._judged.packed,
            self._judged.spans,
        )

    def _evaluation_rows(self) -> list[EvaluationRow]:
        rows: list[EvaluationRow] = []
        known, agents = self._known, self._agents
        for item in self._judged.evaluations:
            subject, agent, time = item["subject"], item["agent"], item["time"]
            agents[subject["id"]] = agent
            name = (item["rule_id"], item["rule_hash"], item["evaluation"], agent)
            series = known.get(name)
            if series is None:
                rest = (item["evaluator"], item["level"], item["threshold"])
                series = self._series.learn(self._connection, self._origin, name, *rest)
            rows.append(
                (
                    item["id"],
                    series,
                    item["case"],
                    _SUBJECT_KIND[subject["kind"]],
                    subject["id"],
                    _OUTCOME[item["outcome"]],
                    item["score"],
                    time if time < _MAX_INTEGER else _MAX_INTEGER,
                )
            )
        return rows

    def _decision_rows(self) -> list[DecisionRow]:
        rows: list[DecisionRow] = []
        for item in self._judged.decisions:
            subject_id, kind = item["subject_id"], item["kind"]
            name = (item["rule_id"], item["rule_hash"], WHOLE_RULE, self._agents.get(subject_id, ""))
            series = self._known.get(name)
            if series is None:
                series = self._series.learn(self._connection, self._origin, name)
            # not_evaluable and error are kinds as well as outcomes; sampled_out has no outcome and counts nowhere.
            outcome = _OUTCOME.get(item["outcome"] or kind)
            rows.append((series, _SUBJECT_KIND[item["subject_kind"]], subject_id, _DECISION_KIND[kind], outcome))
        return rows


def _call_rows(tool_calls: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    rows = []
    for item in tool_calls:
        error, start_ns, end_ns = item["error"], item["start_ns"], item["end_ns"]
        rows.append(
            (
                item["name"],
                item["agent"],
                item["span_id"],
                start_ns if start_ns < _MAX_INTEGER else _MAX_INTEGER,
                end_ns if end_ns < _MAX_INTEGER else _MAX_INTEGER,
                item["arguments_status"],
                item["output_status"],
                error["type"] if error else None,
            )
        )
    return rows
