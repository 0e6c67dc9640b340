"""Carrier spans: one for each (subject, rule, revision), with what the rule's evaluations say of the subject.

Keys of the evaluations as OpenInference has them: one scope and one target a carrier, the target named by one link.
The carrier is also a child of the subject's span, so that backends that know nothing of links show it in the tree. A
trace whose root is missing gets no children from us: nobody knows yet where they would hang.
"""

from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tracegrade import semconv
from tracegrade.deliver.record import JudgedTrace
from tracegrade.deliver.results import (
    Group,
    details_json,
    error_type,
    explanation,
    full_name,
    groups,
    json_text,
    shared_attributes,
)
from tracegrade.model.json_value import JsonValue
from tracegrade.otlp.encode import SPAN_ATTRIBUTES, attribute, unkept_attribute

_SAMPLED = 1


def carriers(judged: JudgedTrace, include_values: bool) -> Iterator[bytes]:
    """The judged trace's carrier spans, encoded; the same record gives the same bytes."""
    for group in groups(judged):
        yield _span(group) + _attributes(group, include_values)


def _span(group: Group) -> bytes:
    first = group.first
    target_trace, target_span = bytes.fromhex(first["trace_id"]), bytes.fromhex(first["span_id"])
    session = first["subject"]["kind"] == "session"
    childless = session or "root" in first["missing"]
    span = Span(
        trace_id=_session_trace_id(first) if session else target_trace,
        span_id=_derived_id([evaluation["id"] for evaluation in group.evaluations], 8),
        parent_span_id=b"" if childless else target_span,
        name=f"{semconv.OPERATION_EVALUATION} {first['rule_id']}",
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=group.time_ns,
        end_time_unix_nano=group.time_ns,
        flags=_SAMPLED,
        links=[Span.Link(trace_id=target_trace, span_id=target_span, flags=_SAMPLED)],
    )
    if group.outcome == "error":
        span.status.code = Status.STATUS_CODE_ERROR
    return span.SerializeToString(deterministic=True)


def _session_trace_id(evaluation: dict[str, Any]) -> bytes:
    """A trace of its own for what is said about a session: it belongs to none of the session's traces."""
    return _derived_id([evaluation["tenant"], evaluation["subject"]["id"]], 16)


def _derived_id(parts: list[str], size: int) -> bytes:
    digest = blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=size).digest()
    return digest if any(digest) else digest[:-1] + b"\x01"  # an id of zeros is not valid


def _attributes(group: Group, include_values: bool) -> bytes:
    first = group.first
    outcome = group.outcome
    parts = [
        _KIND,
        shared_attributes(SPAN_ATTRIBUTES, group),
        attribute(SPAN_ATTRIBUTES, semconv.OUTCOME, outcome),
        unkept_attribute(
            SPAN_ATTRIBUTES, semconv.EVALUATION_IDS, [evaluation["id"] for evaluation in group.evaluations]
        ),
    ]
    if first["subject"]["kind"] == "session":
        parts.append(unkept_attribute(SPAN_ATTRIBUTES, semconv.SESSION_ID, first["subject"]["id"]))
    if outcome == "error":
        failed = next(evaluation for evaluation in group.evaluations if evaluation["outcome"] == "error")
        parts.append(attribute(SPAN_ATTRIBUTES, semconv.ERROR_TYPE, error_type(failed)))
    prefix = semconv.EVALUATIONS_PREFIX.get(first["subject"]["kind"], semconv.EVALUATIONS_SPAN_PREFIX)
    for index, evaluation in enumerate(group.evaluations):
        parts += _evaluation(f"{prefix}.{index}.evaluation.", evaluation, include_values)
    return b"".join(parts)


_KIND = attribute(SPAN_ATTRIBUTES, semconv.OPERATION_NAME, semconv.OPERATION_EVALUATION) + attribute(
    SPAN_ATTRIBUTES, semconv.OPENINFERENCE_KIND, semconv.SPAN_KIND_EVALUATOR
)


def _evaluation(prefix: str, evaluation: dict[str, Any], include_values: bool) -> Iterator[bytes]:
    score, case = evaluation["score"], evaluation["case"]
    yield _known(prefix, full_name(evaluation), None if score is None else score + 0.0, evaluation["label"], case)
    if text := explanation(evaluation, include_values):
        yield unkept_attribute(SPAN_ATTRIBUTES, prefix + "explanation", text)
    metadata = {key: evaluation[key] for key in ("id", "evaluator", "threshold", "rule_hash", "revision")}
    if case is not None:
        metadata["case"] = case
    if include_values:
        metadata["details"] = details_json(evaluation)
    yield unkept_attribute(SPAN_ATTRIBUTES, prefix + "metadata", json_text(metadata))


@lru_cache(maxsize=8192)
def _known(prefix: str, name: str, score: float | None, label: str, case: str | None) -> bytes:
    """The part that repeats from trace to trace, kept as one block."""
    pairs: list[tuple[str, JsonValue]] = [
        ("name", name),
        ("label", label),
        ("annotator_kind", semconv.ANNOTATOR_KIND_CODE),
        # The same in every revision: a backend that files results by it replaces the earlier one.
        ("identifier", name if case is None else f"{name}/{case}"),
    ]
    if score is not None:
        pairs.append(("score", score))
    return b"".join(attribute(SPAN_ATTRIBUTES, prefix + key, value) for key, value in pairs)
