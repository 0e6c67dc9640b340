"""Values, numbers and times as people read them, on the command line and on the page."""

from datetime import UTC, datetime
from typing import Any

import orjson


def json_text(value: Any) -> str:
    """Compact JSON; orjson where it can, the standard library for integers beyond 64 bits and lone surrogates."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, orjson.JSONEncodeError):
        import json

        return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def count(number: int, noun: str) -> str:
    """``1 rule``, ``2 rules``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def time_text(time_ns: int) -> str:
    """``2026-11-21 08:00:00``, in UTC; "" for 0, which stands for unknown."""
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S") if time_ns else ""


def elapsed_text(elapsed_ns: int) -> str:
    """Three digits of a length of time: ``1.25 s``, ``340 ms``, ``12 µs``."""
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1000)):
        if abs(elapsed_ns) >= size:
            value = elapsed_ns / size
            return f"{value:.0f} {unit}" if abs(value) >= 100 else f"{value:.3g} {unit}"
    return f"{elapsed_ns} ns"
