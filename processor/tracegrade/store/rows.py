"""One judged trace as rows of the tables."""

from collections.abc import Callable
from typing import Any, Protocol

from tracegrade.store.arrivals import Arrivals
from tracegrade.store.counts import Sums
from tracegrade.store.schema import DECISION_KINDS, MINUTE_NS, OUTCOMES, SUBJECT_KINDS, WHOLE_RULE

Row = tuple[Any, ...]
Key = tuple[bytes, str, str]  # trace id, tenant, run
SeriesNumber = Callable[[tuple[str | float | None, ...]], int]

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


class Rows:
    """The rows of a batch, by table, each in the order of the table's columns."""

    def __init__(self, series_number: SeriesNumber, sums: Sums, arrivals: Arrivals) -> None:
        self._series_number = series_number
        self._sums = sums
        self._arrivals = arrivals
        self.by_table: dict[str, list[Row]] = {"traces": [], "tool_calls": [], "evaluations": [], "decisions": []}

    def add(self, number: int, key: Key, judged: Judged) -> None:
        """Add the rows of one judged trace, stored under `number`.

        Raises:
            KeyError, TypeError, ValueError: the record is not of the shape that is delivered.
        """
        trace = judged.trace
        service = storable(trace["service"])
        release = trace["release"]
        origin = (service, storable(release) if release is not None else None)
        minute, complete = trace["last_received_ns"] // MINUTE_NS, bool(trace["complete"])
        self._arrivals.add(trace["first_received_ns"], number)
        self.by_table["traces"].append(_trace_row(number, key, service, judged))
        agents = self._add_evaluations(number, key, origin, minute, complete, judged.evaluations)
        self._add_decisions(number, key, origin, minute, complete, judged.decisions, agents)
        self._add_tool_calls(number, judged.tool_calls)

    def _add_evaluations(
        self,
        number: int,
        key: Key,
        origin: tuple[str, str | None],
        minute: int,
        complete: bool,
        evaluations: list[dict[str, Any]],
    ) -> dict[str, str]:
        """Add rows of `evaluations`; the agent of each subject, which decisions do not name."""
        _, tenant, run = key
        agents: dict[str, str] = {}
        add = self.by_table["evaluations"].append
        for place, item in enumerate(evaluations):
            subject = item["subject"]
            agent = agents[subject["id"]] = storable(item["agent"])
            series = self._series_number(
                (
                    tenant,
                    run,
                    item["rule_id"],
                    item["rule_hash"],
                    item["evaluation"],
                    item["evaluator"],
                    item["level"],
                    item["threshold"],
                    *origin,
                    agent,
                )
            )
            outcome, score = _OUTCOME[item["outcome"]], item["score"]
            self._sums.add(series, minute, complete, outcome, score)
            add(
                (
                    number,
                    place,
                    bytes.fromhex(item["id"]),
                    series,
                    item["case"],
                    _SUBJECT_KIND[subject["kind"]],
                    storable(subject["id"]),
                    outcome,
                    score,
                    min(item["time"], _MAX_INTEGER),
                )
            )
        return agents

    def _add_decisions(
        self,
        number: int,
        key: Key,
        origin: tuple[str, str | None],
        minute: int,
        complete: bool,
        decisions: list[dict[str, Any]],
        agents: dict[str, str],
    ) -> None:
        _, tenant, run = key
        add = self.by_table["decisions"].append
        for place, item in enumerate(decisions):
            subject_id = item["subject_id"]
            rule = (item["rule_id"], item["rule_hash"], WHOLE_RULE, "", "", None)
            series = self._series_number((tenant, run, *rule, *origin, agents.get(subject_id, "")))
            # not_evaluable and error are kinds as well as outcomes; sampled_out has no outcome and counts nowhere.
            outcome = _OUTCOME.get(item["outcome"] or item["kind"])
            if outcome is not None:
                self._sums.add(series, minute, complete, outcome, None)
            kind, subject_kind = _DECISION_KIND[item["kind"]], _SUBJECT_KIND[item["subject_kind"]]
            add((number, place, series, subject_kind, storable(subject_id), kind, outcome))

    def _add_tool_calls(self, number: int, tool_calls: list[dict[str, Any]]) -> None:
        add = self.by_table["tool_calls"].append
        for place, item in enumerate(tool_calls):
            error = item["error"]
            add(
                (
                    number,
                    place,
                    storable(item["name"]),
                    storable(item["agent"]),
                    bytes.fromhex(item["span_id"]),
                    min(item["start_ns"], _MAX_INTEGER),
                    min(item["end_ns"], _MAX_INTEGER),
                    item["arguments_status"],
                    item["output_status"],
                    storable(error["type"]) if error else None,
                )
            )


def trace_key(trace: dict[str, Any]) -> Key:
    """What tells one stored trace from another."""
    return bytes.fromhex(trace["trace_id"]), trace["tenant"], trace["run"]


def storable(text: str) -> str:
    """`text` as every database takes it: without NUL, which PostgreSQL refuses, and lone surrogates, which no UTF-8 is.

    Only for what is searched by; ``judged`` keeps the text as it is.
    """
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _trace_row(number: int, key: Key, service: str, judged: Judged) -> Row:
    trace = judged.trace
    session = trace["session"]
    return (
        number,
        *key,
        trace["revision"],
        service,
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
        judged.packed,
        judged.spans,
    )
