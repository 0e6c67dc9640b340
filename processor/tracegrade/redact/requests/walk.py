"""Every text, key and number of a message of OTLP, in the order they stand, each with what `Visit` makes of it."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from tracegrade.redact.json_text import Leaf, Path, documents, is_json, rewritten

Where: TypeAlias = Literal[
    "name", "status", "attributes", "events", "links", "body", "scope", "resource", "metric", "arguments", "outputs",
    "messages",
]  # fmt: skip
"""The part of a request in which a value stands."""

Visit: TypeAlias = Callable[[str, str, Leaf, "Place"], str]
"""Called with a text, the name that it has ("" without), what it is, and where; gives what is to stand there."""

Place: TypeAlias = tuple[Where, str, Path]
"""The part, the key of the attribute or the name of the field, and the way to a value in it."""

DROPPED = "[redacted]"
"""Given by a `Visit` in place of a whole value, this very object: an attribute of it alone is deleted."""

MAX_ENCODINGS = 8
_BETWEEN = re.compile(r"\s*(?:data:)?\s*")


def text_of(value: bytes) -> str:
    """Bytes as the text that they are in UTF-8; where they are none, with a letter for each."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


class Walk:
    """Visits all of a message."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit

    def span(self, span: Any) -> None:
        """A span, but for its ids."""
        self._field(span, "name", "name")
        self._field(span, "trace_state", "attributes")
        self.attributes(span.attributes, "attributes")
        for event in span.events:
            self._field(event, "name", "events")
            self.attributes(event.attributes, "events")
        for link in span.links:
            self._field(link, "trace_state", "links")
            self.attributes(link.attributes, "links")
        if span.HasField("status"):
            self._field(span.status, "message", "status")

    def log_record(self, record: Any) -> None:
        """A log record, but for its ids."""
        self._field(record, "event_name", "name")
        self._field(record, "severity_text", "attributes")
        self.any_value(record.body, ("body", "body", ()), "body")
        self.attributes(record.attributes, "events")

    def metric(self, metric: Any) -> None:
        """A metric with its points."""
        for field in ("name", "description", "unit"):
            self._field(metric, field, "metric")
        self.attributes(metric.metadata, "metric")
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points if kind else ():
            self.attributes(point.attributes, "metric")
            for exemplar in getattr(point, "exemplars", ()):
                self.attributes(exemplar.filtered_attributes, "metric")

    def resource(self, resource_items: Any) -> None:
        """A resource, and what stands beside it."""
        self._field(resource_items, "schema_url", "resource")
        self.attributes(resource_items.resource.attributes, "resource")
        for entity in getattr(resource_items.resource, "entity_refs", ()):
            for field in ("schema_url", "type"):
                self._field(entity, field, "resource")
            for keys in (entity.id_keys, entity.description_keys):
                for number, key in enumerate(keys):
                    keys[number] = self._visit(key, "", "key", ("resource", "entity_refs", ()))

    def scope(self, scope_items: Any) -> None:
        """A scope, and what stands beside it."""
        self._field(scope_items, "schema_url", "scope")
        self._field(scope_items.scope, "name", "scope")
        self._field(scope_items.scope, "version", "scope")
        self.attributes(scope_items.scope.attributes, "scope")

    def attributes(self, attributes: Any, where: Where) -> None:
        """Attributes; those of which nothing stays are deleted."""
        gone = []
        for number, attribute in enumerate(attributes):
            key = attribute.key
            other = self._visit(key, "", "key", (where, key, ()))
            if other != key:
                attribute.key = other
            if self.any_value(attribute.value, (where, other, ()), key):
                gone.append(number)
        for number in reversed(gone):
            del attributes[number]

    def any_value(self, value: Any, place: Place, name: str, depth: int = 0) -> bool:
        """A value of an attribute, of a list, or of an object. Returns whether nothing of it stays."""
        kind = value.WhichOneof("value")
        if kind in ("string_value", "bytes_value"):
            text = value.string_value if kind == "string_value" else text_of(value.bytes_value)
            other = self.text(text, name, place)
            if other is DROPPED and depth == 0:
                return True
            if other != text:
                value.string_value = other
        elif kind == "kvlist_value":
            for member in value.kvlist_value.values:
                where, key, path = place
                new_key = self._visit(member.key, "", "key", place)
                if new_key != member.key:
                    member.key = new_key
                self.any_value(member.value, (where, key, (*path, new_key)), member.key, depth + 1)
        elif kind == "array_value":
            for item in value.array_value.values:
                self.any_value(item, place, name, depth + 1)
        elif kind == "int_value":
            written = str(value.int_value)
            if (other := self._visit(written, name, "number", place)) != written:
                value.string_value = other
        return False

    def text(self, text: str, name: str, place: Place, encodings: int = 0) -> str:
        """A text; one that is JSON by what is in it."""
        if encodings < MAX_ENCODINGS and is_json(text):
            where, key, path = place
            # The name of a member is not told with a leaf, but its path ends with it.

            def replace(found: str, leaf: Leaf, inner: Path) -> str:
                at: Place = (where, key, (*path, *inner))
                member = next((part for part in reversed(inner) if isinstance(part, str)), name)
                if leaf == "text":
                    return self.text(found, member, at, encodings + 1)
                if leaf == "key":
                    return self._visit(found, "", "key", at)
                other = self._visit(found, member, "number", at)
                return found if other == found else f'"{other}"'

            return rewritten(text, replace)
        if encodings < MAX_ENCODINGS and (found := documents(text)):
            return self._lines(text, found, name, place, encodings)
        return self._visit(text, name, "text", place)

    def _lines(self, text: str, found: Sequence[tuple[int, int]], name: str, place: Place, encodings: int) -> str:
        """A text of lines of JSON, which are `found`, and what stands between them but line ends and ``data:``."""
        pieces = []
        end = 0
        for start, stop in (*found, (len(text), len(text))):
            between = text[end:start]
            pieces.append(between if _BETWEEN.fullmatch(between) else self._visit(between, name, "text", place))
            pieces.append(self.text(text[start:stop], name, place, encodings + 1) if start < stop else "")
            end = stop
        return "".join(pieces)

    def _field(self, message: Any, field: str, where: Where) -> None:
        text = getattr(message, field)
        if text and (other := self.text(text, "", (where, field, ()))) != text:
            setattr(message, field, other)
