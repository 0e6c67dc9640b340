"""Finds which trace numbers a time range may hold, from one row for each minute."""

from sqlalchemy import Connection, func, select

from tracegrade.store.registry import database
from tracegrade.store.schema import MINUTE_NS, arrivals, traces


class Arrivals:
    """The changes of one batch of writes to ``arrivals``."""

    def __init__(self) -> None:
        self._bounds: dict[int, tuple[int, int]] = {}

    def add(self, first_received_ns: int, number: int) -> None:
        """Note the trace stored under `number`; numbers increase within a batch."""
        minute = first_received_ns // MINUTE_NS
        self._bounds[minute] = (self._bounds.get(minute, (number,))[0], number)

    def write(self, connection: Connection) -> None:
        """Write the noted numbers: they widen the stored ranges."""
        database(connection).insert_or_change(
            connection,
            arrivals,
            # Sorted, so that several writers wait for each other in the same order.
            sorted((minute, *bounds) for minute, bounds in self._bounds.items()),
            # Numbers of deleted traces are used again: a later trace may have a lower one.
            "first_number = CASE WHEN excluded.first_number < arrivals.first_number THEN excluded.first_number "
            "ELSE arrivals.first_number END, "
            "last_number = CASE WHEN excluded.last_number > arrivals.last_number THEN excluded.last_number "
            "ELSE arrivals.last_number END",
        )


def number_range(connection: Connection, since_ns: int | None, until_ns: int | None) -> tuple[int, int] | None:
    """The lowest and highest number that a trace first received in this time may have; None when there is none."""
    query = select(func.min(arrivals.c.first_number), func.max(arrivals.c.last_number))
    if since_ns is None and until_ns is None:  # any time: two index lookups instead of a row for each minute
        ends = (func.min(traces.c.number), func.max(traces.c.number))
        query = select(*(select(end).scalar_subquery() for end in ends))
    if since_ns is not None:
        query = query.where(arrivals.c.minute >= since_ns // MINUTE_NS)
    if until_ns is not None:
        query = query.where(arrivals.c.minute <= (until_ns - 1) // MINUTE_NS)
    low, high = connection.execute(query).one()
    return None if low is None else (low, high)


def first_arrival(connection: Connection, since_ns: int) -> int | None:
    """The first minute from that of `since_ns` on in which a trace was received, as ns since 1970 UTC.

    None: there is none. Minutes are of all tenants; where `connection` shows one without such a trace, it is None, too.
    """
    numbers = number_range(connection, since_ns, None)
    if numbers is None:
        return None
    since_minute = since_ns // MINUTE_NS
    since_then = traces.c.first_received_ns >= since_minute * MINUTE_NS
    seen = select(traces.c.number).where(traces.c.number.between(*numbers), since_then).limit(1)
    if connection.execute(seen).first() is None:
        return None
    first = select(func.min(arrivals.c.minute)).where(arrivals.c.minute >= since_minute)
    minute: int = connection.execute(first).scalar_one()
    return minute * MINUTE_NS
