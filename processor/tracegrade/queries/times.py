"""Points in time, as options and addresses name them."""

from datetime import UTC, datetime
from time import time_ns

from tracegrade.document.duration import duration_s

MAX_NS = 2**63 - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(value: object) -> int:
    """The time that a parameter names, in ns since 1970 UTC: such a number, RFC 3339, or a duration ago such as 2h.

    Raises:
        ValueError: it is none of them.
    """
    text = str(value)
    if text.isascii() and text.isdecimal():
        if int(text) <= MAX_NS:
            return int(text)
        raise ValueError(f"expected at most {MAX_NS} ns since 1970 UTC, found {text[:200]!r}")
    try:
        return max(0, time_ns() - round(duration_s(text) * 1e9))
    except (ValueError, OverflowError):
        pass
    # A leap second is the last second before it; RFC 3339 allows t and z in place of T and Z.
    written = text.upper().replace(":60", ":59")
    try:
        moment = datetime.fromisoformat(written)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        since_epoch = moment - _EPOCH
    except (ValueError, OverflowError):
        raise ValueError(
            f"expected a time such as 2026-11-21T08:00:00Z, ns since 1970 UTC, or a duration ago such as 2h, found "
            f"{text[:200]!r}"
        ) from None
    return min(
        max(0, (since_epoch.days * 86400 + since_epoch.seconds) * 10**9 + since_epoch.microseconds * 1000), MAX_NS
    )
