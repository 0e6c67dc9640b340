"""The list of incidents, in pages."""

from sqlalchemy import Connection

from tracegrade.queries.paging import Page, page_of, read_cursor
from tracegrade.queries.parameters import IncidentsQuery
from tracegrade.store.incidents import Incident, recent_incidents
from tracegrade.store.result_filter import ResultFilter

# More than ever begin at one time; a cursor that somebody made up may say anything.
_MOST_TOGETHER = 10_000


def incidents_page(
    connection: Connection, query: IncidentsQuery, limit: int, cursor: str | None = None
) -> Page[Incident]:
    """Incidents, the one that began last first; of those that began together, by their place among them."""
    after = read_cursor(cursor)
    begun_by_ns, seen = (None, 0) if after is None else (after[0], min(after[1] + 1, _MOST_TOGETHER))
    # Those of before that began at the same time are read again.
    chosen = ResultFilter(rule=query.rule, service=query.service, agent=query.agent, release=query.release)
    found = recent_incidents(
        connection,
        query.since,
        seen + limit + 1,
        result_filter=chosen,
        firing=query.firing,
        begun_by_ns=begun_by_ns,
    )
    placed: list[tuple[tuple[int, int], Incident]] = []
    for incident in found:
        same = placed and placed[-1][0][0] == incident.starts_ns
        placed.append(((incident.starts_ns, placed[-1][0][1] + 1 if same else 0), incident))
    if after is not None:
        placed = [(place, incident) for place, incident in placed if (-place[0], place[1]) > (-after[0], after[1])]
    page = page_of(placed, limit, lambda item: item[0])
    return Page([incident for _, incident in page.items], page.next)
