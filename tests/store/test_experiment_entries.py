"""Entries of experiments in every database: their order, whose they are, and what takes them away."""

from typing import Any

from sqlalchemy import Engine

from build.judged_traces import START_NS
from build.stored_runs import begin
from tracegrade.store.open import one_at_a_time
from tracegrade.store.runs import (
    Entry,
    Experiment,
    add_entry,
    delete_experiment,
    entry_count,
    rename_experiment,
    save_experiment,
    stored_entries,
    stored_experiment,
    stored_runs,
    take_back_run,
)


def entry(id_: str, at_ns: int = START_NS, **changes: Any) -> Entry:
    known: dict[str, Any] = {
        "tenant": "default",
        "experiment": "tuning",
        "kind": "param_tune",
        "score": 0.5,
        "configuration": {"temperature": 0.2, "prompts": {"one::m-1": "Größe ☂"}},
    }
    return Entry(id=id_, at_ns=at_ns, **known | changes)


def save(engine: Engine, *entries: Entry) -> None:
    with engine.begin() as connection:
        one_at_a_time(connection)
        for item in entries:
            add_entry(connection, item)


def stored(engine: Engine, tenant: str = "default", experiment: str = "tuning") -> list[Entry]:
    with engine.connect() as connection:
        found = stored_entries(connection, tenant, experiment)
        assert entry_count(connection, tenant, experiment) == len(found)
    return found


def test_entries_come_in_order_each_promoted_one_after_its_tune(engine: Engine) -> None:
    first, second = entry("b", START_NS), entry("a", START_NS + 1, score=None, kind="judge")
    promoted = entry("0", START_NS, kind="eval", promoted_from="b")
    save(engine, second, promoted, first, entry("c", tenant="other"), entry("c", experiment="other"))
    assert stored(engine) == [first, promoted, second]
    assert [item.id for item in stored(engine, "other")] == ["c"]


def test_they_go_with_their_experiment_and_with_its_name(engine: Engine) -> None:
    begin(engine, "tuning/1")
    save(engine, entry("a"), entry("b", tenant="other"), entry("c", experiment="other"))
    with engine.begin() as connection:
        rename_experiment(connection, "default", "tuning", "new name")
    assert [item.id for item in stored(engine, experiment="new name")] == ["a"]
    with engine.connect() as connection:
        assert [run.name for run in stored_runs(connection, "default", "new name")] == ["tuning/1"]
    delete_experiment(engine, "default", "new name")
    assert stored(engine, experiment="new name") == []
    assert [len(stored(engine, "other")), len(stored(engine, experiment="other"))] == [1, 1]


def test_what_a_person_made_or_a_tool_reported_to_is_not_taken_back_with_its_first_run(engine: Engine) -> None:
    begin(engine, "a/1", experiment="a")
    begin(engine, "b/1", experiment="b")
    begin(engine, "c/1", experiment="c")
    save(engine, entry("x", experiment="b"))
    with engine.begin() as connection:
        save_experiment(connection, Experiment("default", "c", START_NS, None, 0, None, ""))
        for name in ("a", "b", "c"):
            take_back_run(connection, "default", f"{name}/1")
        kept = [name for name in ("a", "b", "c") if stored_experiment(connection, "default", name) is not None]
    assert kept == ["b", "c"]
