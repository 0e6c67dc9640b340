"""What carrier spans and evaluation events have in common: the (subject, rule) groups and our own attributes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from tracegrade import semconv
from tracegrade.deliver.record import JudgedTrace
from tracegrade.otlp.encode import RESOURCE_ATTRIBUTES, attribute

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
    wanted: list[tuple[str, Any]] = [
        (semconv.RULE_ID, first["rule_id"]),
        (semconv.RULE_HASH, first["rule_hash"]),
        (semconv.RULE_LEVEL, first["level"]),
        (semconv.SUBJECT_KIND, first["subject"]["kind"]),
        (semconv.RUN, first["run"]),
        (semconv.REVISION, first["revision"]),
        (semconv.REPLACES, group.supersedes),
        (semconv.COMPLETE, first["complete"]),
        (semconv.MISSING, _few(first["missing"])),
        (semconv.CLOSE_REASON, first["close_reason"]),
    ]
    return b"".join(attribute(number, key, value) for key, value in wanted if value is not None)


def _few(missing: list[str]) -> list[str] | None:
    if len(missing) > _MOST_MISSING:
        return [*missing[:_MOST_MISSING], f"and {len(missing) - _MOST_MISSING} more"]
    return missing or None
