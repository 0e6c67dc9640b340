"""Texts that people type, on the page, by the API or on the command line: redacted as an attribute of a span is."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracegrade.model.signal import Signal
from tracegrade.receive.redaction_keys import id_key
from tracegrade.semconv import TYPED_TEXT

if TYPE_CHECKING:
    from tracegrade.receive.redaction import RequestRedactor
    from tracegrade.redact.settings import RedactionSettings


class TypedText:
    """Redacts by the settings; what does it is loaded with the first text. Any thread may call it."""

    def __init__(self, settings: "RedactionSettings | None", data_path: Path) -> None:
        self._settings = settings
        self._data_path = data_path
        self._redactors: dict[bool, RequestRedactor] = {}
        self._loading = threading.Lock()

    def redacted(self, text: str, tenant: str) -> str:
        """`text` as it may be kept of `tenant`: places of the settings find it as the attribute `TYPED_TEXT`.

        Raises:
            TraceGradeError: a file that the settings of redaction name cannot be used, or the text not be redacted.
            OSError: the disk refuses to keep the key of ids.
        """
        return self._redacted(text, tenant, by_place=True)

    def redacted_name(self, text: str, tenant: str) -> str:
        """`text`, a name or glob of names, as detectors alone leave it; raises as `redacted`.

        No place is for it: where values are masked but for those of a list, names are still needed.
        """
        return self._redacted(text, tenant, by_place=False)

    def _redacted(self, text: str, tenant: str, *, by_place: bool) -> str:
        if self._settings is None or not text:
            return text
        sent = ExportTraceServiceRequest()
        span = sent.resource_spans.add().scope_spans.add().spans.add()
        span.attributes.add(key=TYPED_TEXT).value.string_value = text
        with self._loading:
            if by_place not in self._redactors:
                from tracegrade.receive.redaction import RequestRedactor

                without_places = {} if by_place else {"places": [], "default": "keep"}
                settings = self._settings.model_copy(update=without_places)
                self._redactors[by_place] = RequestRedactor(settings, id_key(self._data_path))
        left = self._redactors[by_place].redacted(Signal.TRACES, sent.SerializeToString(), tenant).payload
        (kept,) = ExportTraceServiceRequest.FromString(left).resource_spans[0].scope_spans[0].spans
        return next((one.value.string_value for one in kept.attributes if one.key == TYPED_TEXT), "")
