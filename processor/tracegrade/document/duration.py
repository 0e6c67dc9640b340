"""Lengths of time as documents have them, such as ``30s`` or ``1h30m``: read and written."""

import re

_UNITS_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86_400 * 10**9,
}
DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)")


def duration_s(value: object) -> float:
    """Seconds from a text like ``500ms``, ``30s``, ``1h30m`` or ``7d`` (the collector's form, and days)."""
    if isinstance(value, float):
        return value  # a default, already in seconds
    if isinstance(value, str) and DURATION.fullmatch(value):
        return sum(float(number) * _UNITS_NS[unit] for number, unit in _DURATION_PART.findall(value)) / 1e9
    raise ValueError(f"expected a duration such as '30s', '500ms' or '1h30m', found {value!r}")


def duration_text(seconds: float) -> str:
    """The shortest whole-unit text of a duration, ``90s`` for 90.0."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds * 1000:g}ms" if seconds else "0s"
