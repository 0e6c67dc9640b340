"""The parts of a request of OTLP, redacted in place: what is before its scopes, what is before its items, its items."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from tracegrade.model.signal import Signal
from tracegrade.redact.policy import Policy
from tracegrade.redact.requests.item import UNKNOWN_FIELDS, Item, Redaction, SenderPolicy
from tracegrade.redact.requests.texts import Texts
from tracegrade.redact.requests.walk import Walk
from tracegrade.redact.scan import SEPARATOR, Found, Scanner
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
_WALKS: dict[Part, Callable[[Walk, Any], None]] = {"resource": Walk.resource, "scope": Walk.scope}


class RequestRedaction:
    """Redacts the parts of requests by settings; may be used by several threads."""

    def __init__(self, settings: RedactionSettings, scanner: Scanner, key: str | None, id_key: str) -> None:
        """`key` is that of the settings, or of their file; ids get their stand-ins by `id_key` where there is none."""
        self.scanner = scanner
        self._settings = settings
        self._policy = Policy(settings)
        self._find_in_known_key = lru_cache(maxsize=_KNOWN_KEYS)(self._find_in_key)
        self._plain_keys: set[str] = set()
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

    def _asks(self, key: str) -> bool:
        """Whether a key asks for a look; those that do not are remembered."""
        if self.scanner.asks(key):
            return True
        if len(key) <= _LONGEST_KNOWN_KEY:
            if len(self._plain_keys) >= _KNOWN_KEYS:
                self._plain_keys.clear()
            self._plain_keys.add(key)
        return False

    def _may_hold(self, message: Any, walk: Callable[[Walk, Any], None]) -> bool:
        texts = Texts(self._plain_keys, self._asks)
        walk(texts, message)
        return texts.has_key or self.scanner.may_hold(SEPARATOR.join(texts.texts).encode("utf-8", "replace"))

    def redact(self, signal: Signal, part: Part, message: Any, policy: SenderPolicy) -> Counter[Redaction] | None:
        """Redact `message` in place, and mark it.

        Args:
            signal: what the request holds.
            part: what of the request it is.
            message: for a resource or scope the message with its items, of which there may be none.
            policy: those of its sender.

        Returns:
            How often what was replaced; empty when the message was searched, and is as it was; None when a close look
            at its texts said that nothing can be found in them, wherever they stand.
        """
        item = Item(policy)
        walk = _WALKS.get(part) or _ITEM_WALKS[signal]
        is_searched = self.needs_all or self._may_hold(message, walk)
        if is_searched:
            item.redact(message, walk)
        size = message.ByteSize()
        message.DiscardUnknownFields()
        if message.ByteSize() != size:
            item.counts[Redaction("attributes", "", UNKNOWN_FIELDS, "drop")] += 1
        # Another attribute would make another series of a metric.
        if item.counts and (part != "item" or signal is not Signal.METRICS):
            _mark((message if part == "item" else getattr(message, part)).attributes, item.counts)
        return item.counts if is_searched or item.counts else None


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
