"""Spans as assembly keeps them: with only the attributes that something reads."""

from dataclasses import dataclass, field

from tracegrade.model.json_value import JsonValue

STATUS_UNSET = 0
STATUS_OK = 1
STATUS_ERROR = 2

KIND_INTERNAL = 1
KIND_SERVER = 2

PARENT_IS_REMOTE = 0x300
"""Of a span's flags: whether its parent is in another process is known (bit 8), and it is (bit 9).

Source: opentelemetry-proto trace.proto, SpanFlags.
"""


@dataclass(slots=True)
class Resource:
    """The sender of spans: the kept resource attributes. Shared by all spans of one ResourceSpans."""

    attributes: dict[str, JsonValue] = field(default_factory=dict)

    @property
    def service(self) -> str:
        """The service name, "" when the resource has none."""
        name = self.attributes.get("service.name", "")
        return name if isinstance(name, str) else str(name)

    @property
    def sdk_language(self) -> JsonValue:
        """The language of the SDK that made its spans, such as "java"; None when the resource has none."""
        return self.attributes.get("telemetry.sdk.language")


@dataclass(slots=True)
class SpanEvent:
    """One span event with the attributes that are kept."""

    name: str
    time_ns: int
    attributes: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(slots=True)
class Span:
    """One finished span.

    Ids are the wire's bytes (16 and 8 long, ``parent_span_id`` empty for a root); times are ns since 1970 UTC;
    ``kind`` and ``status_code`` are the OTLP enum numbers. Attribute values are decoded AnyValues: bytes become
    base64 text, NaN and the infinities their names. Equality of two spans is equality of all kept content.

    ``unread_keys`` are the keys of the attributes that came, where no dialect knows the span by them and it looks like
    a tool call; None of every other span. Only attributes that something reads are kept of both.
    ``is_whole``: all its attributes and events are kept, so that it can be read by shape.
    """

    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    name: str
    kind: int
    start_ns: int
    end_ns: int
    flags: int
    status_code: int
    status_message: str
    attributes: dict[str, JsonValue]
    events: list[SpanEvent]
    dropped_attributes_count: int
    scope: str
    resource: Resource
    unread_keys: tuple[str, ...] | None = None
    is_whole: bool = False

    @property
    def is_local_root(self) -> bool:
        """Has no parent here: no parent id at all, or a parent that the sender knew to be in another process."""
        return not self.parent_span_id or self.flags & PARENT_IS_REMOTE == PARENT_IS_REMOTE

    def with_content(self, attributes: dict[str, JsonValue], events: list[SpanEvent]) -> "Span":
        """A copy with other attributes and events; by position, as `dataclasses.replace` costs five times as much."""
        return Span(
            self.trace_id,
            self.span_id,
            self.parent_span_id,
            self.name,
            self.kind,
            self.start_ns,
            self.end_ns,
            self.flags,
            self.status_code,
            self.status_message,
            attributes,
            events,
            self.dropped_attributes_count,
            self.scope,
            self.resource,
            self.unread_keys,
            self.is_whole,
        )
