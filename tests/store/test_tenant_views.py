"""A connection for one tenant shows its rows and no others, in every table and view."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from build.any_store import TENANTS, filled
from build.judged_traces import judged, trace_id
from tracegrade.store.alerts import Silence, save_silence, stored_silences
from tracegrade.store.open import open_store, reading
from tracegrade.store.read import stored_traces
from tracegrade.store.schema import metadata, trace_keys
from tracegrade.store.write import StoreWriter

WITHOUT_TENANT = {name for name, table in metadata.tables.items() if "without_tenant" in table.info}


def shown_to(engine: Engine, tenant: str) -> Iterator[Engine]:
    url = engine.url.render_as_string(hide_password=False)
    one = open_store(url, read_only=True, tenant=tenant)
    yield one
    one.dispose()


@pytest.fixture
def other(engine: Engine) -> Iterator[Engine]:
    filled(engine, 1, 40)
    yield from shown_to(engine, "other")


@pytest.fixture
def stranger(engine: Engine) -> Iterator[Engine]:
    filled(engine, 1, 40)
    with engine.begin() as connection:
        save_silence(connection, Silence("a1", {"service": "shop"}, 1, 2, "of everybody"))
        save_silence(connection, Silence("b2", {"service": "shop", "tenant": "other"}, 1, 2, "of one"))
    yield from shown_to(engine, "nobody")


VIEWS = ("agent_runs", "decisions", "evaluations", "results", "tool_calls")


def counts(engine: Engine) -> dict[str, int]:
    with reading(engine) as connection:
        names = [*metadata.tables, *VIEWS]
        if engine.dialect.name == "postgresql":
            names.append(trace_keys.name)
        return {name: connection.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in names}


def test_these_are_all_views(engine: Engine) -> None:
    assert sorted(inspect(engine).get_view_names()) == sorted(VIEWS)


def test_a_stranger_finds_nothing_in_any_table_or_view_but_what_is_of_all(engine: Engine, stranger: Engine) -> None:
    all_of_it, shown = counts(engine), counts(stranger)
    assert {name for name, number in shown.items() if number} <= WITHOUT_TENANT - {"counts", "silences"}
    assert {"traces", "series", "evaluations", "counts", "silences"} <= {name for name, n in all_of_it.items() if n}


def test_one_tenant_has_its_own_and_together_all_have_all(engine: Engine, other: Engine) -> None:
    all_of_it, others = counts(engine), counts(other)
    for default in shown_to(engine, "default"):
        own = counts(default)
    for name in ("traces", "series", "counts", "evaluations", "decisions", "results"):
        assert own[name] + others[name] == all_of_it[name] > others[name] > 0, name
    assert set(TENANTS) == {"default", "other"}


def test_a_trace_id_of_two_tenants_is_two_traces_and_each_sees_its_own(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1), judged(1, tenant="other")])
    own_id = bytes.fromhex(trace_id(1))
    with reading(engine) as connection:
        assert [found.trace.tenant for found in stored_traces(connection, own_id)] == ["default", "other"]
    for one in shown_to(engine, "other"):
        with reading(one) as connection:
            assert [found.trace.tenant for found in stored_traces(connection, own_id)] == ["other"]


def test_a_silence_is_shown_to_the_tenant_that_it_names(engine: Engine, stranger: Engine) -> None:
    with reading(stranger) as connection:
        assert not stored_silences(connection, 0)
    for one in shown_to(engine, "other"):
        with reading(one) as connection:
            assert [silence.id for silence in stored_silences(connection, 0)] == ["b2"]


def test_a_name_with_a_quote_is_a_name(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1)])
    for one in shown_to(engine, "' OR '1'='1"):
        with reading(one) as connection:
            assert not stored_traces(connection, bytes.fromhex(trace_id(1)))


def test_nothing_is_written_through_it(other: Engine) -> None:
    with pytest.raises(DBAPIError), other.begin() as connection:
        connection.execute(text("DELETE FROM traces"))
