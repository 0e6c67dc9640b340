"""What the judge process deletes from its store from time to time."""

import asyncio
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Engine

from build import give_up_waiting, store_with
from build.judged_traces import judged, trace_id
from tracegrade.rule.load import load_rules
from tracegrade.serve.delivering import store_upkeep
from tracegrade.serve.delivering.store_upkeep import StoreUpkeep
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.store.delete import delete_older_of
from tracegrade.store.open import checkpoint, open_store, reading
from tracegrade.store.read import stored_traces
from tracegrade.store.several_processes import Leader
from tracegrade.store.write import StoreWriter
from tracegrade.telemetry.conditions import Conditions
from waiting import eventually_in_loop


def upkeep(engine: Engine, stop: asyncio.Event, conditions: Conditions | None = None) -> StoreUpkeep:
    return StoreUpkeep(engine, Leader(engine), conditions or Conditions(), stop)


def test_the_file_gets_smaller_after_retention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_upkeep, "RETENTION_EVERY_S", 0.01)
    engine = open_store(store_with(tmp_path, *(judged(number) for number in range(500))))
    path = tmp_path / "tracegrade.db"
    checkpoint(engine)
    full = path.stat().st_size

    async def run() -> None:
        stop = asyncio.Event()
        keeping = asyncio.create_task(upkeep(engine, stop).delete_old_traces(3600.0, {}))
        await eventually_in_loop(lambda: path.stat().st_size < 0.6 * full, "a smaller file")
        stop.set()
        await keeping

    asyncio.run(run())
    engine.dispose()


def test_values_of_old_traces_are_deleted_and_those_judged_late_with_the_next_whole_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_upkeep, "RETENTION_EVERY_S", 0.01)
    monkeypatch.setattr(store_upkeep, "_WHOLE_EVERY_S", 0.5)
    engine = open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}")
    writer = StoreWriter(engine)
    writer.write([judged(1), judged(2, first_received_ns=time.time_ns())])

    def gone(number: int) -> bool:
        with reading(engine) as connection:
            (found,) = stored_traces(connection, bytes.fromhex(trace_id(number)))
        return found.values_are_gone

    async def run() -> None:
        stop = asyncio.Event()
        keeping = asyncio.create_task(upkeep(engine, stop).keep_values_young(3600.0))
        await eventually_in_loop(lambda: gone(1), "the values to be deleted")
        writer.write([judged(3)])
        await eventually_in_loop(lambda: gone(3), "those of a trace that was judged late")
        stop.set()
        await keeping

    asyncio.run(run())
    assert not gone(2)
    engine.dispose()


def test_traces_of_a_tenant_with_a_shorter_time_go_earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_upkeep, "RETENTION_EVERY_S", 0.01)
    since: list[int | None] = []

    def delete(*asked: Any) -> int:
        since.append(asked[2])
        return delete_older_of(*asked)

    monkeypatch.setattr(store_upkeep, "delete_older_of", delete)
    engine = open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}")
    hour_ago = time.time_ns() - 3600 * 10**9
    StoreWriter(engine).write([judged(1, tenant=name, first_received_ns=hour_ago) for name in ("acme", "default")])

    def owners() -> list[str]:
        with reading(engine) as connection:
            return [found.trace.tenant for found in stored_traces(connection, bytes.fromhex(trace_id(1)))]

    async def run() -> None:
        stop = asyncio.Event()
        keeping = asyncio.create_task(upkeep(engine, stop).delete_old_traces(86400.0, {"acme": 600.0}))
        await eventually_in_loop(lambda: since and since[-1] is not None, "a look at what became old since the first")
        assert owners() == ["default"]
        half_an_hour_ago = time.time_ns() - 1800 * 10**9
        StoreWriter(engine).write([judged(1, tenant="acme", first_received_ns=half_an_hour_ago)])
        await eventually_in_loop(lambda: owners() == ["default"], "one that was old already when it was stored")
        stop.set()
        await keeping

    assert owners() == ["acme", "default"]
    asyncio.run(run())
    engine.dispose()


def test_a_store_that_refuses_any_work_ends_nothing_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for every in ("RETENTION_EVERY_S", "KEEP_RULE_TEXTS_EVERY_S"):
        monkeypatch.setattr(store_upkeep, every, 0.01)
    give_up_waiting(monkeypatch)
    engine = open_store(store_with(tmp_path))
    StoreWriter(engine).write([judged(1, tenant="acme")])
    conditions, stop = Conditions(), asyncio.Event()
    keeping = upkeep(engine, stop, conditions)
    rules = cast(RuleReload, SimpleNamespace(in_force=load_rules(["builtin:demo"])))

    def refused() -> set[str]:
        return {found.where for found in conditions.current() if found.name == "store_unavailable"}

    async def run() -> None:
        other = sqlite3.connect(str(engine.url.database), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        works = [keeping.delete_old_traces(3600.0, {"acme": 1.0}), keeping.keep_values_young(1.0)]
        tasks = [asyncio.create_task(work) for work in (*works, keeping.keep_rule_texts(rules))]

        def ended() -> bool:
            return any(task.done() for task in tasks)

        await eventually_in_loop(lambda: ended() or len(refused()) == len(tasks), "each work to be refused")
        assert not ended()
        other.execute("ROLLBACK")
        other.close()
        await eventually_in_loop(lambda: not refused(), "each work to be done")
        stop.set()
        await asyncio.gather(*tasks)

    asyncio.run(run())
    with reading(engine) as connection:
        assert stored_traces(connection, bytes.fromhex(trace_id(1))) == []
    engine.dispose()
