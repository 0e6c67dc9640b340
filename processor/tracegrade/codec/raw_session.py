"""The session of a trace whose spans are held as they came, found without reading them."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from tracegrade.codec.raw_spans import RawSpan, keyed_span
from tracegrade.codec.span_reader import json_value
from tracegrade.extract.decode.values import first_text
from tracegrade.extract.dialect_set import DialectSet
from tracegrade.extract.registry import in_force
from tracegrade.extract.runs import CREATE_AGENT
from tracegrade.model.json_value import JsonValue

# Senders repeat few sets of keys; flattened messages make ever new ones.
_MAX_LEARNT_SETS = 1024
_MAX_LEARNT_KEYS = 64


class SessionUnclear(Exception):
    """Which session it is, only extraction can say."""


def session_in(spans: Sequence[RawSpan]) -> str | None:
    """The session of a trace of `spans`, as its extraction would have it; None for none.

    Args:
        spans: all of the trace, in order of start.

    Raises:
        SessionUnclear: several are named, or a dialect reads it of something else than an attribute.
    """
    chosen = _session_keys(in_force())
    values: set[str | int] = set()
    for span in spans:
        keyed = keyed_span(span.raw).attributes
        keys = chosen[tuple(keyed)]
        if keys is None:
            raise SessionUnclear
        for key in keys:
            value = keyed[key].string_value or json_value(keyed[key])
            if isinstance(value, str | int):
                values.add(value)
    texts = {text for value in values if (text := first_text(_Attributes({"": value}), ("",)))}
    if not texts:
        return None
    root = next((span for span in spans if span.is_local_root), spans[0])
    if len(texts) > 1 or root.may_hold(CREATE_AGENT):
        raise SessionUnclear
    return texts.pop()


class _Attributes(NamedTuple):
    attributes: Mapping[str, JsonValue]


class _SessionKeys(dict[tuple[str, ...], tuple[str, ...] | None]):
    """Of the attribute keys of a span, those that may hold a session; None where a dialect may read it elsewhere."""

    def __init__(self, dialects: DialectSet) -> None:
        self._keys = frozenset(dialects.session_keys)
        self._elsewhere = dialects.session_marks

    def __missing__(self, names: tuple[str, ...]) -> tuple[str, ...] | None:
        elsewhere = self._elsewhere is None or not self._elsewhere.isdisjoint(names)
        found = None if elsewhere else tuple(key for key in names if key in self._keys)
        if len(names) <= _MAX_LEARNT_KEYS:
            if len(self) >= _MAX_LEARNT_SETS:
                self.clear()
            self[names] = found
        return found


@lru_cache(maxsize=4)
def _session_keys(dialects: DialectSet) -> _SessionKeys:
    return _SessionKeys(dialects)
