"""A trace without what neither a dialect nor the rule reads."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tracegrade.codec.span_reader import AttributeFilter
from tracegrade.display import json_text
from tracegrade.extract.extract import claim
from tracegrade.extract.registry import in_force
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Resource, Span
from tracegrade.model.trace import Trace


@dataclass(frozen=True, slots=True)
class Shorter:
    """One way to shorten a trace; ``kept`` says what it leaves that a shorter one would not, "" for nothing."""

    kept: str
    traces: list[Trace]


def shorter_ones(traces: list[Trace], read: AttributeFilter, asked_for: frozenset[str]) -> Iterator[Shorter]:
    """`traces` shortened, the shortest first; last as they are.

    Args:
        traces: they are not changed.
        read: what dialects and the rule read.
        asked_for: the attributes that the rule names.
    """
    users = frozenset(in_force().user_keys) - asked_for
    yield Shorter("", [_shortened(trace, read, users, drops_spans=True) for trace in traces])
    yield Shorter(
        "attributes that name the user", [_shortened(trace, read, frozenset(), drops_spans=True) for trace in traces]
    )
    yield Shorter(
        "spans that no dialect reads", [_shortened(trace, read, frozenset(), drops_spans=False) for trace in traces]
    )
    yield Shorter("all spans and attributes", traces)


def _shortened(trace: Trace, read: AttributeFilter, without: frozenset[str], *, drops_spans: bool) -> Trace:
    spans = [span for span in trace.spans if _is_read(span, trace)] if drops_spans else trace.spans
    parents = {span.span_id: span.parent_span_id for span in trace.spans}
    left = {span.span_id for span in spans}

    def is_kept(key: str) -> bool:
        return key not in without and (key in read.attributes or key.startswith(read.prefixes))

    # Resources that are equal now become one.
    shorter = {id(span.resource): _chosen(span.resource.attributes, is_kept) for span in spans}
    shared = {json_text(attributes): Resource(attributes) for attributes in shorter.values()}
    resources = {number: shared[json_text(attributes)] for number, attributes in shorter.items()}
    return replace(
        trace,
        spans=[
            replace(
                span,
                parent_span_id=_parent(span, parents, left),
                attributes=span.attributes if span.is_whole else _chosen(span.attributes, is_kept),
                resource=resources[id(span.resource)],
            )
            for span in spans
        ],
    )


def _is_read(span: Span, trace: Trace) -> bool:
    has_records = any(record.span_id == span.span_id for record in trace.log_records)
    return (
        span.is_local_root
        or span.unread_keys is not None
        or span.is_whole
        or bool(span.events)
        or has_records
        or claim(span) is not None
    )


def _chosen(attributes: dict[str, JsonValue], is_kept: Callable[[str], bool]) -> dict[str, JsonValue]:
    return {key: value for key, value in attributes.items() if is_kept(key)}


def _parent(span: Span, parents: dict[bytes, bytes], left: set[bytes]) -> bytes:
    """The nearest span above that is left; where the trace itself has none, the parent that is named."""
    above, seen = span.parent_span_id, {span.span_id}
    while above in parents and above not in left and above not in seen:
        seen.add(above)
        above = parents[above]
    return above
