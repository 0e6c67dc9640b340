"""Bytes to spans and log records, keeping only the attributes that something reads."""

from collections import Counter
from collections.abc import Callable, Container
from typing import Any, NamedTuple, TypeAlias

from tracegrade.assemble.share import ALL, Share, share_of
from tracegrade.codec.keyed_request import KeyedLogsRequest, KeyedRequest
from tracegrade.codec.raw_request import TraceIdsRequest
from tracegrade.codec.raw_spans import OpenedRequest, Origin, RawReader, keyed_span
from tracegrade.codec.span_reader import AttributeFilter, SpanReader, all_values, json_value
from tracegrade.extract.shape.keys import MAX_BYTES, may_hold_message, names_call, says_message
from tracegrade.extract.unread import looks_like_a_tool
from tracegrade.match.demand import EVERYTHING, NOTHING, Demand, bytes_may_call
from tracegrade.model.log_record import LogRecord, lacks_id
from tracegrade.model.signal import Signal
from tracegrade.model.span import Resource, Span, SpanEvent
from tracegrade.semconv import EVENT_NAME, LOG_BODY, MOVED_CONTENT, OWN_SCOPE

DemandOf: TypeAlias = Callable[[Origin], Demand]
"""Says what rules ask for of spans with this origin."""

# A sender that invents services, scopes and names without end must not grow the count of them for ever.
_MAX_PLACES = 200
_OTHER = "other"
_LONGEST_NAME = 256


class UnreadLogs(NamedTuple):
    """Log records of one service, scope and event name that look like tool calls, and which id they lack."""

    service: str
    scope: str
    name: str
    lacks: str


class Decoder:
    """Turns OTLP requests into `Span`s and `LogRecord`s."""

    def __init__(
        self, attribute_filter: AttributeFilter, share: Share = ALL, demand_of: DemandOf | None = None
    ) -> None:
        """Only what is of `share` is decoded and counted as own; ``other_*`` count the rest. `demand_of`: see `use`."""
        self.use(attribute_filter, demand_of)
        self.own_spans = 0  # spans of our own scope left out so far
        self.own_log_records = 0
        self.other_spans = 0  # spans of other shares left out so far
        self.other_log_records = 0
        self.unwanted_log_records = 0  # log records that nothing reads, left out so far
        self.unread_log_records: Counter[UnreadLogs] = Counter()  # those of them that look like tool calls
        self._share = None if share.is_all else share

    def use(self, attribute_filter: AttributeFilter, demand_of: DemandOf | None = None) -> None:
        """Apply `attribute_filter` to everything that is decoded from now on.

        With `demand_of`, spans that no rule asks for stay as they came (`RawSpan`), and are read when they are used.
        """
        self._reader = SpanReader(attribute_filter)
        self._raw_reader = RawReader(self._reader)
        self._demand_of = demand_of
        self._kept_events = attribute_filter.events
        self._by_shape = attribute_filter.by_shape
        self._passed_over = attribute_filter.passed_over

    def spans(self, payload: bytes, trace_ids: Container[bytes] | None = None) -> list[Span]:
        """The spans of one ExportTraceServiceRequest, in its order; spans of our own scope are counted instead.

        Attributes are in order of their keys. With `trace_ids`, only the spans of these traces.

        Raises:
            google.protobuf.message.DecodeError: not such a request. Everything journalled was parsed before.
        """
        if trace_ids is None and (self._share is not None or self._demand_of is not None):
            opened = self._raw_reader.open(payload)
            origins = [origin for origin in opened.origins if origin is not None]
            demands = [EVERYTHING if self._demand_of is None else self._demand_of(origin) for origin in origins]
            is_split = len(origins) < len(opened.origins)
            if not is_split and (self._share is not None or not all(demand.is_everything for demand in demands)):
                return self._asked_for(opened, origins, demands)
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

    def _asked_for(self, opened: OpenedRequest, origins: list[Origin], demands: list[Demand]) -> list[Span]:
        """As `spans`, where rules have these `demands` of its scopes; those that no rule asks for as they came."""
        decoded: list[Span] = []
        left_out: dict[Demand, dict[bytes, bool]] = {}
        read, read_raw = self._reader.read, self._raw_reader.span
        may_call = bytes_may_call(opened.payload)
        groups = self._raw_reader.groups(opened, self._share.places if self._share is not None else None)
        for group, origin, asked in zip(groups, origins, demands, strict=True):
            self.other_spans += group.others
            scope, resource = origin.scope, origin.resource
            if scope == OWN_SCOPE:
                self.own_spans += len(group.spans)
            elif asked.is_everything:
                decoded += [read(keyed_span(raw), scope, resource) for raw in group.spans]
            elif asked == NOTHING:
                decoded += [read_raw(head, raw, origin) for head, raw in zip(group.heads, group.spans, strict=True)]
            else:
                of_traces = left_out.setdefault(asked, {})
                for head, raw in zip(group.heads, group.spans, strict=True):
                    trace_id = head.trace_id
                    out = of_traces.get(trace_id)
                    if out is None:
                        out = of_traces[trace_id] = asked.left_out(trace_id, may_call) is not None
                    if out:
                        decoded.append(read_raw(head, raw, origin))
                    else:
                        decoded.append(read(keyed_span(raw), scope, resource))
        return decoded

    def log_records(self, payload: bytes) -> list[LogRecord]:
        """The log records of one ExportLogsServiceRequest that name a span and are events that something reads.

        Those of our own scope are counted. All others, nearly all log records, are left out after a look at their ids
        and their name; those that look like tool calls, and name no span, are counted by their sender as well.

        Raises:
            google.protobuf.message.DecodeError: not such a request. Everything journalled was parsed before.
        """
        decoded: list[LogRecord] = []
        may_call = b"tool" in payload or b"Tool" in payload
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
                    if lacks_id(record):
                        if may_call:
                            self._count_unread(record, scope, resource_logs.resource)
                    elif (event := self._log_event(record, scope)) is not None:
                        decoded.append(LogRecord(record.trace_id, record.span_id, scope, event))
                self.unwanted_log_records += len(records) - (len(decoded) - kept)
        return decoded

    def _count_unread(self, record: Any, scope: str, resource: Any) -> None:
        """Count a log record without a span where it looks like a tool call."""
        name = _event_name(record)
        if (scope, name) in self._passed_over or not looks_like_a_tool(name[:_LONGEST_NAME]):
            return
        service = Resource(all_values(resource.attributes)).service
        found = UnreadLogs(service[:_LONGEST_NAME], scope[:_LONGEST_NAME], name[:_LONGEST_NAME], lacks_id(record))
        if found not in self.unread_log_records and len(self.unread_log_records) >= _MAX_PLACES:
            found = found._replace(service=_OTHER, scope=_OTHER, name=_OTHER)
        self.unread_log_records[found] += 1

    def _log_event(self, record: Any, scope: str) -> SpanEvent | None:
        keyed = record.attributes
        name = _event_name(record)
        is_moved = bool(name) and name == scope
        is_known = is_moved or name in self._kept_events
        if not is_known:
            is_left = self._by_shape and (scope, name) not in self._passed_over
            if not is_left or not _may_hold_messages(record):
                return None
        if len(record.trace_id) != 16 or len(record.span_id) != 8:
            return None
        body = json_value(record.body)
        if not isinstance(body, dict):
            body = {LOG_BODY: body} if isinstance(body, str) and body.startswith(("{", "[")) else {}
        if is_moved and body.keys().isdisjoint(MOVED_CONTENT):
            return None
        attributes = {key: json_value(keyed[key]) for key in sorted(keyed)}
        return SpanEvent(name, record.time_unix_nano or record.observed_time_unix_nano, attributes | body)


def _event_name(record: Any) -> str:
    keyed = record.attributes
    name: str = record.event_name or (keyed[EVENT_NAME].string_value if EVENT_NAME in keyed else "")
    return name


def _may_hold_messages(record: Any) -> bool:
    """Whether a log record may hold a message or a call, in its body, in JSON of an attribute, or as a tool's name.

    Records that are too large hold none.
    """
    body, keyed = record.body, record.attributes
    is_structured = body.HasField("kvlist_value") or body.HasField("array_value")
    found = (
        (is_structured and says_message(body.SerializeToString()))
        or may_hold_message(body.string_value)
        or any(names_call(key) or may_hold_message(keyed[key].string_value) for key in keyed)
    )
    size: int = record.ByteSize() if found else 0
    return found and size <= MAX_BYTES


def items_by_share(signal: Signal, payload: bytes, items: int, of: int) -> list[int]:
    """How many of the `items` spans or log records of a request are in each of `of` shares, by a look at their ids.

    Those that were erased, of which nothing says which trace they were of, are in the first.

    Raises:
        google.protobuf.message.DecodeError: not such a request. Everything journalled was parsed before.
    """
    groups: list[Any]
    if signal == Signal.TRACES:
        resources = TraceIdsRequest.FromString(payload).resource_spans
        groups = [scope.spans for each in resources for scope in each.scope_spans]
    else:
        of_logs = KeyedLogsRequest.FromString(payload).resource_logs
        groups = [scope.log_records for each in of_logs for scope in each.scope_logs]
    shares = [share_of(item.trace_id, of) for group in groups for item in group]
    found = [shares.count(share) for share in range(of)]
    found[0] += items - len(shares)
    return found
