"""A whole request of OTLP, redacted in place."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from tracegrade.model.signal import Signal
from tracegrade.redact.policy import Policy
from tracegrade.redact.requests.item import UNKNOWN_FIELDS, Item, Means, Redaction, Scanner
from tracegrade.redact.requests.walk import Walk
from tracegrade.redact.settings import RedactionSettings
from tracegrade.redact.stand_in import Keys
from tracegrade.semconv import REDACTED, SERVICE_NAME

OnFound = Callable[[Redaction, str], None]

_FIELDS = {
    Signal.TRACES: ("resource_spans", "scope_spans", "spans"),
    Signal.LOGS: ("resource_logs", "scope_logs", "log_records"),
    Signal.METRICS: ("resource_metrics", "scope_metrics", "metrics"),
}
_WALKS: dict[Signal, Callable[[Walk, Any], None]] = {
    Signal.TRACES: Walk.span,
    Signal.LOGS: Walk.log_record,
    Signal.METRICS: Walk.metric,
}


class RequestRedaction:
    """Redacts requests by settings; may be used by several threads."""

    def __init__(self, settings: RedactionSettings, scanner: Scanner, key: str | None, id_key: str) -> None:
        """`key` is that of the settings, or of their file; ids get their stand-ins by `id_key` where there is none."""
        self.scanner = scanner
        self._settings = settings
        self._policy = Policy(settings)
        self._keys = None if key is None else Keys(key)
        self._id_keys = self._keys or Keys(id_key)

    @property
    def needs_all(self) -> bool:
        """Whether values go because of where they stand, so that a request must be walked whatever it may hold."""
        return not self._policy.is_empty

    def redact(self, signal: Signal, request: Any, tenant: str, on_found: OnFound | None = None) -> Counter[Redaction]:
        """Redact a parsed `request` in place.

        Args:
            signal: what it holds.
            request: the message.
            tenant: whose it is.
            on_found: called with each value that a detector found.

        Returns:
            How often what was replaced; empty when the request is as it was.
        """
        counts: Counter[Redaction] = Counter()
        resources, scopes, items = _FIELDS[signal]
        for resource in getattr(request, resources):
            means = self._means(resource, tenant, on_found)
            own = Item(means)
            if own.redact(resource, Walk.resource):
                _mark(resource.resource.attributes, own.counts)
                counts += own.counts
            for scope in getattr(resource, scopes):
                own = Item(means)
                if own.redact(scope, Walk.scope):
                    _mark(scope.scope.attributes, own.counts)
                    counts += own.counts
                for item in getattr(scope, items):
                    own = Item(means)
                    if own.redact(item, _WALKS[signal]):
                        if signal is not Signal.METRICS:
                            _mark(item.attributes, own.counts)
                        counts += own.counts
        size = request.ByteSize()
        request.DiscardUnknownFields()
        if request.ByteSize() != size:
            counts[Redaction("attributes", "", UNKNOWN_FIELDS, "drop")] += 1
        return counts

    def _means(self, resource: Any, tenant: str, on_found: OnFound | None) -> Means:
        settings = self._settings
        return Means(
            self.scanner,
            self._policy.of(tenant, _service(resource)),
            settings.action,
            settings.actions,
            None if self._keys is None else self._keys.of(tenant),
            self._id_keys.of(tenant),
            on_found,
        )


def _service(resource: Any) -> str:
    """The service that a resource is of; "" when it does not say."""
    for attribute in resource.resource.attributes:
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
