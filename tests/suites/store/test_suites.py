"""Stored suites: whole, in order, and seen by their tenant alone."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from tracegrade.model.errors import NotFound
from tracegrade.store.documents import new_id, tenants_of
from tracegrade.store.open import reading
from tracegrade.store.runs import Experiment, save_experiment, stored_experiment
from tracegrade.suites.store.suites import (
    StoredCase,
    StoredSuite,
    delete_suite,
    save_suite,
    stored_suite,
    suite_heads,
    suite_named,
    suites_called,
)
from tracegrade.suites.store.tables import suite_cases

WEATHER = StoredSuite(
    tenant="default",
    id="0123456789ab",
    name="Weather",
    description="of cities",
    system_prompt="Use the tools.",
    tools=[{"type": "function", "function": {"name": "get_weather", "parameters": {"maximum": 2**70}}}],
    cases=[
        StoredCase("second", {"prompt": "b"}),
        StoredCase("first", {"prompt": "a\0", "expected_params": {"n": 0.1}}),
    ],
    created_ns=10,
    updated_ns=20,
)


def test_a_suite_is_named_by_its_id_or_the_beginning_of_it_that_no_other_has(engine: Engine) -> None:
    saved(engine, WEATHER, replace(WEATHER, id="0123f"), replace(WEATHER, tenant="other", id="01234567"))
    with reading(engine) as connection:
        for written, found in {WEATHER.id: WEATHER.id, "01234": WEATHER.id, "0123f": "0123f"}.items():
            assert suite_named(connection, "default", written) == found
        for written in ("012", "0124", "", "%"):
            assert suite_named(connection, "default", written) is None
        with pytest.raises(NotFound, match="'0123' names several suites: 0123456789ab, 0123f; write more"):
            suite_named(connection, "default", "0123")


def saved(engine: Engine, *suites: StoredSuite) -> None:
    with engine.begin() as connection:
        for suite in suites:
            save_suite(connection, suite)


def read(engine: Engine, tenant: str, id_: str) -> StoredSuite | None:
    with reading(engine) as connection:
        return stored_suite(connection, tenant, id_)


def test_a_suite_is_read_as_it_was_saved(engine: Engine) -> None:
    saved(engine, WEATHER)
    assert read(engine, "default", WEATHER.id) == WEATHER
    assert read(engine, "default", "another") is None


def test_saving_again_replaces_all_of_it(engine: Engine) -> None:
    changed = replace(WEATHER, name="Rain", cases=[StoredCase("first", {"prompt": "c"})], tools=[], updated_ns=30)
    saved(engine, WEATHER, changed)
    assert read(engine, "default", WEATHER.id) == changed


def test_many_cases_keep_their_order(engine: Engine) -> None:
    many: list[Any] = [StoredCase(f"case-{1201 - number}", {"prompt": str(number)}) for number in range(1201)]
    saved(engine, replace(WEATHER, cases=many))
    found = read(engine, "default", WEATHER.id)
    assert found is not None
    assert found.cases == many


def test_the_list_counts_tools_and_cases_and_begins_with_the_latest(engine: Engine) -> None:
    empty = StoredSuite(tenant="default", id="ff", name="Empty", created_ns=11, updated_ns=11)
    saved(engine, WEATHER, empty, replace(WEATHER, tenant="other"))
    with reading(engine) as connection:
        heads = suite_heads(connection, "default")
        assert tenants_of(connection, "suites") == ["default", "other"]
    assert [(head.id, head.tool_count, head.test_case_count) for head in heads] == [("ff", 0, 0), (WEATHER.id, 1, 2)]


def test_a_suite_is_found_by_its_id_before_its_name(engine: Engine) -> None:
    saved(engine, WEATHER, replace(WEATHER, id="bb", created_ns=9), replace(WEATHER, id="cc", name=WEATHER.id))
    with reading(engine) as connection:
        assert suites_called(connection, "default", WEATHER.id) == [WEATHER.id]
        assert suites_called(connection, "default", "Weather") == ["bb", WEATHER.id]
        assert suites_called(connection, "other", "Weather") == []


def test_deleting_takes_the_cases_along_and_nothing_of_others(engine: Engine) -> None:
    other = replace(WEATHER, tenant="other")
    saved(engine, WEATHER, other, replace(WEATHER, id="bb"))
    with engine.begin() as connection:
        save_experiment(connection, Experiment("default", "e", 1, None, 0, WEATHER.id, "what for"))
        save_experiment(connection, Experiment("other", "e", 1, None, 0, WEATHER.id))
        assert delete_suite(connection, "default", WEATHER.id)
        assert not delete_suite(connection, "default", WEATHER.id)
    assert read(engine, "default", WEATHER.id) is None
    assert read(engine, "other", WEATHER.id) == other
    assert read(engine, "default", "bb") is not None
    with reading(engine) as connection:
        assert connection.execute(select(func.count()).select_from(suite_cases)).scalar_one() == 4
        kept = stored_experiment(connection, "default", "e")
        assert kept is not None
        assert kept == Experiment("default", "e", 1, None, 0, None, "what for", id=kept.id)
        found = stored_experiment(connection, "other", "e")
        assert found is not None
        assert found.suite == WEATHER.id


def test_ids_are_12_hex_digits_and_differ() -> None:
    ids = {new_id() for _ in range(20)}
    assert len(ids) == 20
    assert all(len(bytes.fromhex(id_)) == 6 for id_ in ids)
