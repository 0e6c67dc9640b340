"""Redaction of requests on receipt: what the settings do not let in is taken out before anything is written."""

from collections.abc import Generator
from pathlib import Path
from secrets import token_hex

from tracegrade.model.errors import NotTaken, TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.plugins.installed import load_plugins
from tracegrade.receive.presidio import presidio_detector
from tracegrade.receive.redacted import Redacted, next_turn
from tracegrade.receive.redacted_parts import RedactedParts
from tracegrade.receive.redaction_keys import id_key, note_key
from tracegrade.redact.requests.request import OnFound, RequestRedaction
from tracegrade.redact.scan import Scanner
from tracegrade.redact.settings import SHORTEST_KEY, RedactionSettings
from tracegrade.sensitive.registry import DETECTORS, all_detectors


class RequestRedactor:
    """`Redacts` by the settings; ``changed_key`` says so where the key of hashes was changed."""

    def __init__(self, settings: RedactionSettings, id_key: str) -> None:
        """Read the files that the settings name, and what installed dialects declare of their keys.

        Raises:
            TraceGradeError: one of the files, or an installed package, cannot be used.
        """
        load_plugins()
        names = settings.detectors
        chosen = all_detectors() if names == "all" else tuple(one for name in names for one in DETECTORS.get(name, ()))
        if settings.presidio is not None:
            chosen = (*chosen, presidio_detector(settings.presidio))
        try:
            scanner = Scanner(chosen, _names_of_file(settings), settings.patterns)
        except ValueError as error:
            raise TraceGradeError(f"redaction: {error}") from None
        self._requests = RequestRedaction(settings, scanner, key_of(settings), id_key)
        self.changed_key: str | None = None

    @property
    def key_id(self) -> str:
        """Says which key hashes are made by; "" where there is none."""
        return self._requests.key_id

    def redacted(self, signal: Signal, payload: bytes, tenant: str, on_found: OnFound | None = None) -> Redacted:
        """Make it; see `Redacts`. `on_found` is called with each value that a detector found."""
        turns = self.in_turns(signal, payload, tenant, on_found)
        while (redacted := next_turn(turns)) is None:
            pass
        return redacted

    def in_turns(
        self, signal: Signal, payload: bytes, tenant: str, on_found: OnFound | None = None
    ) -> Generator[None, None, Redacted]:
        """Redact a large request, some parts at a time."""
        try:
            parts = RedactedParts(self._requests, signal, payload, tenant, on_found)
            redacted = yield from parts.request()
        except Exception as error:
            # The error itself may quote what it failed at.
            raise NotTaken(
                "redaction_failed",
                f"the request could not be redacted ({type(error).__name__}), so it is not taken; "
                "contact the operator of this receiver",
            ) from None
        return Redacted(redacted, parts.counts)


def open_redactor(settings: RedactionSettings, data_path: Path, kept_s: float) -> RequestRedactor:
    """The redaction of a receiver with this data folder, in which values may be kept for `kept_s` seconds.

    Raises:
        TraceGradeError: a file that the settings name cannot be used.
        OSError: the disk refuses to keep the key of ids.
    """
    redactor = RequestRedactor(settings, id_key(data_path))
    if key_id := redactor.key_id:
        redactor.changed_key = note_key(data_path, key_id, kept_s)
    return redactor


def trial_redactor(settings: RedactionSettings) -> RequestRedactor:
    """The same without a data folder, to see what would be redacted.

    Raises:
        TraceGradeError: a file that the settings name cannot be used.
    """
    return RequestRedactor(settings, token_hex(32))


def key_of(settings: RedactionSettings) -> str | None:
    """The key of hashes; None where there is none.

    Raises:
        TraceGradeError: its file cannot be used.
    """
    if settings.key is not None:
        return settings.key.get_secret_value()
    if settings.key_file is None:
        return None
    key = _file_text("key_file", settings.key_file).strip()
    if len(key) < SHORTEST_KEY:
        raise TraceGradeError(
            f"redaction.key_file: {settings.key_file!r}: expected at least {SHORTEST_KEY} characters, such as "
            f"'openssl rand -hex 32' prints, found {len(key)}"
        )
    return key


def _names_of_file(settings: RedactionSettings) -> list[str]:
    if settings.names_file is None:
        return []
    names = [line.strip() for line in _file_text("names_file", settings.names_file).splitlines()]
    return [name for name in names if name and not name.startswith("#")]


def _file_text(setting: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise TraceGradeError(f"redaction.{setting}: cannot read {path!r}: {why}") from None
