"""The detectors by name, in order of preference: where two find the same text, the first decides what it is."""

from tracegrade.sensitive.detector import Detector
from tracegrade.sensitive.detectors import (
    card,
    email,
    iban,
    ip_address,
    jwt,
    named_secret,
    national_ids,
    phone,
    private_key,
    tokens,
    url_password,
)


def _by_name(*detectors: Detector) -> dict[str, tuple[Detector, ...]]:
    found: dict[str, tuple[Detector, ...]] = {}
    for detector in detectors:
        found[detector.name] = (*found.get(detector.name, ()), detector)
    return found


SECRETS: tuple[Detector, ...] = (
    private_key.DETECTOR,
    jwt.DETECTOR,
    *tokens.DETECTORS,
    url_password.DETECTOR,
    named_secret.DETECTOR,
)
"""Those of secrets: what gives access to something. The others are of personal data."""

# A service's token may have several forms.
DETECTORS: dict[str, tuple[Detector, ...]] = _by_name(
    private_key.DETECTOR,
    jwt.DETECTOR,
    *tokens.DETECTORS,
    url_password.DETECTOR,
    email.DETECTOR,
    card.DETECTOR,
    iban.DETECTOR,
    *national_ids.DETECTORS,
    phone.DETECTOR,
    ip_address.DETECTOR,
    named_secret.DETECTOR,  # last: the others know the form, and keep it
)


def all_detectors() -> tuple[Detector, ...]:
    """All of them, in order of preference."""
    return tuple(detector for some in DETECTORS.values() for detector in some)
