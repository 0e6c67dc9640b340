"""Points in time on the command line."""

import time
from datetime import UTC, datetime

import click

from tracegrade.document.duration import duration_s


class _Time(click.ParamType[int]):
    """``2026-11-21T08:00:00Z``, ``2026-11-21``, or a duration ago such as ``2h``; becomes ns since 1970 UTC."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return time_of(str(value))
        except ValueError as error:
            self.fail(str(error))


TIME = _Time()


def time_of(text: str) -> int:
    """The time that `text` names, in ns since 1970 UTC.

    Raises:
        ValueError: it is neither a time nor a duration.
    """
    try:
        return time.time_ns() - round(duration_s(text) * 1e9)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"expected a time such as 2026-11-21T08:00:00Z, or a duration ago such as 2h, found {text!r}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000) * 1000
