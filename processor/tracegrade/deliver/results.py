"""The common parts of carrier spans and evaluation events: our own attributes, most of them encoded once."""

import json
from functools import lru_cache
from typing import Any

import orjson

from tracegrade import semconv
from tracegrade.display import explanation
from tracegrade.model.evaluation import Evaluation, JudgedSubject, Pair
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tenant import DEFAULT_TENANT
from tracegrade.model.trace_result import TraceResult
from tracegrade.otlp.encode import LONGEST_KEPT, RESOURCE_ATTRIBUTES, attribute, unkept_attribute

_MAX_DETAILS_BYTES = 64 * 1024
_LONGEST_RESOURCE_KEPT = 16 * 1024
_MOST_MISSING = 20  # this many are named; a trace may lack thousands of parents

# Placeholder for an evaluation's id (always 32 hex digits) in cached encoded bytes.
ANY_ID = "?" * 32


def resource(judged: TraceResult) -> bytes:
    """The judged root's resource, encoded: with another, backends would file results under another service."""
    text = _json(judged.trace.resource)
    return _resource(text) if len(text) <= _LONGEST_RESOURCE_KEPT else _resource.__wrapped__(text)


@lru_cache(maxsize=1024)
def _resource(json_object: bytes) -> bytes:
    attributes = json.loads(json_object)
    return b"".join([unkept_attribute(RESOURCE_ATTRIBUTES, key, attributes[key]) for key in sorted(attributes)])


def full_name(rule_id: str, evaluation: str) -> str:
    """``RULE/NAME``: unique among the evaluations of one subject by one instance, except for cases."""
    return f"{rule_id}/{evaluation}"


def details_json(evaluation: Evaluation) -> str:
    """The details as JSON text; a note that they are left out where they are too large for backends."""
    text = json_text(evaluation.details)
    return text if len(text) <= _MAX_DETAILS_BYTES else json_text({"omitted": f"{len(text)} characters"})


def json_text(value: Any) -> str:
    """JSON with sorted keys: equal values give equal text."""
    return _json(value, sort_keys=True).decode()


def _json(value: Any, sort_keys: bool = False) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except (TypeError, orjson.JSONEncodeError):  # integers beyond 64 bits, lone surrogates
        return json.dumps(value, sort_keys=sort_keys, separators=(",", ":")).encode()


def subject_facts(subject: JudgedSubject) -> tuple[Any, ...]:
    """What attributes say of a subject that many others share."""
    return (
        subject.kind,
        subject.run,
        subject.revision,
        subject.complete,
        subject.close_reason,
        subject.agent,
        subject.tenant,
    )


def shared_attributes(number: int, pair: Pair, supersedes: int | None, facts: tuple[Any, ...]) -> bytes:
    """Our attributes of the (subject, rule, revision), as elements of the field `number`; `facts` of the subject."""
    block = _shared_block if len(pair.subject.agent) <= LONGEST_KEPT else _shared_block.__wrapped__
    return block(number, supersedes, pair.rule_id, pair.rule_hash, pair.level, facts)


def subject_attributes(number: int, subject: JudgedSubject) -> bytes:
    """Our attributes of this subject alone, as elements of the field `number`: they come after the shared ones."""
    known = unkept_attribute(number, semconv.SUBJECT_ID, subject.id)
    if missing := subject.missing:
        return known + unkept_attribute(number, semconv.MISSING, _few(missing))
    return known


@lru_cache(maxsize=8192)
def _shared_block(
    number: int, supersedes: int | None, rule_id: str, rule_hash: str, level: str, facts: tuple[Any, ...]
) -> bytes:
    """The part that repeats from trace to trace, cached as one block: one lookup instead of ten."""
    subject_kind, run, revision, complete, close_reason, agent, tenant = facts
    pairs: list[tuple[str, JsonValue]] = [
        (semconv.RULE_ID, rule_id),
        (semconv.RULE_HASH, rule_hash),
        (semconv.RULE_LEVEL, level),
        (semconv.SUBJECT_KIND, subject_kind),
        (semconv.RUN, run),
        (semconv.REVISION, revision),
        (semconv.COMPLETE, complete),
        (semconv.CLOSE_REASON, close_reason),
    ]
    if supersedes is not None:
        pairs.append((semconv.REPLACES, supersedes))
    if agent:
        pairs.append((semconv.AGENT_NAME, agent))
    if tenant != DEFAULT_TENANT:
        pairs.append((semconv.TENANT, tenant))
    return b"".join([attribute(number, key, value) for key, value in pairs])


def explained(evaluation: Evaluation, include_values: bool) -> tuple[str, str]:
    """The explanation to send: as the first where it repeats from trace to trace, else as the second.

    That of a pass repeats, unless it is long. What is wrong is told with what was found.
    """
    if evaluation.outcome == "pass" and len(evaluation.explanation) <= LONGEST_KEPT:
        return evaluation.explanation, ""
    return "", explanation(evaluation, include_values)


def _few(missing: list[str]) -> list[JsonValue]:
    if len(missing) > _MOST_MISSING:
        return [*missing[:_MOST_MISSING], f"and {len(missing) - _MOST_MISSING} more"]
    return [*missing]
