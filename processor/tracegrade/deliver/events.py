"""Evaluation events: one log record ``gen_ai.evaluation.result`` for each evaluation, attached to its subject."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from tracegrade import semconv
from tracegrade.deliver.record import JudgedTrace
from tracegrade.deliver.results import (
    Group,
    details_json,
    error_type,
    explanation,
    full_name,
    groups,
    shared_attributes,
)
from tracegrade.model.json_value import JsonValue
from tracegrade.otlp.encode import LOG_RECORD_ATTRIBUTES, attribute, unkept_attribute

_SAMPLED = 1
_SEVERITY = {
    "fail": (SeverityNumber.SEVERITY_NUMBER_WARN, "WARN"),
    "error": (SeverityNumber.SEVERITY_NUMBER_ERROR, "ERROR"),
}
_INFO = (SeverityNumber.SEVERITY_NUMBER_INFO, "INFO")


def events(judged: JudgedTrace, include_values: bool) -> Iterator[bytes]:
    """The judged trace's events, encoded; the same record gives the same bytes."""
    for group in groups(judged):
        shared = _shared(group)
        for evaluation in group.evaluations:
            yield shared + _own(evaluation, include_values)


def _shared(group: Group) -> bytes:
    """What all events of one (subject, rule, revision) say: a resend must be identical, so no time is the clock's."""
    first = group.first
    record = LogRecord(
        time_unix_nano=group.time_ns,
        observed_time_unix_nano=group.time_ns,
        trace_id=bytes.fromhex(first["trace_id"]),
        span_id=bytes.fromhex(first["span_id"]),
        flags=_SAMPLED,
        event_name=semconv.EVALUATION_EVENT,
    )
    parts = [record.SerializeToString(deterministic=True), shared_attributes(LOG_RECORD_ATTRIBUTES, group)]
    if first["session"]:
        parts.append(unkept_attribute(LOG_RECORD_ATTRIBUTES, semconv.CONVERSATION_ID, first["session"]))
    return b"".join(parts)


def _own(evaluation: dict[str, Any], include_values: bool) -> bytes:
    score = evaluation["score"]
    parts = [
        _known(
            full_name(evaluation),
            None if score is None else score + 0.0,
            evaluation["outcome"],
            evaluation["evaluator"],
            evaluation["threshold"] + 0.0,
            evaluation["case"],
        ),
        unkept_attribute(LOG_RECORD_ATTRIBUTES, semconv.EVALUATION_ID, evaluation["id"]),
    ]
    if text := explanation(evaluation, include_values):
        parts.append(unkept_attribute(LOG_RECORD_ATTRIBUTES, semconv.EVALUATION_EXPLANATION, text))
    if evaluation["outcome"] == "error":
        parts.append(attribute(LOG_RECORD_ATTRIBUTES, semconv.ERROR_TYPE, error_type(evaluation)))
    if include_values:
        parts.append(unkept_attribute(LOG_RECORD_ATTRIBUTES, semconv.DETAILS, details_json(evaluation)))
    return b"".join(parts)


@lru_cache(maxsize=8192)
def _known(name: str, score: float | None, outcome: str, evaluator: str, threshold: float, case: str | None) -> bytes:
    """The part that repeats from trace to trace, kept as one block."""
    number, text = _SEVERITY.get(outcome, _INFO)
    pairs: list[tuple[str, JsonValue]] = [
        (semconv.EVENT_NAME, semconv.EVALUATION_EVENT),
        (semconv.EVALUATION_NAME, name),
        (semconv.EVALUATION_SCORE_LABEL, outcome),
        (semconv.OUTCOME, outcome),
        (semconv.EVALUATOR, evaluator),
        (semconv.THRESHOLD, threshold),
    ]
    if score is not None:
        pairs.append((semconv.EVALUATION_SCORE_VALUE, score))
    if case is not None:
        pairs.append((semconv.CASE, case))
    severity = LogRecord(severity_number=number, severity_text=text).SerializeToString(deterministic=True)
    return severity + b"".join(attribute(LOG_RECORD_ATTRIBUTES, key, value) for key, value in pairs)
