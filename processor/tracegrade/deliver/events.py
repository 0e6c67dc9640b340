"""Evaluation events: one log record ``gen_ai.evaluation.result`` for each evaluation, attached to its subject.

Each is put together from cached encoded blocks, field by field, in the order in which protobuf writes them.
"""

from functools import lru_cache

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from tracegrade import semconv
from tracegrade.deliver.results import (
    ANY_ID,
    details_json,
    explained,
    full_name,
    shared_attributes,
    subject_attributes,
    subject_facts,
)
from tracegrade.display import error_type
from tracegrade.model.evaluation import JudgedSubject
from tracegrade.model.json_value import JsonValue
from tracegrade.model.trace_result import TraceResult
from tracegrade.otlp.encode import LOG_RECORD_ATTRIBUTES, attribute, bytes_field, fixed32, fixed64, unkept_attribute

_SEVERITY = {
    "fail": (SeverityNumber.SEVERITY_NUMBER_WARN, "WARN"),
    "error": (SeverityNumber.SEVERITY_NUMBER_ERROR, "ERROR"),
}
_INFO = (SeverityNumber.SEVERITY_NUMBER_INFO, "INFO")

_SAMPLED = 1
_TIME, _FLAGS, _TRACE_ID, _SPAN_ID, _OBSERVED_TIME = 1, 8, 9, 10, 11  # field numbers
_EVENT_NAME = LogRecord(event_name=semconv.EVALUATION_EVENT).SerializeToString()
_BEFORE_ID = unkept_attribute(LOG_RECORD_ATTRIBUTES, semconv.EVALUATION_ID, ANY_ID).removesuffix(ANY_ID.encode())


def events(judged: TraceResult, include_values: bool) -> list[bytes]:
    """A judged trace's events, encoded; the same record gives the same bytes."""
    found = []
    supersedes = judged.trace.supersedes
    at: JudgedSubject | None = None
    for decision in judged.decisions:
        if not decision.evaluations:
            continue
        pair = decision.pair
        if at is not pair.subject:  # the decisions on one subject come one after the other
            at = pair.subject
            facts, before, after = subject_facts(at), _before(at), _after(at)
        shared = b"".join((before, shared_attributes(LOG_RECORD_ATTRIBUTES, pair, supersedes, facts), after))
        for evaluation in decision.evaluations:
            repeats, text = explained(evaluation, include_values)
            known, after_id = _known(
                pair.rule_id,
                evaluation.evaluation,
                evaluation.case,
                evaluation.score,
                evaluation.outcome,
                evaluation.evaluator,
                evaluation.threshold,
                repeats,
            )
            parts = [shared, known, evaluation.id.encode(), after_id]
            if text:
                parts.append(attribute(LOG_RECORD_ATTRIBUTES, semconv.EVALUATION_EXPLANATION, text))
            if evaluation.outcome == "error":
                parts.append(attribute(LOG_RECORD_ATTRIBUTES, semconv.ERROR_TYPE, error_type(evaluation)))
            if include_values:
                details = details_json(evaluation)
                parts.append(unkept_attribute(LOG_RECORD_ATTRIBUTES, semconv.DETAILS, details))
            found.append(b"".join(parts))
    return found


# The fields shared by all events on one subject. Resends must be identical: no clock is read.
def _before(subject: JudgedSubject) -> bytes:
    parts = (
        fixed64(_TIME, subject.time),
        fixed32(_FLAGS, _SAMPLED),
        bytes_field(_TRACE_ID, bytes.fromhex(subject.trace_id)),
        bytes_field(_SPAN_ID, bytes.fromhex(subject.span_id)),
        fixed64(_OBSERVED_TIME, subject.time),
        _EVENT_NAME,
    )
    return b"".join(parts)


def _after(subject: JudgedSubject) -> bytes:
    found = subject_attributes(LOG_RECORD_ATTRIBUTES, subject)
    if subject.session:
        found += unkept_attribute(LOG_RECORD_ATTRIBUTES, semconv.CONVERSATION_ID, subject.session)
    return found


@lru_cache(maxsize=8192)
def _known(
    rule_id: str,
    evaluation: str,
    case: str | None,
    score: float | None,
    outcome: str,
    evaluator: str,
    threshold: float,
    text: str,
) -> tuple[bytes, bytes]:
    """The parts that repeat from trace to trace: the one before the evaluation's id, and the explanation behind it."""
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
    number, severity_text = _SEVERITY.get(outcome, _INFO)
    severity = LogRecord(severity_number=number, severity_text=severity_text).SerializeToString(deterministic=True)
    attributes = [attribute(LOG_RECORD_ATTRIBUTES, key, value) for key, value in pairs]
    explanation = attribute(LOG_RECORD_ATTRIBUTES, semconv.EVALUATION_EXPLANATION, text) if text else b""
    return b"".join([severity, *attributes, _BEFORE_ID]), explanation
