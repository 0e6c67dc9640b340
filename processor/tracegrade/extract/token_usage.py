"""The tokens of model calls: which spans count, and whose they are.

Spans around a model call often repeat its tokens, or add up those of several. So the innermost spans that have any
count: a span that has tokens and contains another one with tokens does not.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import TypeAlias

from tracegrade import semconv as s
from tracegrade.extract.extract import model_named_by
from tracegrade.model.extraction import Extraction
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span
from tracegrade.model.usage import Tokens, Usage

ModelCall: TypeAlias = tuple[Span, Tokens]

_TOKEN_USAGE = frozenset(s.TOKEN_USAGE)


def model_calls(extraction: Extraction) -> dict[str | None, list[ModelCall]]:
    """The spans whose tokens count, with these, by the run (hex id) around them; None is that of no run."""
    spans = extraction.trace.spans
    used = {span.span_id: (span, tokens) for span in spans if (tokens := _tokens_of(span)) is not None}
    if not used:
        return {}
    parents = {span.span_id: span.parent_span_id for span in spans}
    around: set[bytes] = set()
    for span_id in used:
        above = parents.get(span_id)
        while above is not None and above not in around:
            around.add(above)
            above = parents.get(above)
    run_of: dict[bytes, str | None] = {bytes.fromhex(run.span_id): run.span_id for run in extraction.runs}
    found: dict[str | None, list[ModelCall]] = {}
    for span_id, call in used.items():
        if span_id not in around:
            found.setdefault(run_around(span_id, parents, run_of), []).append(call)
    return found


def tokens_by_run(extraction: Extraction) -> dict[str | None, Tokens]:
    """The tokens of each run's model calls together, by the run (hex id); None is that of no run."""
    found = {}
    for run, calls in model_calls(extraction).items():
        total = calls[0][1]
        for _, tokens in calls[1:]:
            total = total.plus(tokens)
        found[run] = total
    return found


def usage_of(call: ModelCall) -> Usage:
    """What a model call used, and of which model."""
    span, tokens = call
    return Usage(model_named_by(span), tokens)


def run_around(span_id: bytes, parents: Mapping[bytes, bytes], run_of: dict[bytes, str | None]) -> str | None:
    """The innermost agent run around a span, or the span itself; afterwards `run_of` has it for all on the way."""
    way: dict[bytes, None] = {}  # parents may go round in a circle
    at: bytes | None = span_id
    while at is not None and at not in run_of and at not in way:
        way[at] = None
        at = parents.get(at)
    run = None if at is None else run_of.get(at)
    run_of.update(dict.fromkeys(way, run))
    return run


def _tokens_of(span: Span) -> Tokens | None:
    attributes = span.attributes
    if attributes.keys().isdisjoint(_TOKEN_USAGE):
        return None
    taken_in, given_out = _first(attributes, s.TOKENS_IN), _first(attributes, s.TOKENS_OUT)
    cached, written = _first(attributes, s.TOKENS_CACHED) or 0, _first(attributes, s.TOKENS_CACHE_WRITE) or 0
    if taken_in is None and given_out is None:
        total = _first(attributes, s.TOKENS_TOTAL)
        return None if total is None else Tokens(None, None, total, cached, written)
    return Tokens(taken_in, given_out, (taken_in or 0) + (given_out or 0), cached, written)


def _first(attributes: Mapping[str, JsonValue], keys: Sequence[str]) -> int | None:
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < inf:
            return int(value)
    return None
