"""What is deleted by its age or on request goes with all its rows, and nothing else goes."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select, text

from build import store_with
from build.judged_traces import MINUTE_NS, START_NS, judged, spans, tool_call, trace_id
from build.stored_alerts import ALERT, store_incident
from build.stored_runs import begin
from tracegrade.codec.kept_spans import ValuesGone, decode_spans, encode_spans
from tracegrade.codec.results import new_result
from tracegrade.model.tool_call import ToolError
from tracegrade.model.trace_result import RunSummary, TraceResult
from tracegrade.store import schema
from tracegrade.store.delete import (
    DeletedRows,
    cut_log,
    delete_everywhere,
    delete_old_values,
    delete_older,
    delete_older_of,
    overwrite_deleted,
    traces_before,
    traces_of_session,
    traces_of_user,
)
from tracegrade.store.heads import trace_heads
from tracegrade.store.incidents import recent_incidents
from tracegrade.store.open import open_store, reading
from tracegrade.store.read import closed_traces, stored_traces
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results
from tracegrade.store.schema import CHUNK_TRACES
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


SECRET = "4111-1111-1111-1111"
OLD_NS = START_NS + 3 * MINUTE_NS


def with_values(number: int) -> TraceResult:
    """A trace with a secret in its spans, call, details and resource."""
    made = judged(number, "fail")
    call = replace(made.tool_calls[0], arguments={"card": SECRET}, output=[SECRET], error=ToolError("Declined", SECRET))
    decision = made.decisions[0]
    evaluation = replace(decision.evaluations[0], details={"found": SECRET})
    (span, *others) = spans(number)
    told = [replace(span, attributes={**span.attributes, "gen_ai.input.messages": SECRET}), *others]
    return new_result(
        replace(made.trace, resource={"service.name": "shop", "customer": SECRET}, prompt=f"My card: {SECRET}"),
        encode_spans(told, []),
        [call],
        [replace(decision, evaluations=[evaluation])],
    )


def delete_values(engine: Engine, since_ns: int | None = None, before_ns: int = OLD_NS) -> None:
    after = 0
    while (found := delete_old_values(engine, since_ns, before_ns, after, max_traces=2)) is not None:
        after = found


def stored(engine: Engine, number: int) -> TraceResult:
    with reading(engine) as connection:
        (found,) = stored_traces(connection, bytes.fromhex(trace_id(number)))
    return found


def test_values_go_before_scores(engine: Engine) -> None:
    StoreWriter(engine).write([with_values(number) for number in range(6)])
    with reading(engine) as connection:
        listed = list(results(connection, ResultFilter(), 100))
        before = connection.execute(select(schema.counts)).all()
    delete_values(engine)
    with reading(engine) as connection:
        assert list(results(connection, ResultFilter(), 100)) == listed
        assert connection.execute(select(schema.counts)).all() == before
    old, young = stored(engine, 2), stored(engine, 3)
    assert old.values_are_gone
    assert not young.values_are_gone
    assert SECRET in str(young)
    assert SECRET not in str(old)
    with reading(engine) as connection:
        prompts = [head.prompt for head in trace_heads(connection, ResultFilter(), 6)]
    assert prompts == [f"My card: {SECRET}"] * 3 + [None] * 3
    assert [call.name for call in old.tool_calls] == [call.name for call in young.tool_calls]
    assert old.tool_calls[0].arguments == {"card": "[hidden]"}
    assert old.evaluations[0].score == young.evaluations[0].score
    assert old.trace.resource == {"service.name": "shop", "customer": "[hidden]"}
    with pytest.raises(ValuesGone, match=r"store\.values_retention"):
        decode_spans(old.spans)


def test_no_byte_of_a_value_stays_in_the_file(tmp_path: Path) -> None:
    engine = open_store(store_with(tmp_path))
    StoreWriter(engine).write([with_values(number) for number in range(6)])
    packed, first_words = with_values(1).spans[20:60], SECRET.encode()
    cut_log(engine)
    assert files_with(tmp_path, packed)
    assert files_with(tmp_path, first_words)
    delete_values(engine, before_ns=START_NS + 60 * MINUTE_NS)
    cut_log(engine)
    assert not files_with(tmp_path, packed)
    assert not files_with(tmp_path, first_words)


def test_values_of_what_was_looked_at_before_are_not_looked_at_again(engine: Engine) -> None:
    StoreWriter(engine).write([with_values(number) for number in range(6)])
    delete_values(engine, since_ns=START_NS + 2 * MINUTE_NS)
    assert [stored(engine, number).values_are_gone for number in range(5)] == [False, False, True, False, False]
    delete_values(engine, since_ns=OLD_NS, before_ns=OLD_NS + 2 * MINUTE_NS)
    assert [stored(engine, number).values_are_gone for number in range(5)] == [False, False, True, True, True]


def test_values_of_a_run_go_by_the_age_of_the_run(engine: Engine) -> None:
    begin(engine, "old/1", written_ns=START_NS)
    begin(engine, "new/1", written_ns=OLD_NS + MINUTE_NS)
    made = with_values(4)
    StoreWriter(engine).write([of_run(made, "old/1"), of_run(made, "new/1")])
    delete_values(engine)
    with reading(engine) as connection:
        for run, gone in (("old/1", True), ("new/1", False)):
            (found,) = stored_traces(connection, bytes.fromhex(trace_id(4)), run=run)
            assert found.values_are_gone == gone


def of_run(made: TraceResult, run: str) -> TraceResult:
    return new_result(replace(made.trace, run=run), made.spans, made.tool_calls, made.decisions)


def test_what_comes_of_a_trace_whose_values_are_gone_is_too_late(engine: Engine) -> None:
    StoreWriter(engine).write([with_values(1)])
    delete_values(engine)
    key = ("default", bytes.fromhex(trace_id(1)))
    with reading(engine) as connection:
        found = closed_traces(connection, [key])[key]
    assert (found.spans, found.closed_ns, found.revision) == ([], 0, 0)


def test_of_one_tenant_what_is_older_than_its_quota_allows_goes_and_nobody_elses(engine: Engine) -> None:
    StoreWriter(engine).write([judged(n, tenant=tenant) for n in range(6) for tenant in ("acme", "default")])

    def left(tenant: str) -> list[int]:
        with reading(engine) as connection:
            found = trace_heads(connection, ResultFilter(tenant=tenant), 100)
        return [int(head.trace_id, 16) for head in found]

    assert delete_older_of(engine, "acme", None, START_NS + 4 * MINUTE_NS, max_traces=3) == 3
    assert delete_older_of(engine, "acme", None, START_NS + 4 * MINUTE_NS, max_traces=3) == 1
    assert (left("acme"), left("default")) == ([5, 4], [5, 4, 3, 2, 1, 0])
    assert delete_older_of(engine, "acme", START_NS + 4 * MINUTE_NS, START_NS + 5 * MINUTE_NS) == 1
    assert left("acme") == [5]


def id_of(number: int) -> bytes:
    return bytes.fromhex(trace_id(number))


def files_with(folder: Path, piece: bytes) -> list[str]:
    return [path.name for path in folder.iterdir() if piece in path.read_bytes()]


@pytest.mark.parametrize("revised", [False, True])
def test_no_byte_of_a_deleted_trace_is_left_in_file_or_log(sqlite: Engine, tmp_path: Path, revised: bool) -> None:
    writer = StoreWriter(sqlite)
    secret = [tool_call(name="the-marker")]
    # Small rows, several to a page, so that the page of the one that goes stays in use.
    writer.write([judged(number, tool_calls=secret if number == 25 else None) for number in range(50)])
    if revised:
        writer.write([judged(25, revision=3)])  # the row that holds it is replaced before anybody asks
    other = open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}", read_only=True)  # keeps the log from going by itself
    with other.connect() as connection:
        assert len(trace_heads(connection, ResultFilter(), 100)) == 50
    assert files_with(tmp_path, b"the-marker")
    assert delete_everywhere(sqlite, [id_of(25)]) == DeletedRows(traces=1, evaluations=1)
    overwrite_deleted(sqlite)
    assert files_with(tmp_path, b"the-marker") == []
    with other.connect() as connection:
        assert [int(head.trace_id, 16) for head in trace_heads(connection, ResultFilter(), 100)] == [
            number for number in reversed(range(50)) if number != 25
        ]
    other.dispose()


def test_deleting_again_deletes_nothing(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1), judged(2)])
    assert delete_everywhere(engine, [id_of(1), id_of(9)]).traces == 1
    assert delete_everywhere(engine, [id_of(1), id_of(9)]) == DeletedRows()


def test_a_trace_goes_in_every_tenant_and_run(engine: Engine) -> None:
    begin(engine, "experiment")
    StoreWriter(engine).write([judged(1), judged(1, tenant="other"), judged(1, run="experiment")])
    assert delete_everywhere(engine, [id_of(1)]).traces == 3
    with reading(engine) as connection:
        assert results(connection, ResultFilter(), 9) == []


@pytest.mark.long
def test_a_trace_of_more_sessions_than_a_query_takes_goes(engine: Engine) -> None:
    more = 2**18  # than SQLite takes of parameters, and four times what PostgreSQL takes
    runs = [RunSummary("00", "a", session=f"s-{number}") for number in range(more)]
    StoreWriter(engine).write([judged(1, runs=runs), judged(2)])
    assert delete_everywhere(engine, [id_of(1)]).traces == 1
    assert numbers(engine) == [2]


def test_traces_are_found_by_session_by_user_and_by_time(engine: Engine) -> None:
    runs = [RunSummary("00", "a", session="s-2")]
    StoreWriter(engine).write([judged(1, session="s-1"), judged(2, session="s-1", runs=runs), judged(3)])
    with reading(engine) as connection:
        assert traces_of_session(connection, lambda tenant: ["s-1"]) == {id_of(1), id_of(2)}
        assert traces_of_session(connection, lambda tenant: ["s-2"]) == {id_of(2)}
        assert traces_of_user(connection, lambda tenant: ["shop"], ["service.name"]) == {id_of(1), id_of(2), id_of(3)}
        assert traces_of_user(connection, lambda tenant: ["support"], ["gen_ai.agent.name"]) == {
            id_of(1),
            id_of(2),
            id_of(3),
        }
        assert traces_of_user(connection, lambda tenant: ["nobody"], ["gen_ai.agent.name"]) == set()
        assert traces_before(connection, START_NS + 3 * MINUTE_NS) == {id_of(1), id_of(2)}
