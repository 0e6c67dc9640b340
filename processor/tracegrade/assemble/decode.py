"""Bytes to spans and log records, keeping only the attributes that something reads."""

from collections.abc import Container
from typing import Any

from tracegrade.codec.keyed_request import KeyedLogsRequest, KeyedRequest
from tracegrade.codec.span_reader import AttributeFilter, SpanReader, all_values, json_value
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Resource, Span, SpanEvent
from tracegrade.semconv import EVENT_NAME, LOG_BODY, MOVED_CONTENT, OWN_SCOPE


class Decoder:
    """Turns OTLP requests into `Span`s and `LogRecord`s."""

    def __init__(self, attribute_filter: AttributeFilter) -> None:
        self.use(attribute_filter)
        self.own_spans = 0  # spans of our own scope left out so far
        self.own_log_records = 0

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
            resource = Resource(all_values(resource_spans.resource.attributes))
            for scope_spans in resource_spans.scope_spans:
                scope = scope_spans.scope.name
                if scope == OWN_SCOPE:
                    self.own_spans += len(scope_spans.spans)
                    continue
                spans = scope_spans.spans
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
                scope = scope_logs.scope.name
                if scope == OWN_SCOPE:
                    self.own_log_records += len(scope_logs.log_records)
                    continue
                for record in scope_logs.log_records:
                    if record.span_id and (event := self._log_event(record, scope)) is not None:
                        decoded.append(LogRecord(record.trace_id, record.span_id, scope, event))
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
