"""Traces with stand-ins for personal data and secrets, by which a rule still says the same."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from tracegrade.display import count, json_text
from tracegrade.document.problem import dotted
from tracegrade.extract.extract import extract
from tracegrade.model.errors import NotPossible
from tracegrade.model.json_value import JsonValue
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Resource, Span, SpanEvent
from tracegrade.model.trace import Trace
from tracegrade.otlp.from_spans import requests_of
from tracegrade.otlp.json import to_json
from tracegrade.redact.known import known_ids
from tracegrade.redact.redactor import Finding, Redactor
from tracegrade.redact.scan.disguised import disguised
from tracegrade.sensitive.detector import Detector
from tracegrade.sensitive.registry import all_detectors

CALL_ID = "call_id"
DISGUISED = "disguised"
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class Redacted:
    """Redacted traces; ``counts``: how often each detector's finds were replaced, ``kept``: paths of what was not."""

    traces: list[Trace]
    counts: dict[str, int] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)


def redacted(
    traces: Sequence[Trace], keep: Sequence[str], says_the_same: Callable[[list[Trace]], bool], rule_id: str
) -> Redacted:
    """`traces` with stand-ins.

    A number that looks like personal data and that the rule compares stays as it is: it is a number of something else.

    Args:
        traces: they are not changed; equal values in any of them get the same stand-in.
        keep: paths at which values stay as they are, with ``*`` for any text; such a value stays wherever it stands.
        says_the_same: whether the rule says of traces what it said of these.
        rule_id: of the rule.

    Raises:
        NotPossible: nothing was found at a path to keep; or a stand-in changes what the rule says.
    """
    make = _Redactors(traces)
    first, found = make.redacted(frozenset())
    chosen = _at_paths(found, keep)
    result, of_result = (first, found) if not chosen else make.redacted(chosen)
    if not says_the_same(result):
        compared = _compared_values(make, found, chosen, says_the_same)
        if not compared or not compared <= found.in_numbers:
            raise NotPossible(_refusal(found, compared, rule_id))
        chosen |= compared
        result, of_result = make.redacted(chosen)
    return Redacted(result, dict(sorted(of_result.counts.items())), sorted(_paths(found, chosen)))


class _Redactors:
    """Redactors of the same traces, which differ in what they keep."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        self._traces = traces
        ids = {call.call_id for trace in traces for call in extract(trace).calls if call.call_id}
        self._detectors = (_disguised(), known_ids(CALL_ID, ids), *all_detectors())
        self._whole = "".join(json_text(to_json(request)) for trace in traces for request in requests_of(trace))

    def redacted(self, keep: Collection[Finding]) -> tuple[list[Trace], Redactor]:
        redactor = Redactor(self._detectors, keep=keep, is_taken=lambda stand_in: stand_in in self._whole)
        return [_redacted_trace(trace, redactor) for trace in self._traces], redactor


@cache
def _disguised() -> Detector:
    """Compiled once a process: compiling costs more than redacting a trace."""
    return disguised(DISGUISED, all_detectors())


def _redacted_trace(trace: Trace, redactor: Redactor) -> Trace:
    resources = {id(span.resource): Resource(_attributes(span.resource.attributes, redactor)) for span in trace.spans}
    return replace(
        trace,
        spans=[_redacted_span(span, resources[id(span.resource)], redactor) for span in trace.spans],
        log_records=[
            LogRecord(record.trace_id, record.span_id, record.scope, _event(record.event, redactor))
            for record in trace.log_records
        ],
    )


def _redacted_span(span: Span, resource: Resource, redactor: Redactor) -> Span:
    return replace(
        span,
        name=redactor.text(span.name, ("span.name",)),
        status_message=redactor.text(span.status_message, ("span.status_message",)),
        attributes=_attributes(span.attributes, redactor),
        events=[_event(event, redactor) for event in span.events],
        resource=resource,
    )


def _event(event: SpanEvent, redactor: Redactor) -> SpanEvent:
    return SpanEvent(event.name, event.time_ns, _attributes(event.attributes, redactor))


def _attributes(attributes: dict[str, JsonValue], redactor: Redactor) -> dict[str, JsonValue]:
    return {key: redactor.value(value, (key,)) for key, value in attributes.items()}


def _at_paths(found: Redactor, keep: Sequence[str]) -> set[Finding]:
    chosen: set[Finding] = set()
    for path in keep:
        pattern = re.compile(re.escape(path).replace(r"\*", ".*"), re.DOTALL)
        here = {
            finding
            for finding, places in found.places.items()
            if any(pattern.fullmatch(dotted(place)) for place in places)
        }
        if not here:
            known = _listed(_paths(found, found.places)) or "nowhere in this trace"
            raise NotPossible(f"--keep {path!r}: nothing to redact was found there; it was found at {known}")
        chosen |= here
    return chosen


def _compared_values(
    make: _Redactors, found: Redactor, chosen: set[Finding], says_the_same: Callable[[list[Trace]], bool]
) -> set[Finding]:
    """The fewest values that have to stay, found by giving up one after the other; empty if that does not help."""
    needed = set(found.places)
    if not says_the_same(make.redacted(needed)[0]):
        return set()
    for finding in sorted(found.places.keys() - chosen):
        if says_the_same(make.redacted(needed - {finding})[0]):
            needed.remove(finding)
    return needed - chosen


def _refusal(found: Redactor, compared: set[Finding], rule_id: str) -> str:
    if not compared:
        return (
            f"redacting changes what rule {rule_id} says, whichever values stay; --no-redact writes the trace as it is"
        )
    by_detector = ", ".join(
        f"{number} {name}" for name, number in sorted(Counter(name for name, _ in compared).items())
    )
    paths = _paths(found, compared)
    keep = " ".join(f"--keep '{path}'" for path in paths[:_MAX_NAMED])
    return (
        f"rule {rule_id} reads {count(len(compared), 'value')} that would be redacted ({by_detector}), and says "
        f"something else of a stand-in; found at {_listed(paths)}. If that may be written as it is, give {keep}; of "
        "made-up data, give --no-redact"
    )


def _paths(found: Redactor, findings: Collection[Finding]) -> list[str]:
    """One path of each value: the first of those at which it stands."""
    return list(dict.fromkeys(min(map(dotted, found.places[finding])) for finding in sorted(findings)))


def _listed(paths: Sequence[str]) -> str:
    more = len(paths) - _MAX_NAMED
    return ", ".join(paths[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
