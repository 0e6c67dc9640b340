"""Bytes to spans and log records, keeping only the attributes that something reads."""

from collections.abc import Container
from typing import Any

from tracegrade.assemble.share import ALL, Share, share_of
from tracegrade.codec.keyed_request import KeyedLogsRequest, KeyedRequest
from tracegrade.codec.span_reader import AttributeFilter, SpanReader, all_values, json_value
from tracegrade.model.log_record import LogRecord
from tracegrade.model.signal import Signal
from tracegrade.model.span import Resource, Span, SpanEvent
from tracegrade.semconv import EVENT_NAME, LOG_BODY, MOVED_CONTENT, OWN_SCOPE


class Decoder:
    """Turns OTLP requests into `Span`s and `LogRecord`s."""

    def __init__(self, attribute_filter: AttributeFilter, share: Share = ALL) -> None:
        """Only what is of `share` is decoded and counted as own; ``other_*`` count the rest."""
        self.use(attribute_filter)
        self.own_spans = 0  # spans of our own scope left out so far
        self.own_log_records = 0
        self.other_spans = 0  # spans of other shares left out so far
        self.other_log_records = 0
        self.unwanted_log_records = 0  # log records that nothing reads, left out so far
        self._share = None if share.is_all else share

    def use(self, attribute_filter: AttributeFilter) -> None:
        """Apply `attribute_filter` to everything that is decoded from now on."""
        self._reader = SpanReader(attribute_filter)
        self._kept_events = attribute_filter.events

    def spans(self, payload: bytes, trace_ids: Container[bytes] | None = None) -> list[Span]:
        """The spans of one ExportTraceServiceRequest, in its order; spans of our own scope are counted instead.

        Attributes are in order of their keys. With `trace_ids`, only the spans of these traces.

        Raises:
            google.protobuf.message.DecodeError: not such a request. Everything journalled was parsed before.
        """
        request = KeyedRequest.FromString(payload)
        read = self._reader.read
        decoded: list[Span] = []
        for resource_spans in request.resource_spans:
            resource: Resource | None = None
            for scope_spans in resource_spans.scope_spans:
                spans = scope_spans.spans
                if self._share is not None:
                    spans = self._share.chosen(spans)
                    self.other_spans += len(scope_spans.spans) - len(spans)
                    if not spans:
                        continue
                scope = scope_spans.scope.name
                if scope == OWN_SCOPE:
                    self.own_spans += len(spans)
                    continue
                if resource is None:
                    resource = Resource(all_values(resource_spans.resource.attributes))
                if trace_ids is not None:
                    spans = [span for span in spans if span.trace_id in trace_ids]
                for span in spans:
                    decoded.append(read(span, scope, resource))
        return decoded

    def log_records(self, payload: bytes) -> list[LogRecord]:
        """The log records of one ExportLogsServiceRequest that name a span and are events that something reads.

        Those of our own scope are counted. All others, nearly all log records, are left out after a look at their ids
        and their name.

        Raises:
            google.protobuf.message.DecodeError: not such a request. Everything journalled was parsed before.
        """
        decoded: list[LogRecord] = []
        for resource_logs in KeyedLogsRequest.FromString(payload).resource_logs:
            for scope_logs in resource_logs.scope_logs:
                records = scope_logs.log_records
                if self._share is not None:
                    records = self._share.chosen(records)
                    self.other_log_records += len(scope_logs.log_records) - len(records)
                scope = scope_logs.scope.name
                if scope == OWN_SCOPE:
                    self.own_log_records += len(records)
                    continue
                kept = len(decoded)
                for record in records:
                    if record.span_id and (event := self._log_event(record, scope)) is not None:
                        decoded.append(LogRecord(record.trace_id, record.span_id, scope, event))
                self.unwanted_log_records += len(records) - (len(decoded) - kept)
        return decoded

    def _log_event(self, record: Any, scope: str) -> SpanEvent | None:
        keyed = record.attributes
        name = record.event_name or (keyed[EVENT_NAME].string_value if EVENT_NAME in keyed else "")
        is_moved = bool(name) and name == scope
        if not is_moved and name not in self._kept_events:
            return None
        if len(record.trace_id) != 16 or len(record.span_id) != 8:
            return None
        body = json_value(record.body)
        if not isinstance(body, dict):
            body = {LOG_BODY: body} if isinstance(body, str) and body.startswith("{") else {}
        if is_moved and body.keys().isdisjoint(MOVED_CONTENT):
            return None
        attributes = {key: json_value(keyed[key]) for key in sorted(keyed)}
        return SpanEvent(name, record.time_unix_nano or record.observed_time_unix_nano, attributes | body)


def items_by_share(signal: Signal, payload: bytes, items: int, of: int) -> list[int]:
    """How many of the `items` spans or log records of a request are in each of `of` shares, by a look at their ids.

    Those that were erased, of which nothing says which trace they were of, are in the first.

    Raises:
        google.protobuf.message.DecodeError: not such a request. Everything journalled was parsed before.
    """
    groups: list[Any]
    if signal == Signal.TRACES:
        groups = [scope.spans for each in KeyedRequest.FromString(payload).resource_spans for scope in each.scope_spans]
    else:
        resources = KeyedLogsRequest.FromString(payload).resource_logs
        groups = [scope.log_records for each in resources for scope in each.scope_logs]
    shares = [share_of(item.trace_id, of) for group in groups for item in group]
    found = [shares.count(share) for share in range(of)]
    found[0] += items - len(shares)
    return found
