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
    explained,
    full_name,
    json_text,
    shared_attributes,
    subject_attributes,
    subject_facts,
)
from tracegrade.display import error_type
from tracegrade.model.evaluation import Decision, JudgedSubject
from tracegrade.model.json_value import JsonValue
from tracegrade.model.session import session_trace_id
from tracegrade.model.trace_result import TraceResult
from tracegrade.otlp.encode import (
    SPAN_ATTRIBUTES,
    attribute,
    bytes_field,
    fixed32,
    fixed64,
    head,
    repeated,
    unkept_attribute,
)

_SAMPLED = 1
_TRACE_ID, _SPAN_ID, _PARENT_SPAN_ID, _START_TIME, _END_TIME = 1, 2, 4, 7, 8  # field numbers
_LINKS, _LINK_TRACE_ID, _LINK_SPAN_ID, _LINK_FLAGS = 13, 1, 2, 6
_BEFORE_SPAN_ID = head(_SPAN_ID, 8)
_ERROR = Span(status=Status(code=Status.STATUS_CODE_ERROR)).SerializeToString()


def carriers(judged: TraceResult, include_values: bool) -> list[bytes]:
    """A judged trace's carrier spans, encoded; the same record gives the same bytes."""
    found = []
    supersedes = judged.trace.supersedes
    around: _Subject | None = None
    for decision in judged.decisions:
        if decision.evaluations:
            subject = decision.pair.subject
            if around is None or around.subject is not subject:  # the decisions on one come one after the other
                around = _Subject(subject)
            found.append(_carrier(decision, around, supersedes, include_values))
    return found


class _Subject:
    """The fields shared by all carriers of a subject."""

    __slots__ = ("attributes", "facts", "is_session", "parent", "place", "scope", "subject", "trace_id")

    def __init__(self, subject: JudgedSubject) -> None:
        trace, span = bytes.fromhex(subject.trace_id), bytes.fromhex(subject.span_id)
        self.subject = subject
        self.is_session = subject.kind == "session"
        own = session_trace_id(subject.tenant, subject.id) if self.is_session else trace
        self.trace_id = bytes_field(_TRACE_ID, own)
        self.parent = b"" if self.is_session or "root" in subject.missing else bytes_field(_PARENT_SPAN_ID, span)
        link = bytes_field(_LINK_TRACE_ID, trace) + bytes_field(_LINK_SPAN_ID, span) + fixed32(_LINK_FLAGS, _SAMPLED)
        times = fixed64(_START_TIME, subject.time) + fixed64(_END_TIME, subject.time)
        self.place = times + repeated(_LINKS, link)
        self.facts = subject_facts(subject)
        self.attributes = subject_attributes(SPAN_ATTRIBUTES, subject)
        self.scope = semconv.EVALUATIONS_PREFIX.get(subject.kind, semconv.EVALUATIONS_SPAN_PREFIX)


def _carrier(decision: Decision, around: _Subject, supersedes: int | None, include_values: bool) -> bytes:
    pair, evaluations = decision.pair, decision.evaluations
    rule_id, rule_hash, revision, scope = pair.rule_id, pair.rule_hash, around.subject.revision, around.scope
    ids = [evaluation.id.encode() for evaluation in evaluations]
    parts = [
        around.trace_id,
        _BEFORE_SPAN_ID,
        _derived_span_id(ids),
        around.parent,
        _named(rule_id),
        around.place,
        _ERROR if decision.kind == "error" else b"",
        _FLAGS_AND_KIND,
        shared_attributes(SPAN_ATTRIBUTES, pair, supersedes, around.facts),
        around.attributes,
        _before_ids(decision.outcome or decision.kind, len(ids)),
    ]
    for evaluation_id in ids:
        parts += (_BEFORE_ID, evaluation_id)
    if around.is_session:
        parts.append(unkept_attribute(SPAN_ATTRIBUTES, semconv.SESSION_ID, around.subject.id))
    if decision.kind == "error":
        failed = next(evaluation for evaluation in evaluations if evaluation.outcome == "error")
        parts.append(attribute(SPAN_ATTRIBUTES, semconv.ERROR_TYPE, error_type(failed)))
    for index, evaluation in enumerate(evaluations):
        repeats, text = explained(evaluation, include_values)
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
        known, before_id, after_id = _known(scope, index, repeats, values)
        parts.append(known)
        if text:
            parts.append(attribute(SPAN_ATTRIBUTES, _key(scope, index, "explanation"), text))
        if include_values:
            metadata = _metadata(values) | {"id": evaluation.id, "details": details_json(evaluation)}
            parts.append(unkept_attribute(SPAN_ATTRIBUTES, _key(scope, index, "metadata"), json_text(metadata)))
        else:
            parts += (before_id, ids[index], after_id)
    return b"".join(parts)


@lru_cache(maxsize=8192)
def _named(rule_id: str) -> bytes:
    span = Span(name=f"{semconv.OPERATION_EVALUATION} {rule_id}", kind=Span.SPAN_KIND_INTERNAL)
    return span.SerializeToString(deterministic=True)


def _derived_span_id(evaluation_ids: list[bytes]) -> bytes:
    digest = blake2b(b"\0".join(evaluation_ids), digest_size=8).digest()
    return digest if any(digest) else digest[:-1] + b"\x01"  # an id of only zeros is not valid


_FLAGS_AND_KIND = (
    Span(flags=_SAMPLED).SerializeToString()
    + attribute(SPAN_ATTRIBUTES, semconv.OPERATION_NAME, semconv.OPERATION_EVALUATION)
    + attribute(SPAN_ATTRIBUTES, semconv.OPENINFERENCE_KIND, semconv.SPAN_KIND_EVALUATOR)
)
# An element of the array of ids, up to the id.
_BEFORE_ID = repeated(1, repeated(1, ANY_ID.encode())).removesuffix(ANY_ID.encode())


@lru_cache(maxsize=1024)
def _before_ids(outcome: str, count: int) -> bytes:
    """The outcome, and the head of the attribute that lists the evaluations' ids, which depends on their number."""
    ids = unkept_attribute(SPAN_ATTRIBUTES, semconv.EVALUATION_IDS, [ANY_ID] * count)
    head = ids[: len(ids) - count * (len(_BEFORE_ID) + len(ANY_ID))]
    return attribute(SPAN_ATTRIBUTES, semconv.OUTCOME, outcome) + head


@lru_cache(maxsize=8192)
def _known(scope: str, index: int, text: str, values: tuple[Any, ...]) -> tuple[bytes, bytes, bytes]:
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
    if text:
        pairs.append(("explanation", text))
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
