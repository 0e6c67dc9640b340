"""What carrier spans and evaluation events have in common: the (subject, rule) groups and our own attributes."""

import json
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

import orjson

from tracegrade import semconv
from tracegrade.deliver.record import JudgedTrace
from tracegrade.model.json_value import JsonValue
from tracegrade.otlp.encode import RESOURCE_ATTRIBUTES, attribute, unkept_attribute

_MAX_DETAILS_BYTES = 64 * 1024
_MOST_MISSING = 20  # named in full; a trace may lack thousands of parents
_PRECEDENCE = ("fail", "error", "not_evaluable", "pass")

# Stands for an evaluation's id (32 hex digits, always) in bytes that are encoded once and kept.
ANY_ID = "?" * 32


@dataclass(slots=True)
class Group:
    """The evaluations of one (subject, rule) in one revision, in the rule's order; never empty.

    ``outcome`` is the rule's on the subject: fail if any fails, else error, else not_evaluable, else pass. ``time_ns``
    is the latest end judged, ns since 1970 UTC. ``first`` is there to read what all of the group share.
    """

    evaluations: list[dict[str, Any]]
    supersedes: int | None
    outcome: str
    time_ns: int
    first: dict[str, Any]


def groups(judged: JudgedTrace) -> list[Group]:
    """The judged trace's evaluations by (subject, rule), in the order in which they were made."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for evaluation in judged.evaluations:
        subject = evaluation["subject"]
        key = (evaluation["rule_id"], subject["id"], subject["kind"])
        if key in found:
            found[key].append(evaluation)
        else:
            found[key] = [evaluation]
    supersedes = judged.trace.get("supersedes")
    return [_group(evaluations, supersedes) for evaluations in found.values()]


def _group(evaluations: list[dict[str, Any]], supersedes: int | None) -> Group:
    outcomes = [evaluation["outcome"] for evaluation in evaluations]
    time_ns = max([evaluation["time"] for evaluation in evaluations])
    return Group(evaluations, supersedes, min(outcomes, key=_PRECEDENCE.index), time_ns, evaluations[0])


def resource(judged: JudgedTrace) -> bytes:
    """The judged root's resource, encoded: results under another one are filed under another service or project."""
    return _resource(_json(judged.trace["resource"]))


@lru_cache(maxsize=1024)
def _resource(json_object: bytes) -> bytes:
    attributes = json.loads(json_object)
    return b"".join([unkept_attribute(RESOURCE_ATTRIBUTES, key, attributes[key]) for key in sorted(attributes)])


def full_name(rule_id: str, evaluation: str) -> str:
    """``RULE/NAME``: unique among what one instance says about one subject, but for cases."""
    return f"{rule_id}/{evaluation}"


def error_type(evaluation: dict[str, Any]) -> str:
    """The class of an evaluation's error: its reason is ``TYPE: MESSAGE``."""
    word = str(evaluation["reason"]).partition(":")[0]
    return word if word.replace(".", "_").isidentifier() else semconv.ERROR_TYPE_OTHER


def explanation(evaluation: dict[str, Any], include_values: bool) -> str:
    """The sentence to send. That of an error may quote what the trace held, so it is sent only with values."""
    if evaluation["outcome"] == "error" and not include_values:
        return f"the evaluator failed: {error_type(evaluation)}"
    return str(evaluation["explanation"])


def details_json(evaluation: dict[str, Any]) -> str:
    """The evaluator's justification as JSON text; said to be left out where no backend would take it."""
    text = json_text(evaluation["details"])
    return text if len(text) <= _MAX_DETAILS_BYTES else json_text({"omitted": f"{len(text)} characters"})


def json_text(value: Any) -> str:
    """JSON with sorted keys: equal values give equal text."""
    return _json(value, sort_keys=True).decode()


def _json(value: Any, sort_keys: bool = False) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except (TypeError, orjson.JSONEncodeError):  # integers beyond 64 bits, lone surrogates
        return json.dumps(value, sort_keys=sort_keys, separators=(",", ":")).encode()


_SHARED = itemgetter("rule_id", "rule_hash", "level", "run", "revision", "complete", "close_reason", "agent")


def shared_attributes(number: int, group: Group) -> bytes:
    """Our attributes of the (subject, rule, revision), as elements of the field `number`."""
    first = group.first
    subject = first["subject"]
    known = _shared_block(number, subject["kind"], group.supersedes, _SHARED(first)) + _subject(number, subject["id"])
    if missing := first["missing"]:
        return known + unkept_attribute(number, semconv.MISSING, _few(missing))
    return known


@lru_cache(maxsize=8192)
def _shared_block(number: int, subject_kind: str, supersedes: int | None, shared: tuple[Any, ...]) -> bytes:
    """The part that repeats from trace to trace: kept as one block, which costs one look-up instead of ten."""
    rule_id, rule_hash, level, run, revision, complete, close_reason, agent = shared
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
    return b"".join([attribute(number, key, value) for key, value in pairs])


@lru_cache(maxsize=256)
def _subject(number: int, subject_id: str) -> bytes:
    return unkept_attribute(number, semconv.SUBJECT_ID, subject_id)


def _few(missing: list[str]) -> list[JsonValue]:
    if len(missing) > _MOST_MISSING:
        return [*missing[:_MOST_MISSING], f"and {len(missing) - _MOST_MISSING} more"]
    return [*missing]
