"""What the id of a session or a user stands as in what was received: as it came, or as redaction left it."""

from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracegrade.extract.registry import in_force
from tracegrade.model.signal import Signal
from tracegrade.receive.redaction_keys import ID_KEY
from tracegrade.redact.stand_in import MASK, Keys

if TYPE_CHECKING:
    from tracegrade.receive.redaction import RequestRedactor
    from tracegrade.redact.settings import RedactionSettings

_MASK_BEGINS = MASK.rstrip("]")


class RedactedIds:
    """Says by which texts an id is to be looked for, by the settings of redaction and the keys that there are now.

    What was hashed by a key that was changed since, or by a place for one service alone that names parts of JSON, is
    not known.
    """

    def __init__(self, settings: "RedactionSettings | None", data_path: Path) -> None:
        self._settings = settings
        self._data_path = data_path
        self._redactor: RequestRedactor | None = None
        self._forms = lru_cache(maxsize=1024)(self._all_forms)

    def of_session(self, session: str, tenant: str) -> frozenset[str]:
        """What the id of a session may stand as in what `tenant` sent.

        Raises:
            TraceGradeError: a file that the settings of redaction name cannot be used.
        """
        return _told_apart(session, self._forms(session, tenant, in_force().session_keys))

    def of_user(self, user: str, tenant: str) -> frozenset[str]:
        """The same of a user."""
        return _told_apart(user, self._forms(user, tenant, in_force().user_keys))

    def masks_user(self, user: str, tenant: str) -> bool:
        """Whether a mask may stand in place of this user, so that nobody can tell whose such a trace is."""
        return any(_MASK_BEGINS in form for form in self._forms(user, tenant, in_force().user_keys))

    def _all_forms(self, value: str, tenant: str, keys: tuple[str, ...]) -> frozenset[str]:
        return frozenset((value, *self._hashes(value, tenant), *self._redacted(value, tenant, keys)))

    def _hashes(self, value: str, tenant: str) -> Iterator[str]:
        """What places make of it, of whatever service."""
        keys = [self._id_key()]
        if self._settings is not None:
            from tracegrade.receive.redaction import key_of

            keys.append(key_of(self._settings) or "")
        for key in filter(None, keys):
            of_tenant = Keys(key).of(tenant)
            yield from (of_tenant.hash_of(value), of_tenant.hashed_text(value))

    def _redacted(self, value: str, tenant: str, keys: Collection[str]) -> Iterator[str]:
        """What stands under each of the keys, were it sent now; also where a detector finds a part of it."""
        if self._settings is None:
            return
        if self._redactor is None:
            from tracegrade.receive.redaction import RequestRedactor

            # A model of names is asked for running text, and takes seconds to load.
            self._redactor = RequestRedactor(self._settings.model_copy(update={"presidio": None}), self._id_key())
        sent = ExportTraceServiceRequest()
        spans = sent.resource_spans.add().scope_spans.add().spans
        for key in keys:
            spans.add().attributes.add(key=key).value.string_value = value
        kept = ExportTraceServiceRequest.FromString(
            self._redactor.redacted(Signal.TRACES, sent.SerializeToString(), tenant).payload
        )
        for span in kept.resource_spans[0].scope_spans[0].spans:
            yield from (one.value.string_value for one in span.attributes if one.key in keys)

    def _id_key(self) -> str:
        path = self._data_path / ID_KEY
        return path.read_text() if path.exists() else ""


def _told_apart(value: str, forms: frozenset[str]) -> frozenset[str]:
    return frozenset(form for form in forms if form == value or _MASK_BEGINS not in form)
