"""Carrier spans: one for each (subject, rule, revision), with the rule's evaluations of the subject.

The keys of evaluations are those of OpenInference: each carrier has one scope and one target, named by one link. The
carrier is also a child of the subject's span, so that backends that do not know links show it in the tree. A trace
whose root is missing gets no children from us, since their place in the tree is unknown.

Each is put together from cached encoded blocks, field by field, in the order in which protobuf writes them.
"""

from functools import lru_cache
from hashlib import blake2b
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tracegrade import semconv
from tracegrade.deliver.results import (
    ANY_ID,
    details_json,
    full_name,
    json_text,
    shared_attributes,
)
from tracegrade.display import error_type, explanation
from tracegrade.model.evaluation import Decision
from tracegrade.model.json_value import JsonValue
from tracegrade.model.session import session_trace_id
from tracegrade.model.trace_result import TraceResult
from tracegrade.otlp.encode import SPAN_ATTRIBUTES, attribute, fixed64, repeated, unkept_attribute

_SAMPLED = 1
_TRACE_ID, _SPAN_ID, _START_TIME, _END_TIME = 1, 2, 7, 8  # field numbers
_FLAGS = Span(flags=_SAMPLED).SerializeToString()
_ERROR = Span(status=Status(code=Status.STATUS_CODE_ERROR)).SerializeToString()


def carriers(judged: TraceResult, include_values: bool) -> list[bytes]:
    """A judged trace's carrier spans, encoded; the same record gives the same bytes."""
    supersedes = judged.trace.supersedes
    return [
        b"".join([*_span(decision), *_attributes(decision, supersedes, include_values)])
        for decision in judged.decisions
        if decision.evaluations
    ]


def _span(decision: Decision) -> list[bytes]:
    pair = decision.pair
    subject = pair.subject
    trace_id, parent, link = _target(subject.trace_id, subject.span_id)
    is_session = subject.kind == "session"
    return [
        repeated(_TRACE_ID, session_trace_id(subject.tenant, subject.id)) if is_session else trace_id,
        repeated(_SPAN_ID, _derived_span_id([evaluation.id for evaluation in decision.evaluations])),
        b"" if is_session or "root" in subject.missing else parent,
        _named(pair.rule_id),
        fixed64(_START_TIME, subject.time),
        fixed64(_END_TIME, subject.time),
        link,
        _ERROR if decision.kind == "error" else b"",
        _FLAGS,
    ]


@lru_cache(maxsize=256)
def _target(trace_id: str, span_id: str) -> tuple[bytes, bytes, bytes]:
    """The fields shared by all carriers of a subject: its span's trace id, the span as parent, and the link to it."""
    trace, span = bytes.fromhex(trace_id), bytes.fromhex(span_id)
    link = Span.Link(trace_id=trace, span_id=span, flags=_SAMPLED)
    parts = (Span(trace_id=trace), Span(parent_span_id=span), Span(links=[link]))
    trace_field, parent_field, link_field = [part.SerializeToString(deterministic=True) for part in parts]
    return trace_field, parent_field, link_field


@lru_cache(maxsize=8192)
def _named(rule_id: str) -> bytes:
    span = Span(name=f"{semconv.OPERATION_EVALUATION} {rule_id}", kind=Span.SPAN_KIND_INTERNAL)
    return span.SerializeToString(deterministic=True)


def _derived_span_id(evaluation_ids: list[str]) -> bytes:
    digest = blake2b("\0".join(evaluation_ids).encode(), digest_size=8).digest()
    return digest if any(digest) else digest[:-1] + b"\x01"  # an id of only zeros is not valid


def _attributes(decision: Decision, supersedes: int | None, include_values: bool) -> list[bytes]:
    subject = decision.pair.subject
    kind = subject.kind
    parts = [
        _KIND,
        shared_attributes(SPAN_ATTRIBUTES, decision, supersedes),
        attribute(SPAN_ATTRIBUTES, semconv.OUTCOME, decision.outcome or decision.kind),
        *_ids([evaluation.id for evaluation in decision.evaluations]),
    ]
    if kind == "session":
        parts.append(unkept_attribute(SPAN_ATTRIBUTES, semconv.SESSION_ID, subject.id))
    if decision.kind == "error":
        failed = next(evaluation for evaluation in decision.evaluations if evaluation.outcome == "error")
        parts.append(attribute(SPAN_ATTRIBUTES, semconv.ERROR_TYPE, error_type(failed)))
    scope = semconv.EVALUATIONS_PREFIX.get(kind, semconv.EVALUATIONS_SPAN_PREFIX)
    rule_id, rule_hash, revision = decision.pair.rule_id, decision.pair.rule_hash, subject.revision
    for index, evaluation in enumerate(decision.evaluations):
        values = (
            rule_id,
            evaluation.evaluation,
            evaluation.case,
            evaluation.score,
            evaluation.outcome,
            evaluation.evaluator,
            evaluation.threshold,
            rule_hash,
            revision,
        )
        known, before_id, after_id = _known(scope, index, values)
        parts.append(known)
        if text := explanation(evaluation, include_values):
            parts.append(attribute(SPAN_ATTRIBUTES, _key(scope, index, "explanation"), text))
        if include_values:
            metadata = _metadata(values) | {"id": evaluation.id, "details": details_json(evaluation)}
            parts.append(unkept_attribute(SPAN_ATTRIBUTES, _key(scope, index, "metadata"), json_text(metadata)))
        else:
            parts += (before_id, evaluation.id.encode(), after_id)
    return parts


_KIND = attribute(SPAN_ATTRIBUTES, semconv.OPERATION_NAME, semconv.OPERATION_EVALUATION) + attribute(
    SPAN_ATTRIBUTES, semconv.OPENINFERENCE_KIND, semconv.SPAN_KIND_EVALUATOR
)
# An element of the array of ids, up to the id.
_BEFORE_ID = repeated(1, repeated(1, ANY_ID.encode())).removesuffix(ANY_ID.encode())


def _ids(ids: list[str]) -> tuple[bytes, bytes]:
    """The attribute that lists the evaluations' ids: its head, which depends only on their number, and the ids."""
    return _before_ids(len(ids)), b"".join([_BEFORE_ID + evaluation_id.encode() for evaluation_id in ids])


@lru_cache(maxsize=1024)
def _before_ids(count: int) -> bytes:
    whole = unkept_attribute(SPAN_ATTRIBUTES, semconv.EVALUATION_IDS, [ANY_ID] * count)
    return whole[: len(whole) - count * (len(_BEFORE_ID) + len(ANY_ID))]


@lru_cache(maxsize=8192)
def _known(scope: str, index: int, values: tuple[Any, ...]) -> tuple[bytes, bytes, bytes]:
    """The parts that repeat from trace to trace: the first fields, and the metadata before and after the id."""
    rule_id, evaluation, case, score, label, *_ = values
    name = full_name(rule_id, evaluation)
    pairs: list[tuple[str, JsonValue]] = [
        ("name", name),
        ("label", label),
        ("annotator_kind", semconv.ANNOTATOR_KIND_CODE),
        # The same in every revision: a backend that stores results under it replaces the earlier one.
        ("identifier", name if case is None else f"{name}/{case}"),
    ]
    if score is not None:
        pairs.append(("score", score + 0.0))
    known = b"".join([attribute(SPAN_ATTRIBUTES, _key(scope, index, key), value) for key, value in pairs])
    text = json_text(_metadata(values) | {"id": ANY_ID})
    metadata = unkept_attribute(SPAN_ATTRIBUTES, _key(scope, index, "metadata"), text)
    before_id, _, after_id = metadata.rpartition(ANY_ID.encode())  # the case, which may hold anything, comes before it
    return known, before_id, after_id


def _metadata(values: tuple[Any, ...]) -> dict[str, Any]:
    """The metadata of an evaluation without its id and details."""
    _, _, case, _, _, evaluator, threshold, rule_hash, revision = values
    metadata = {"evaluator": evaluator, "threshold": threshold, "rule_hash": rule_hash, "revision": revision}
    return metadata if case is None else metadata | {"case": case}


@lru_cache(maxsize=1024)
def _key(scope: str, index: int, key: str) -> str:
    return f"{scope}.{index}.evaluation.{key}"
