"""What carrier spans and evaluation events have in common: the (subject, rule) groups and our own attributes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from tracegrade import semconv
from tracegrade.deliver.record import JudgedTrace
from tracegrade.model.json_value import JsonValue
from tracegrade.otlp.encode import RESOURCE_ATTRIBUTES, attribute, unkept_attribute

_MAX_DETAILS_BYTES = 64 * 1024
_MOST_MISSING = 20  # named in full; a trace may lack thousands of parents
_PRECEDENCE = ("fail", "error", "not_evaluable")


@dataclass(slots=True)
class Group:
    """The evaluations of one (subject, rule) in one revision, in the rule's order; never empty."""

    evaluations: list[dict[str, Any]]
    supersedes: int | None

    @property
    def first(self) -> dict[str, Any]:
        """An evaluation to read what all of the group share."""
        return self.evaluations[0]

    @property
    def outcome(self) -> str:
        """The rule's outcome on the subject: fail if any fails, else error, else not_evaluable, else pass."""
        outcomes = {evaluation["outcome"] for evaluation in self.evaluations}
        return next((outcome for outcome in _PRECEDENCE if outcome in outcomes), "pass")

    @property
    def time_ns(self) -> int:
        """The latest end judged, ns since 1970 UTC."""
        return max(int(evaluation["time"]) for evaluation in self.evaluations)


def groups(judged: JudgedTrace) -> Iterator[Group]:
    """The judged trace's evaluations by (subject, rule), in the order in which they were made."""
    found: dict[tuple[str, str, str], Group] = {}
    for evaluation in judged.evaluations:
        subject = evaluation["subject"]
        key = (subject["kind"], subject["id"], evaluation["rule_id"])
        if (group := found.get(key)) is None:
            group = found[key] = Group([], judged.trace.get("supersedes"))
        group.evaluations.append(evaluation)
    yield from found.values()


def resource(judged: JudgedTrace) -> bytes:
    """The judged root's resource, encoded: results under another one are filed under another service or project."""
    attributes = judged.trace["resource"]
    return Resource().SerializeToString() + b"".join(
        attribute(RESOURCE_ATTRIBUTES, key, attributes[key]) for key in sorted(attributes)
    )


def full_name(evaluation: dict[str, Any]) -> str:
    """``RULE/NAME``: unique among what one instance says about one subject, but for cases."""
    return f"{evaluation['rule_id']}/{evaluation['evaluation']}"


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
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except (TypeError, orjson.JSONEncodeError):  # integers beyond 64 bits, lone surrogates
        return json.dumps(value, sort_keys=True, separators=(",", ":"))


def shared_attributes(number: int, group: Group) -> bytes:
    """Our attributes of the (subject, rule, revision), as elements of the field `number`."""
    first = group.first
    subject = first["subject"]
    known = _known_attributes(
        number,
        first["rule_id"],
        first["rule_hash"],
        first["level"],
        subject["kind"],
        first["run"],
        first["revision"],
        group.supersedes,
        first["complete"],
        first["close_reason"],
        first["agent"],
    )
    parts = [known, unkept_attribute(number, semconv.SUBJECT_ID, subject["id"])]
    if missing := first["missing"]:
        parts.append(unkept_attribute(number, semconv.MISSING, _few(missing)))
    return b"".join(parts)


@lru_cache(maxsize=8192)
def _known_attributes(
    number: int,
    rule_id: str,
    rule_hash: str,
    level: str,
    subject_kind: str,
    run: str,
    revision: int,
    supersedes: int | None,
    complete: bool,
    close_reason: str,
    agent: str,
) -> bytes:
    """The part that repeats from trace to trace: kept as one block, which costs one look-up instead of ten."""
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
    return b"".join(attribute(number, key, value) for key, value in pairs)


def _few(missing: list[str]) -> list[JsonValue]:
    if len(missing) > _MOST_MISSING:
        return [*missing[:_MOST_MISSING], f"and {len(missing) - _MOST_MISSING} more"]
    return [*missing]
