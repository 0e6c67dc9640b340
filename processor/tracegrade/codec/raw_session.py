"""The session of a trace whose spans are held as they came, found without reading them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tracegrade.codec.raw_spans import RawSpan
from tracegrade.codec.span_reader import json_value
from tracegrade.extract.decode.values import first_text, is_masked, text_among
from tracegrade.extract.extract import session_outside_keys
from tracegrade.extract.reading import SESSION_WORDS
from tracegrade.extract.registry import OURS, in_force
from tracegrade.extract.runs import PREPARING, prepares, root_of
from tracegrade.model.json_value import JsonValue


class SessionUnclear(Exception):
    """Which session it is, only extraction can say."""


def session_in(spans: Sequence[RawSpan], *, has_log_records: bool) -> str | None:
    """The session of a trace of `spans`, as its extraction would have it; None for none.

    Args:
        spans: all of the trace, in order of start.
        has_log_records: whether the trace has such, which may say what its spans are.

    Raises:
        SessionUnclear: several are named, or one that its sender masked, or a dialect reads it of something else than
            an attribute.
    """
    texts: set[str] = set()
    for values in {span.sessions for span in spans}:
        if values is None:
            raise SessionUnclear
        texts.update(text for value in values if (text := _first_text_of(value)))
    is_named = bool(texts)
    with_metadata = [span for span in spans if span.metadata]
    texts.update(text for span in with_metadata for value in span.metadata if (text := _text_in(value)))
    if not texts:
        return None
    if len(texts) > 1 or any(map(is_masked, texts)) or _may_have_no_run(spans):
        raise SessionUnclear
    if not is_named:
        # It counts where its dialect reads metadata, in a span of a tool, a model or an agent.
        if has_log_records or in_force() is not OURS:
            raise SessionUnclear
        if not any(session_outside_keys(span.decoded()) for span in with_metadata):
            return None
    return texts.pop()


def _may_have_no_run(spans: Sequence[RawSpan]) -> bool:
    root = root_of(spans)
    return any(map(root.may_hold, PREPARING)) and prepares(root.decoded())


class _Attributes(NamedTuple):
    attributes: Mapping[str, JsonValue]


def _first_text_of(value: bytes) -> str:
    return first_text(_Attributes({"": json_value(AnyValue.FromString(value))}), ("",))


def _text_in(metadata: bytes) -> str:
    return text_among(json_value(AnyValue.FromString(metadata)), SESSION_WORDS)
