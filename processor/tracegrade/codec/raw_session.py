"""The session of a trace whose spans are held as they came, found without reading them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tracegrade.codec.raw_spans import RawSpan
from tracegrade.codec.span_reader import json_value
from tracegrade.extract.decode.values import first_text
from tracegrade.extract.runs import CREATE_AGENT
from tracegrade.model.json_value import JsonValue


class SessionUnclear(Exception):
    """Which session it is, only extraction can say."""


def session_in(spans: Sequence[RawSpan]) -> str | None:
    """The session of a trace of `spans`, as its extraction would have it; None for none.

    Args:
        spans: all of the trace, in order of start.

    Raises:
        SessionUnclear: several are named, or a dialect reads it of something else than an attribute.
    """
    texts: set[str] = set()
    for values in {span.sessions for span in spans}:
        if values is None:
            raise SessionUnclear
        texts.update(text for value in values if (text := _text(value)))
    if not texts:
        return None
    root = next((span for span in spans if span.is_local_root), spans[0])
    if len(texts) > 1 or root.may_hold(CREATE_AGENT):
        raise SessionUnclear
    return texts.pop()


class _Attributes(NamedTuple):
    attributes: Mapping[str, JsonValue]


def _text(value: bytes) -> str:
    return first_text(_Attributes({"": json_value(AnyValue.FromString(value))}), ("",))
