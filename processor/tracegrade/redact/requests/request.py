"""The parts of a request of OTLP, redacted in place: what is before its scopes, what is before its items, its items."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from tracegrade.model.signal import Signal
from tracegrade.redact.places import Policy
from tracegrade.redact.requests.collected import Found, Scanner
from tracegrade.redact.requests.item import UNKNOWN_FIELDS, Item, Redaction, SenderPolicy
from tracegrade.redact.requests.walk import Walk
from tracegrade.redact.settings import RedactionSettings
from tracegrade.redact.stand_in import Keys
from tracegrade.semconv import REDACTED, SERVICE_NAME

# There are few keys; a sender that invents them without end must not grow the memory for ever.
_KNOWN_KEYS = 10_000
_LONGEST_KNOWN_KEY = 128

OnFound: TypeAlias = Callable[[Redaction, str], None]
Part: TypeAlias = Literal["resource", "scope", "item"]

_ITEM_WALKS: dict[Signal, Callable[[Walk, Any], None]] = {
    Signal.TRACES: Walk.span,
    Signal.LOGS: Walk.log_record,
    Signal.METRICS: Walk.metric,
}


class RequestRedaction:
    """Redacts the parts of requests by settings; may be used by several threads."""

    def __init__(self, settings: RedactionSettings, scanner: Scanner, key: str | None, id_key: str) -> None:
        """`key` is that of the settings, or of their file; ids get their stand-ins by `id_key` where there is none."""
        self.scanner = scanner
        self._settings = settings
        self._policy = Policy(settings)
        self._find_in_known_key = lru_cache(maxsize=_KNOWN_KEYS)(self._find_in_key)
        self._keys = None if key is None else Keys(key)
        self._id_keys = self._keys or Keys(id_key)

    @property
    def key_id(self) -> str:
        """Says which key hashes are made by; "" where there is none."""
        return "" if self._keys is None else self._keys.id

    @property
    def needs_all(self) -> bool:
        """Whether values go because of where they stand, so that a request must be walked whatever it may hold."""
        return not self._policy.is_empty

    def policy_of(self, service: str, tenant: str, on_found: OnFound | None = None) -> SenderPolicy:
        """What parts of one sender are redacted by; `on_found` is called with each value that a detector found."""
        settings = self._settings
        return SenderPolicy(
            self.scanner,
            self._find_in,
            self._policy.of(tenant, service),
            settings.action,
            settings.actions,
            None if self._keys is None else self._keys.of(tenant),
            self._id_keys.of(tenant),
            on_found,
        )

    def _find_in(self, key: str) -> Sequence[Found]:
        return self._find_in_known_key(key) if len(key) <= _LONGEST_KNOWN_KEY else self._find_in_key(key)

    def _find_in_key(self, key: str) -> Sequence[Found]:
        return self.scanner.find([key], [""])

    def redact(self, signal: Signal, part: Part, message: Any, policy: SenderPolicy) -> Counter[Redaction]:
        """Redact `message` in place, and mark it.

        Args:
            signal: what the request holds.
            part: what of the request it is.
            message: for a resource or scope the message with its items, of which there may be none.
            policy: those of its sender.

        Returns:
            How often what was replaced; empty when the message is as it was.
        """
        item = Item(policy)
        if part == "resource":
            item.redact(message, Walk.resource)
            attributes = message.resource.attributes
        elif part == "scope":
            item.redact(message, Walk.scope)
            attributes = message.scope.attributes
        else:
            item.redact(message, _ITEM_WALKS[signal])
            # Another attribute would make another series of a metric.
            attributes = None if signal is Signal.METRICS else message.attributes
        size = message.ByteSize()
        message.DiscardUnknownFields()
        if message.ByteSize() != size:
            item.counts[Redaction("attributes", "", UNKNOWN_FIELDS, "drop")] += 1
        if item.counts and attributes is not None:
            _mark(attributes, item.counts)
        return item.counts


def service_of(resource_items: Any) -> str:
    """The service that a resource is of; "" when it does not say."""
    for attribute in resource_items.resource.attributes:
        if attribute.key == SERVICE_NAME:
            return str(attribute.value.string_value)
    return ""


def _mark(attributes: Any, counts: Counter[Redaction]) -> None:
    """Say what was redacted, as an attribute: by place, how often what was found."""
    said: dict[str, dict[str, int]] = {}
    for redaction, count in sorted(counts.items()):
        of_place = said.setdefault(redaction.place_text, {})
        of_place[redaction.detector] = of_place.get(redaction.detector, 0) + count
    for number in reversed([number for number, one in enumerate(attributes) if one.key == REDACTED]):
        del attributes[number]
    mark = attributes.add()
    mark.key = REDACTED
    mark.value.string_value = json.dumps(said, ensure_ascii=False)
