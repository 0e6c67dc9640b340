"""What was deleted at one data folder is deleted at all others on the same PostgreSQL."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from build.engines import POSTGRESQL, needs_postgresql, without_tables
from build.everything import places_of
from build.served_folder import ServedFolder, id_of, secret_trace
from tracegrade.deletion.request import Choice, Deletion, Deletions
from tracegrade.deletion.shared import KEPT_NS, SharedDeletions, share_deletions
from tracegrade.journal.lock import FolderLock
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.serve.delivering.deletion_upkeep import look_for_deletions
from tracegrade.serve.offline import run_deletion_offline
from tracegrade.store.open import open_store

pytestmark = needs_postgresql
SECRET = "the-marker-that-must-go"
KAFKA = {"brokers": ["127.0.0.1:1"]}


@pytest.fixture
def first(tmp_path: Path) -> ServedFolder:
    without_tables(POSTGRESQL)
    return ServedFolder(tmp_path / "first", POSTGRESQL)


@pytest.fixture
def second(first: ServedFolder, tmp_path: Path) -> ServedFolder:
    return ServedFolder(tmp_path / "second", POSTGRESQL)


def _delete(kept: ServedFolder, choice: Choice, *traces: int) -> Deletion:
    asked = Deletions(kept.folder).request(choice, frozenset(map(id_of, traces)))
    return run_deletion_offline(kept.config, asked)


def _take_over(kept: ServedFolder) -> list[Deletion]:
    engine = open_store(POSTGRESQL)
    try:
        return SharedDeletions(kept.folder, engine).take_over()
    finally:
        engine.dispose()


def _places(kept: ServedFolder, pieces: Sequence[str]) -> dict[str, set[str]]:
    engine: Engine = open_store(POSTGRESQL)
    try:
        return places_of(kept.folder, engine, pieces, [])
    finally:
        engine.dispose()


def test_another_data_folder_erases_what_it_has_of_the_same_trace(first: ServedFolder, second: ServedFolder) -> None:
    first.receive(secret_trace(1, SECRET), secret_trace(2, "another one"))
    second.receive(secret_trace(1, SECRET))  # as where requests of one trace come to both
    assert _delete(first, Choice(), 1).state == "done"
    assert {"journal", "results"} <= set(_places(second, [SECRET]))
    (taken,) = _take_over(second)
    assert (taken.state, taken.trace_ids) == ("resolved", {id_of(1)})
    assert run_deletion_offline(second.config, taken).state == "done"
    assert _places(second, [SECRET]) == {}
    assert id_of(1) in Deletions(second.folder).tombstones()
    assert _places(first, ["another one"]) != {}


def test_it_is_taken_over_once_also_after_a_restart_and_not_by_the_one_asked(
    first: ServedFolder, second: ServedFolder
) -> None:
    first.receive(secret_trace(1, SECRET, session="chat"))
    _delete(first, Choice(session="chat", tenant="default"))
    assert _take_over(first) == []
    (taken,) = _take_over(second)
    assert taken.choice == Choice(tenant="default"), "whose session it was is told to nobody"
    assert _take_over(second) == []
    run_deletion_offline(second.config, taken)
    (path,) = (second.folder / "deletions").glob("*.deletion.json")
    path.unlink()  # as a day later
    assert _take_over(second) == []


def test_one_that_is_killed_before_it_noted_that_takes_it_over_again(
    first: ServedFolder, second: ServedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first.receive(secret_trace(1, SECRET))
    _delete(first, Choice(), 1)

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tracegrade.deletion.shared.replace_file", kill)
        with pytest.raises(KeyboardInterrupt):
            _take_over(second)
    assert _take_over(second) == [], "it is asked for already"
    assert [each.trace_ids for each in Deletions(second.folder).waiting("resolved")] == [{id_of(1)}]


def test_what_found_nothing_or_is_too_old_is_told_to_nobody(first: ServedFolder, second: ServedFolder) -> None:
    first.receive(secret_trace(1, SECRET))
    assert _delete(first, Choice(session="of nobody")).found_nothing
    engine = open_store(POSTGRESQL)
    old = replace(Deletion("1", time.time_ns() - KEPT_NS - 1), trace_ids=frozenset({id_of(7)}))
    share_deletions(engine, [old])
    share_deletions(engine, [])
    engine.dispose()
    assert _take_over(second) == []


def test_over_kafka_a_judge_without_a_receive_role_does_its_part(first: ServedFolder, second: ServedFolder) -> None:
    first.receive(secret_trace(1, SECRET))
    _delete(first, Choice(), 1)
    journal = second.config.journal.model_validate({"kafka": KAFKA})
    config = second.config.model_copy(update={"journal": journal})
    folder, deletions = DataFolder(second.folder), Deletions(second.folder)
    engine = open_store(POSTGRESQL)
    try:
        receiving = FolderLock(folder.path / "receive.lock", "receiving")
        look_for_deletions(config, folder, SharedDeletions(folder.path, engine))
        assert [each.state for each in deletions.waiting("resolved", "erased")] == ["resolved"], (
            "the receive role does it"
        )
        receiving.release()
        look_for_deletions(config, folder, SharedDeletions(folder.path, engine))
        assert [each.state for each in deletions.waiting("resolved", "erased")] == ["erased"]
        assert id_of(1) in deletions.tombstones()
    finally:
        engine.dispose()
