from dataclasses import replace

import pytest
from sqlalchemy import Engine, func, select, text

from store.judged_traces import MINUTE_NS, START_NS, judged
from store.stored_alerts import ALERT, store_incident
from tracegrade.store import schema
from tracegrade.store.blocks import CHUNK_TRACES
from tracegrade.store.heads import trace_heads
from tracegrade.store.incidents import recent_incidents
from tracegrade.store.open import reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results
from tracegrade.store.retention import delete_older
from tracegrade.store.write import StoreWriter


def numbers(engine: Engine) -> list[int]:
    with reading(engine) as connection:
        return [int(head.trace_id, 16) for head in trace_heads(connection, ResultFilter(), 100)]


def test_older_traces_go_with_all_their_rows(engine: Engine) -> None:
    StoreWriter(engine).write([judged(number) for number in range(6)])
    assert delete_older(engine, START_NS + 4 * MINUTE_NS) == 4
    assert numbers(engine) == [5, 4]
    with reading(engine) as connection:
        for view in ("tool_calls", "evaluations", "decisions"):
            assert connection.execute(text(f"SELECT count(*) FROM {view}")).scalar_one() == 2


def test_a_call_deletes_no_more_than_told_oldest_first(engine: Engine) -> None:
    StoreWriter(engine).write([judged(number) for number in range(6)])
    assert delete_older(engine, START_NS + 4 * MINUTE_NS, max_traces=3) == 3
    assert numbers(engine) == [5, 4, 3]
    assert delete_older(engine, START_NS + 4 * MINUTE_NS, max_traces=3) == 1
    assert delete_older(engine, START_NS + 4 * MINUTE_NS, max_traces=3) == 0


def test_counts_of_that_age_go_at_the_end(engine: Engine) -> None:
    StoreWriter(engine).write([judged(number) for number in range(6)])
    while delete_older(engine, START_NS + 4 * MINUTE_NS):
        pass
    with reading(engine) as connection:
        counts = schema.counts.c
        query = select(counts.minutes, counts.minute).distinct().order_by(counts.minutes, counts.minute)
        start = START_NS // MINUTE_NS
        left = [tuple(row) for row in connection.execute(query)]
    day = start - start % schema.DAY_MINUTES
    by_minute = [(1, start + 4), (1, start + 5)]
    assert left == [*by_minute, (60, start), (schema.DAY_MINUTES, day)], "hour and day have minutes not that old"


def test_what_is_left_is_found_by_time(engine: Engine) -> None:
    writer = StoreWriter(engine)
    writer.write([judged(number) for number in range(6)])
    while delete_older(engine, START_NS + 6 * MINUTE_NS):
        pass
    writer.write([judged(7)])
    with reading(engine) as connection:
        assert len(results(connection, ResultFilter(since_ns=START_NS + 6 * MINUTE_NS), 10)) == 1


def test_an_empty_store_has_nothing_to_delete(engine: Engine) -> None:
    assert delete_older(engine, START_NS) == 0


@pytest.mark.slow
def test_blocks_go_with_the_last_of_their_chunk(engine: Engine) -> None:
    writer = StoreWriter(engine)
    for start in range(0, 3 * CHUNK_TRACES, CHUNK_TRACES):
        writer.write([judged(number) for number in range(start, start + CHUNK_TRACES)])
    with reading(engine) as connection:
        lowest = connection.execute(select(func.min(schema.blocks.c.chunk))).scalar_one()
    # Trace n has the (n + 1)th number of the first chunk, and the first minute of its own.
    for minute, kept in ((CHUNK_TRACES - 2, [0, 1, 2, 3]), (CHUNK_TRACES - 1, [1, 2, 3]), (4 * CHUNK_TRACES, [])):
        while delete_older(engine, START_NS + minute * MINUTE_NS):
            pass
        with reading(engine) as connection:
            query = select(schema.blocks.c.chunk).distinct().order_by(schema.blocks.c.chunk)
            assert [chunk - lowest for chunk in connection.execute(query).scalars()] == kept


def test_an_incident_goes_with_all_its_alerts_when_its_end_is_that_old(engine: Engine) -> None:
    old, recent = START_NS - MINUTE_NS, START_NS + 9 * MINUTE_NS
    ended = replace(ALERT, state="resolved", starts_ns=old, ends_ns=old)
    still = replace(ALERT, fingerprint="cd" * 16, starts_ns=old)
    later = replace(still, fingerprint="ef" * 16, state="resolved", ends_ns=recent)
    with engine.begin() as connection:
        kept = [store_incident(connection, *members).id for members in ((ended, still), (later,))]
        store_incident(connection, replace(ended, fingerprint="01" * 16))
    delete_older(engine, START_NS)
    with reading(engine) as connection:
        found = recent_incidents(connection, 0)
    assert {incident.id: len(incident.members) for incident in found} == {kept[0]: 2, kept[1]: 1}
