"""The services and agents that sent traces lately, the newest traces of each, and the tools that they call."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, select, text, tuple_

from tracegrade.store.heads import IS_TRACE, trace_heads
from tracegrade.store.index import number_range
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import DAY_MINUTES, LIVE, MINUTE_NS, counts, series, traces
from tracegrade.telemetry.series_bound import OTHER


class Sender(NamedTuple):
    """A service, or one of its agents: ``agent`` is empty for the traces of a service, whatever their agents."""

    tenant: str
    service: str
    agent: str = ""


def recent_senders(connection: Connection, since_ns: int) -> list[Sender]:
    """The services of live traces since the (UTC) day of `since_ns`, and their agents that some rule judged, sorted.

    It reads the sums by day, so the cost grows with names and days, not with traces. Names beyond the bound on names
    are not among them.
    """
    minute = since_ns // MINUTE_NS
    query = (
        select(series.c.tenant, series.c.service, series.c.agent)
        .distinct()
        .join(counts, counts.c.series == series.c.number)
        .where(
            counts.c.minutes == DAY_MINUTES,
            counts.c.minute >= minute - minute % DAY_MINUTES,
            series.c.run == LIVE,
            series.c.service != OTHER,
            series.c.agent != OTHER,
        )
    )
    return sorted(Sender(tenant, service, agent) for tenant, service, agent in connection.execute(query))


def newest_of(connection: Connection, senders: Mapping[Sender, int], since_ns: int) -> Iterator[tuple[str, bytes]]:
    """Tenant and id of the newest traces of each sender, at most as many as `senders` says; some may come twice.

    Of agents by the index of results. Services, which may have no results at all, take one look at the rows since
    `since_ns`, the newest first, until all have as many.
    """
    for sender, most in senders.items():
        if sender.agent:
            chosen = ResultFilter(tenant=sender.tenant, service=sender.service, agent=sender.agent, since_ns=since_ns)
            for head in trace_heads(connection, chosen, most):
                yield head.tenant, bytes.fromhex(head.trace_id)
    left = {sender: most for sender, most in senders.items() if not sender.agent}
    if not left or (bounds := number_range(connection, since_ns, None)) is None:
        return
    yield from _of_services(connection, left, bounds, since_ns)


def newest_not_judged(
    connection: Connection, most_each: int, most: int, since_ns: int, *, among: int
) -> Iterator[tuple[str, bytes]]:
    """Tenant and id of the newest live traces that no rule judged, at most `most_each` of a service and `most` in all.

    Only the newest `among` rows are looked at, whatever they are: no index tells such traces apart, nor whose they are,
    since agents of which no rule asks are not read.
    """
    bounds = number_range(connection, since_ns, None)
    if bounds is None:
        return
    newest = (
        select(traces.c.tenant, traces.c.service, traces.c.trace_id, traces.c.evaluations, traces.c.number)
        .where(traces.c.number.between(*bounds), IS_TRACE, traces.c.run == LIVE, traces.c.first_received_ns >= since_ns)
        .order_by(traces.c.number.desc())
        .limit(among)
        .subquery()
    )
    query = select(newest.c.tenant, newest.c.service, newest.c.trace_id).where(newest.c.evaluations == "[]")
    found: Counter[tuple[str, str]] = Counter()
    for tenant, service, trace_id in connection.execute(query.order_by(newest.c.number.desc())):
        if found[tenant, service] < most_each:
            found[tenant, service] += 1
            yield tenant, bytes(trace_id)
            if found.total() == most:
                return


def _of_services(
    connection: Connection, left: dict[Sender, int], bounds: Collection[int], since_ns: int
) -> Iterator[tuple[str, bytes]]:
    low, high = bounds
    query = (
        select(traces.c.tenant, traces.c.service, traces.c.trace_id)
        .where(
            traces.c.number.between(low, high),
            IS_TRACE,
            traces.c.run == LIVE,
            traces.c.first_received_ns >= since_ns,
            tuple_(traces.c.tenant, traces.c.service).in_([sender[:2] for sender in left]),
        )
        .order_by(traces.c.number.desc())
    )
    for tenant, service, trace_id in connection.execute(query.execution_options(yield_per=64)):
        sender = Sender(tenant, service)
        if left.get(sender):
            yield tenant, bytes(trace_id)
            left[sender] -= 1
            if not any(left.values()):
                return


NEWEST_CALLING = 2000  # traces to look at: names repeat, and reading ten million traces would take minutes

_NAMES = text(
    "SELECT DISTINCT newest.service, tool_calls.name FROM tool_calls JOIN "
    "(SELECT number, service FROM traces WHERE run = 'live' ORDER BY number DESC LIMIT :newest) AS newest "
    "ON tool_calls.trace = newest.number"
)


def called_tools(connection: Connection, newest: int = NEWEST_CALLING) -> dict[str, frozenset[str]]:
    """The names of the tools that the newest traces call, as rules see them, by the service of the trace."""
    found: dict[str, set[str]] = {}
    for service, name in connection.execute(_NAMES, {"newest": newest}):
        found.setdefault(service, set()).add(name)
    return {service: frozenset(names) for service, names in found.items()}
