"""Any filter and limit, followed to the end: every list gives what plain SQL gives, no more, no less, in its order."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine

from build.any_store import SERVICES, filled, filters
from build.plain_sql import sql_heads, sql_results, sql_sessions
from tracegrade.store import index
from tracegrade.store.heads import NEWEST, count_heads, session_heads, session_sums, trace_heads, unjudged_sessions
from tracegrade.store.open import reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import newest_of_each, results

Item = TypeVar("Item")

# A store is made from one number: there is nothing to make smaller.
_examples = settings(
    max_examples=settings().max_examples // 2,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def followed(page: Callable[[Item | None], list[Item]], limit: int) -> list[Item]:
    """All items of all pages; each is full but the last."""
    found: list[Item] = []
    while some := page(found[-1] if found else None):
        assert len(some) <= limit
        found += some
        if len(some) < limit:
            break
    return found


def held(connection: Connection, result_filter: ResultFilter, limit: int) -> None:
    """Hold every list that takes `result_filter` to plain SQL."""
    found = followed(
        lambda last: results(connection, result_filter, limit, before=last and (last.number, last.place)), limit
    )
    assert [(result.number, result.place) for result in found] == sql_results(connection, result_filter)
    heads = followed(
        lambda last: trace_heads(connection, result_filter, limit, before=last.number if last else NEWEST), limit
    )
    assert [head.number for head in heads] == sql_heads(connection, result_filter)
    sessions = followed(
        lambda last: session_heads(connection, result_filter, limit, before=last.number if last else NEWEST), limit
    )
    assert [item.number for item in sessions] == sql_heads(connection, result_filter, sessions=True)
    if result_filter.asks_for_results:
        assert count_heads(connection, result_filter, limit) == min(limit, len(heads))
        assert count_heads(connection, result_filter, limit, sessions=True) == min(limit, len(sessions))
    else:
        sums = followed(
            lambda last: session_sums(connection, result_filter, limit, before=last.number if last else NEWEST), limit
        )
        assert [(item.id, item.tenant, item.trace_count) for item in sums] == sql_sessions(connection, result_filter)
        whole = session_heads(connection, ResultFilter(run=result_filter.run), 1000)
        judged = {(head.session, head.tenant) for head in whole}
        unjudged = [item for item in sums if (item.id, item.tenant) not in judged]
        assert unjudged_sessions(connection, result_filter, limit) == unjudged[:limit]


@_examples
@given(
    seed=st.integers(0, 2**32),
    traces=st.integers(0, 120),
    result_filter=st.lists(filters, min_size=1, max_size=6),
    limit=st.integers(1, 7) | st.just(1000),
    searched_series=st.sampled_from([1000, 0]),
)
def test_every_list_gives_what_plain_sql_gives(
    engine: Engine, seed: int, traces: int, result_filter: list[ResultFilter], limit: int, searched_series: int
) -> None:
    filled(engine, seed, traces)
    with pytest.MonkeyPatch.context() as patched, reading(engine) as connection:
        patched.setattr(index, "_MAX_SEARCHED_SERIES", searched_series)
        for some in (ResultFilter(), ResultFilter(service=SERVICES[-1]), *result_filter):
            held(connection, some, limit)


@_examples
@given(seed=st.integers(0, 2**32), traces=st.integers(0, 100), result_filter=filters, limit=st.integers(1, 20))
def test_of_each_group_the_newest_result_is_found(
    engine: Engine, seed: int, traces: int, result_filter: ResultFilter, limit: int
) -> None:
    filled(engine, seed, traces)
    with reading(engine) as connection:
        first = {}
        for result in results(connection, result_filter, 10_000):
            first.setdefault((result.rule_id, result.agent), result)
        found = newest_of_each(connection, result_filter, lambda row: (row.rule_id, row.agent), limit)
    assert found == list(first.values())[:limit]
