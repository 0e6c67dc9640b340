"""Evaluation events: one log record ``gen_ai.evaluation.result`` for each evaluation, attached to its subject.

Each is put together from cached encoded blocks, field by field, in the order in which protobuf writes them.
"""

from functools import lru_cache
from typing import Any

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from tracegrade import semconv
from tracegrade.deliver.results import (
    ANY_ID,
    details_json,
    full_name,
    shared_attributes,
)
from tracegrade.display import error_type, explanation
from tracegrade.model.evaluation import Decision
from tracegrade.model.json_value import JsonValue
from tracegrade.model.trace_result import TraceResult
from tracegrade.otlp.encode import LOG_RECORD_ATTRIBUTES, attribute, fixed64, recent_attribute, unkept_attribute

_SEVERITY = {
    "fail": (SeverityNumber.SEVERITY_NUMBER_WARN, "WARN"),
    "error": (SeverityNumber.SEVERITY_NUMBER_ERROR, "ERROR"),
}
_INFO = (SeverityNumber.SEVERITY_NUMBER_INFO, "INFO")

_SAMPLED = 1
_TIME, _OBSERVED_TIME = 1, 11  # field numbers
_EVENT_NAME = LogRecord(event_name=semconv.EVALUATION_EVENT).SerializeToString()
_BEFORE_ID = unkept_attribute(LOG_RECORD_ATTRIBUTES, semconv.EVALUATION_ID, ANY_ID).removesuffix(ANY_ID.encode())


def events(judged: TraceResult, include_values: bool) -> list[bytes]:
    """A judged trace's events, encoded; the same record gives the same bytes."""
    found = []
    supersedes = judged.trace.supersedes
    for decision in judged.decisions:
        shared = _shared(decision, supersedes) if decision.evaluations else b""
        rule_id = decision.pair.rule_id
        for evaluation in decision.evaluations:
            text = explanation(evaluation, include_values)
            values = (
                rule_id,
                evaluation.evaluation,
                evaluation.case,
                evaluation.score,
                evaluation.outcome,
                evaluation.evaluator,
                evaluation.threshold,
            )
            parts = [
                shared,
                _known(values),
                evaluation.id.encode(),
                attribute(LOG_RECORD_ATTRIBUTES, semconv.EVALUATION_EXPLANATION, text) if text else b"",
            ]
            if evaluation.outcome == "error":
                parts.append(attribute(LOG_RECORD_ATTRIBUTES, semconv.ERROR_TYPE, error_type(evaluation)))
            if include_values:
                details = details_json(evaluation)
                parts.append(unkept_attribute(LOG_RECORD_ATTRIBUTES, semconv.DETAILS, details))
            found.append(b"".join(parts))
    return found


def _shared(decision: Decision, supersedes: int | None) -> bytes:
    """The fields shared by all events of one (subject, rule, revision). Resends must be identical: no clock is read."""
    subject = decision.pair.subject
    parts = (
        fixed64(_TIME, subject.time),
        _place(subject.trace_id, subject.span_id),
        fixed64(_OBSERVED_TIME, subject.time),
        _EVENT_NAME,
        shared_attributes(LOG_RECORD_ATTRIBUTES, decision, supersedes),
        recent_attribute(LOG_RECORD_ATTRIBUTES, semconv.CONVERSATION_ID, subject.session) if subject.session else b"",
    )
    return b"".join(parts)


# All rules that judge a subject refer to the same span, one after the other.
@lru_cache(maxsize=256)
def _place(trace_id: str, span_id: str) -> bytes:
    ids = LogRecord(trace_id=bytes.fromhex(trace_id), span_id=bytes.fromhex(span_id), flags=_SAMPLED)
    return ids.SerializeToString(deterministic=True)


@lru_cache(maxsize=8192)
def _known(values: tuple[Any, ...]) -> bytes:
    """The part before the evaluation's id, which repeats from trace to trace, cached as one block."""
    rule_id, evaluation, case, score, outcome, evaluator, threshold = values
    pairs: list[tuple[str, JsonValue]] = [
        (semconv.EVENT_NAME, semconv.EVALUATION_EVENT),
        (semconv.EVALUATION_NAME, full_name(rule_id, evaluation)),
        (semconv.EVALUATION_SCORE_LABEL, outcome),
        (semconv.OUTCOME, outcome),
        (semconv.EVALUATOR, evaluator),
        (semconv.THRESHOLD, threshold + 0.0),  # always a double
    ]
    if score is not None:
        pairs.append((semconv.EVALUATION_SCORE_VALUE, score + 0.0))
    if case is not None:
        pairs.append((semconv.CASE, case))
    number, text = _SEVERITY.get(outcome, _INFO)
    severity = LogRecord(severity_number=number, severity_text=text).SerializeToString(deterministic=True)
    attributes = [attribute(LOG_RECORD_ATTRIBUTES, key, value) for key, value in pairs]
    return b"".join([severity, *attributes, _BEFORE_ID])
