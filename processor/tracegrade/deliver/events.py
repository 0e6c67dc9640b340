"""Evaluation events: one log record ``gen_ai.evaluation.result`` for each evaluation, attached to its subject."""

from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from tracegrade import semconv
from tracegrade.deliver.record import JudgedTrace
from tracegrade.deliver.results import details_json, error_type, explanation, full_name, groups, shared_attributes
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
        shared = shared_attributes(LOG_RECORD_ATTRIBUTES, group)
        for evaluation in group.evaluations:
            # The time is the carrier's, observed time included: a resend must be identical.
            yield _record(evaluation, group.time_ns) + b"".join(_attributes(evaluation, include_values)) + shared


def _record(evaluation: dict[str, Any], time_ns: int) -> bytes:
    number, text = _SEVERITY.get(evaluation["outcome"], _INFO)
    return LogRecord(
        time_unix_nano=time_ns,
        observed_time_unix_nano=time_ns,
        severity_number=number,
        severity_text=text,
        trace_id=bytes.fromhex(evaluation["trace_id"]),
        span_id=bytes.fromhex(evaluation["span_id"]),
        flags=_SAMPLED,
        event_name=semconv.EVALUATION_EVENT,
    ).SerializeToString(deterministic=True)


def _attributes(evaluation: dict[str, Any], include_values: bool) -> Iterator[bytes]:
    yield attribute(LOG_RECORD_ATTRIBUTES, semconv.EVENT_NAME, semconv.EVALUATION_EVENT)
    yield attribute(LOG_RECORD_ATTRIBUTES, semconv.EVALUATION_NAME, full_name(evaluation))
    if evaluation["score"] is not None:
        yield attribute(LOG_RECORD_ATTRIBUTES, semconv.EVALUATION_SCORE_VALUE, float(evaluation["score"]))
    yield attribute(LOG_RECORD_ATTRIBUTES, semconv.EVALUATION_SCORE_LABEL, evaluation["label"])
    if text := explanation(evaluation, include_values):
        yield attribute(LOG_RECORD_ATTRIBUTES, semconv.EVALUATION_EXPLANATION, text)
    if evaluation["outcome"] == "error":
        yield attribute(LOG_RECORD_ATTRIBUTES, semconv.ERROR_TYPE, error_type(evaluation))
    if evaluation["agent"]:
        yield attribute(LOG_RECORD_ATTRIBUTES, semconv.AGENT_NAME, evaluation["agent"])
    if evaluation["session"]:
        yield unkept_attribute(LOG_RECORD_ATTRIBUTES, semconv.CONVERSATION_ID, evaluation["session"])
    yield unkept_attribute(LOG_RECORD_ATTRIBUTES, semconv.EVALUATION_ID, evaluation["id"])
    yield unkept_attribute(LOG_RECORD_ATTRIBUTES, semconv.SUBJECT_ID, evaluation["subject"]["id"])
    yield attribute(LOG_RECORD_ATTRIBUTES, semconv.OUTCOME, evaluation["outcome"])
    yield attribute(LOG_RECORD_ATTRIBUTES, semconv.EVALUATOR, evaluation["evaluator"])
    yield attribute(LOG_RECORD_ATTRIBUTES, semconv.THRESHOLD, float(evaluation["threshold"]))
    if evaluation["case"] is not None:
        yield attribute(LOG_RECORD_ATTRIBUTES, semconv.CASE, evaluation["case"])
    if include_values:
        yield unkept_attribute(LOG_RECORD_ATTRIBUTES, semconv.DETAILS, details_json(evaluation))
