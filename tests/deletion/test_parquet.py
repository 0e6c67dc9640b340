"""Deleted traces leave Parquet files, whether a role runs or not."""

import asyncio
import shutil
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest

from build.parquet_files import names, rows
from build.served_folder import ServedFolder, id_of, secret_trace
from tracegrade.codec.results import decode_result
from tracegrade.deletion.request import Choice, Deletion, Deletions
from tracegrade.deliver.cut import Cut
from tracegrade.deliver.parquet.erase import delete_days_before, writing_lock
from tracegrade.deliver.parquet.settings import ParquetSettings
from tracegrade.deliver.parquet.storage import Storage
from tracegrade.deliver.sinks.parquet import ParquetSink
from tracegrade.journal.reader import JournalReader
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.serve.delivering.parquet_upkeep import keep_parquet_files
from tracegrade.serve.offline import run_deletion_offline
from waiting import eventually_in_loop

SECRET = "4111-1111-1111-1111"


class Analysed:
    """A data folder, and Parquet files of all its results: each in a file of its own, and all in one of another day."""

    def __init__(self, folder: Path) -> None:
        self.kept = ServedFolder(folder / "data")
        self.settings = ParquetSettings(url=str(folder / "parquet"), include_values=True)
        self.kept.config = self.kept.config.model_copy(update={"parquet": self.settings})
        self.folder = folder / "parquet"
        self.deletions = Deletions(self.kept.folder)

    def fill(self) -> None:
        self.kept.receive(
            secret_trace(1, SECRET, session="chat"), secret_trace(2, "other", session="chat"), secret_trace(3, "third")
        )
        reader = JournalReader(self.kept.folder / "results")
        records = [decode_result(record.payload) for record in reader.read(0)]
        reader.close()

        async def write() -> None:
            sink = ParquetSink(self.settings, Storage(self.settings), self.kept.folder / "parquet", "here", frozenset)
            for begin, judged in enumerate(records):
                await sink.deliver([judged])
                await sink.write(Cut(begin, begin + 1))
            await sink.deliver(records)
            await sink.write(Cut(100, 101))
            await sink.close()

        asyncio.run(write())

    def all_rows(self) -> list[dict[str, object]]:
        return [*rows(self.folder, "results"), *rows(self.folder, "tool_calls")]

    def naming(self, trace_id: bytes) -> list[dict[str, object]]:
        return [row for row in self.all_rows() if trace_id.hex() in repr(row)]

    def delete(self, *trace_ids: bytes) -> Deletion:
        return run_deletion_offline(self.kept.config, self.deletions.request(Choice(), frozenset(trace_ids)))

    def upkeep(self, until: Callable[[], bool], settings: ParquetSettings | None) -> None:
        """Run what delivery runs, until that holds."""

        async def run() -> None:
            stop = asyncio.Event()
            keeping = asyncio.create_task(keep_parquet_files(settings, DataFolder(self.kept.folder), stop))
            await eventually_in_loop(until, "the deletion")
            stop.set()
            await keeping

        asyncio.run(run())


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    found = Analysed(tmp_path_factory.mktemp("filled"))
    found.fill()
    return found


@pytest.fixture
def analysed(filled: Analysed, tmp_path: Path) -> Analysed:
    shutil.copytree(filled.kept.folder, tmp_path / "data")
    shutil.copytree(filled.folder, tmp_path / "parquet")
    return Analysed(tmp_path)


def test_a_deleted_trace_leaves_all_files_and_so_do_its_session_and_its_values(analysed: Analysed) -> None:
    theirs = analysed.naming(id_of(1))
    sessions = [row for row in theirs if row.get("subject_kind") == "session"]
    others = [row for row in analysed.all_rows() if row not in theirs]
    assert sessions
    assert others
    assert SECRET in repr(theirs)
    done = analysed.delete(id_of(1))
    assert done.state == "done"
    assert done.deleted.parquet_rows == len(theirs)
    assert analysed.all_rows() == others
    assert SECRET not in repr(others)
    assert all(name.endswith(".parquet") for name in names(analysed.folder))


def test_a_deletion_of_one_tenant_leaves_the_files_of_others(analysed: Analysed) -> None:
    before = analysed.all_rows()
    asked = analysed.deletions.request(Choice(tenant="acme"), frozenset({id_of(1)}))
    assert run_deletion_offline(analysed.kept.config, asked).deleted.parquet_rows == 0
    assert analysed.all_rows() == before


def test_what_a_kill_left_of_a_file_goes_with_it(analysed: Analysed) -> None:
    (first, *_) = names(analysed.folder)
    ours = analysed.folder / f"{first}.123.unfinished"
    of_another_machine = ours.with_name("there-results-0.parquet.123.unfinished")
    ours.write_bytes(SECRET.encode())
    of_another_machine.write_bytes(b"being written")
    analysed.delete(id_of(1))
    assert not ours.exists()
    assert of_another_machine.exists()


def test_a_file_of_which_nothing_is_left_is_deleted(analysed: Analysed) -> None:
    analysed.delete(id_of(1), id_of(2), id_of(3))
    assert names(analysed.folder) == []


def test_files_that_do_not_name_it_are_not_touched(analysed: Analysed) -> None:
    before = {name: (analysed.folder / name).stat() for name in names(analysed.folder)}
    analysed.delete(id_of(3))
    after = {name: (analysed.folder / name).stat() for name in names(analysed.folder)}
    changed = [name for name in after if after[name].st_ino != before[name].st_ino]
    assert 0 < len(changed) < len(after) - 1
    assert analysed.naming(id_of(3)) == []


def test_a_trace_that_only_the_files_still_hold_is_deleted_by_its_id(analysed: Analysed) -> None:
    shutil.rmtree(analysed.kept.folder / "results")
    (analysed.kept.folder / "tracegrade.db").unlink()
    theirs = len(analysed.naming(id_of(3)))
    assert theirs > 0
    done = analysed.delete(id_of(3))
    assert not done.found_nothing
    assert done.deleted.parquet_rows == theirs


def test_a_deletion_that_a_kill_left_is_finished_by_delivery(
    analysed: Analysed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = analysed.deletions.request(Choice(), frozenset({id_of(1)}))
    monkeypatch.setattr("tracegrade.serve.offline.erase_from_files", lambda waiting, *_: waiting)
    run_deletion_offline(analysed.kept.config, asked)
    assert [item.state for item in analysed.deletions.waiting("unstored")] == ["unstored"]
    assert analysed.naming(id_of(1))
    analysed.upkeep(lambda: not analysed.deletions.waiting("unstored"), analysed.settings)
    found = analysed.deletions.find(asked.id)
    assert found is not None
    assert found.state == "done"
    assert found.deleted.parquet_rows > 0
    assert found.deleted.traces > 0  # counted by the judge's part
    assert analysed.naming(id_of(1)) == []


def test_a_deletion_waits_while_files_are_written(analysed: Analysed) -> None:
    lock = writing_lock(analysed.kept.folder / "parquet")
    asked = analysed.delete(id_of(1))
    assert asked.state == "unstored"
    assert analysed.naming(id_of(1))
    lock.release()
    assert run_deletion_offline(analysed.kept.config, asked).state == "done"
    assert analysed.naming(id_of(1)) == []


def test_without_the_setting_a_deletion_does_not_wait_for_files(analysed: Analysed) -> None:
    lock = writing_lock(analysed.kept.folder / "parquet")
    analysed.delete(id_of(1))
    lock.release()
    analysed.upkeep(lambda: not analysed.deletions.waiting("unstored"), None)


def test_days_before_are_deleted_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    kept = [
        "results/tenant=a/date=2026-01-02",
        "results/tenant=a/date=x",
        "results/tenant=a/old",
        "other/date=2020-01-01",
    ]
    old = ["results/tenant=a/date=2026-01-01", "tool_calls/tenant=b/date=2025-12-31"]
    for folder in (*kept, *old):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.parquet").write_bytes(b"")
    assert delete_days_before(Storage(ParquetSettings(url=str(tmp_path))), date(2026, 1, 2)) == 2
    assert names(tmp_path) == sorted(f"{folder}/x.parquet" for folder in kept)


def test_delivery_deletes_the_days_that_are_older_than_kept(analysed: Analysed) -> None:
    before = names(analysed.folder)
    old = analysed.folder / "results" / "tenant=a" / f"date={date.today() - timedelta(days=9)}"
    younger = old.with_name(f"date={date.today() - timedelta(days=6)}")
    for folder in (old, younger):
        folder.mkdir(parents=True)
        (folder / "x.parquet").write_bytes(b"")
    analysed.upkeep(lambda: not old.exists(), analysed.settings.model_copy(update={"retention": 8 * 86_400.0}))
    assert younger.exists()
    assert before  # of 1970
    assert names(analysed.folder) == [(younger / "x.parquet").relative_to(analysed.folder).as_posix()]
