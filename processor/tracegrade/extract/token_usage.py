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
from tracegrade.model.span import Span
from tracegrade.model.usage import Tokens, Usage

ModelCall: TypeAlias = tuple[Span, Tokens]

_TOKEN_USAGE = frozenset(s.TOKEN_USAGE)
_KINDS = (s.TOKENS_IN, s.TOKENS_OUT, s.TOKENS_TOTAL, s.TOKENS_CACHED, s.TOKENS_CACHE_WRITE)
_USUAL = {s.TOKENS_IN[0], s.TOKENS_OUT[0]}
# By key: of what it is the number, and its place among the keys of that, of which the first counts.
_TOKEN_USAGE_PLACES = {key: (kind, place) for kind, keys in enumerate(_KINDS) for place, key in enumerate(keys)}


def model_calls(extraction: Extraction) -> dict[str | None, list[ModelCall]]:
    """The spans whose tokens count, with these, by the run (hex id) around them; None is that of no run."""
    spans = extraction.trace.spans
    used = {}
    for span in spans:
        if not span.attributes.keys().isdisjoint(_TOKEN_USAGE) and (tokens := _tokens_of(span)) is not None:
            used[span.span_id] = span, tokens
    if not used:
        return {}
    parents = {span.span_id: span.parent_span_id for span in spans}
    around: set[bytes] = set()
    for span, _ in used.values():
        above: bytes | None = span.parent_span_id
        while above is not None and above not in around:
            around.add(above)
            above = parents.get(above)
    run_of: dict[bytes, str | None] = {bytes.fromhex(run.span_id): run.span_id for run in extraction.runs}
    found: dict[str | None, list[ModelCall]] = {}
    for span_id, call in used.items():
        if span_id not in around:
            # Nearly every call stands right below its run; the walk up is for the others.
            known = None if span_id in run_of else run_of.get(parents[span_id])
            found.setdefault(known or run_around(span_id, parents, run_of), []).append(call)
    return found


def added_up(calls: Sequence[ModelCall]) -> Tokens:
    """The tokens of some model calls together; there is at least one."""
    if len(calls) == 1:
        return calls[0][1]
    inputs, outputs, totals, cached, written = zip(*[tokens for _, tokens in calls], strict=True)
    return Tokens(_sum(inputs), _sum(outputs), sum(totals), sum(cached), sum(written))


def _sum(numbers: Sequence[int | None]) -> int | None:
    """The sum of those that are known; None where none is."""
    if None not in numbers:
        return sum(numbers)  # type: ignore[arg-type]
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


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
    keys = _TOKEN_USAGE.intersection(attributes)
    if keys == _USUAL:  # what nearly all senders write, in a third of the time
        taken_in, given_out = attributes[s.TOKENS_IN[0]], attributes[s.TOKENS_OUT[0]]
        if type(taken_in) is int and type(given_out) is int and taken_in >= 0 and given_out >= 0:
            return Tokens(taken_in, given_out, taken_in + given_out)
    counts: list[int | None] = [None] * len(_KINDS)
    places = [len(_TOKEN_USAGE)] * len(_KINDS)
    for key in keys:
        kind, place = _TOKEN_USAGE_PLACES[key]
        value = attributes[key]
        is_number = value.__class__ is int or value.__class__ is float
        if is_number and place < places[kind] and 0 <= value < inf:  # type: ignore[operator]
            counts[kind], places[kind] = int(value), place  # type: ignore[arg-type]
    inputs, outputs, total, cached, written = counts
    if inputs is None and outputs is None:
        return None if total is None else Tokens(None, None, total, cached or 0, written or 0)
    return Tokens(inputs, outputs, (inputs or 0) + (outputs or 0), cached or 0, written or 0)
