"""Judged traces' parts made of the JSON objects that stand for them, so that tests can show those."""

from collections.abc import Sequence
from typing import Any

from tracegrade.model.evaluation import Decision, Evaluation, JudgedSubject, Pair
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.model.trace_result import TraceSummary

_SHARED = ("tenant", "run", "trace_id", "revision", "close_reason", "complete", "missing", "release")
_OWN = ("span_id", "session", "agent", "service", "time")
_EVALUATION = (
    "id",
    "evaluation",
    "evaluator",
    "case",
    "threshold",
    "score",
    "outcome",
    "reason",
    "explanation",
    "details",
)
_PRECEDENCE = ("fail", "error", "not_evaluable", "pass")


def decisions_of(evaluations: Sequence[dict[str, Any]], decisions: Sequence[dict[str, Any]] = ()) -> list[Decision]:
    """One decision for each (subject, rule) of `evaluations`, with its evaluations; then those of `decisions`.

    One of `decisions` for a (subject, rule) that `evaluations` have says what that decision was.
    """
    subjects: dict[tuple[str, str], JudgedSubject] = {}
    found: dict[tuple[str, str, str], Decision] = {}
    for item in evaluations:
        kind, subject_id = item["subject"]["kind"], item["subject"]["id"]
        subject = subjects.setdefault(
            (kind, subject_id),
            JudgedSubject(*[item[name] for name in _SHARED], kind, subject_id, *[item[name] for name in _OWN]),
        )
        key = (item["rule_id"], kind, subject_id)
        if key not in found:
            pair = Pair(subject, item["rule_id"], item["rule_hash"], item["level"], item["probability"])
            found[key] = Decision(pair, "evaluated", "pass", "", [])
        decision = found[key]
        decision.evaluations.append(Evaluation(decision.pair, *[item[name] for name in _EVALUATION]))
        worst = min((each.outcome for each in decision.evaluations), key=_PRECEDENCE.index)
        decision.kind, decision.outcome = ("evaluated", worst) if worst in ("pass", "fail") else (worst, None)
        decision.reason = next(each.reason for each in decision.evaluations if each.outcome == worst)
    for item in decisions:
        key = (item["rule_id"], item["subject_kind"], item["subject_id"])
        if key not in found:
            shared = ("default", "live", "", 1, "settled", True, [], None)
            subject = JudgedSubject(
                *shared, item["subject_kind"], item["subject_id"], item["subject_id"], None, "", "", 0
            )
            found[key] = Decision(Pair(subject, item["rule_id"], item["rule_hash"], "high"), "evaluated", None, "", [])
        found[key].kind, found[key].outcome, found[key].reason = item["kind"], item["outcome"], item["reason"]
    return list(found.values())


def tool_call_of(item: dict[str, Any]) -> ToolCall:
    """The call of which `item` is the JSON object."""
    error = item["error"]
    return ToolCall(**item | {"error": None if error is None else ToolError(**error)})


def summary_of(**changes: Any) -> TraceSummary:
    """A summary in which little is known but what `changes` say."""
    known: dict[str, Any] = {
        "tenant": "default",
        "run": "live",
        "trace_id": f"{1:032x}",
        "revision": 1,
        "supersedes": None,
        "service": "",
        "release": None,
        "session": None,
        "root_name": None,
        "resource": {},
        "close_reason": "settled",
        "complete": True,
        "missing": [],
        "cut_by": None,
        "span_count": 0,
        "call_count": 0,
        "earliest_span_id": None,
        "root_span_id": None,
        "start_ns": 0,
        "end_ns": 0,
        "first_received_ns": 0,
        "last_received_ns": 0,
        "first_position": 0,
        "last_position": 0,
        "closed_ns": 0,
        "rule_set_hash": "",
        "tracegrade": "",
        "settings_hash": "",
    }
    return TraceSummary(**known | changes)
