"""Points in time on the command line, and times on the screen."""

import time
from datetime import UTC, datetime

import click

from tracegrade.yaml_file import duration_s


class _Time(click.ParamType[int]):
    """``2026-11-21T08:00:00Z``, ``2026-11-21``, or a duration ago such as ``2h``; becomes ns since 1970 UTC."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value)
        try:
            return time.time_ns() - round(duration_s(text) * 1e9)
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"expected a time such as 2026-11-21T08:00:00Z, or a duration ago such as 2h, found {text!r}")
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1_000_000) * 1000


TIME = _Time()


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
