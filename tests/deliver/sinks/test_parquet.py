"""The Parquet sink, with real files in a folder."""

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from build.parquet_files import TRACE_ID, names, rows
from build.records import summary_of
from tracegrade.codec.results import new_result
from tracegrade.deliver.cut import Cut
from tracegrade.deliver.parquet.columns import COLUMNS
from tracegrade.deliver.parquet.erase import writing_lock
from tracegrade.deliver.parquet.gathered import Gathered
from tracegrade.deliver.parquet.settings import ParquetSettings
from tracegrade.deliver.parquet.storage import Storage
from tracegrade.deliver.sink import DONE, Delivery
from tracegrade.deliver.sinks.parquet import ParquetSink
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.model.trace_result import TraceResult

DAY_NS = 86_400 * 10**9
SECRET = "4111 1111"  # the value that the fixture `judged` has in its details


class Written:
    """A folder of Parquet files and what writes to it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder / "parquet"
        self.deleted: Collection[bytes] = ()
        self.data = folder / "data" / "parquet"
        self.settings = ParquetSettings(url=str(self.folder), **settings)

    def sink(self, journal: str = "results") -> ParquetSink:
        return ParquetSink(
            self.settings, Storage(self.settings), self.data, "here", lambda: self.deleted, journal=journal
        )

    def write(self, *batch: TraceResult, begin: int = 0, end: int = 100, journal: str = "results") -> Delivery:
        """Gather and write, as one process does."""

        async def write() -> Delivery:
            sink = self.sink(journal)
            await sink.deliver(batch)
            delivery = await sink.write(Cut(begin, end))
            await sink.close()
            return delivery

        return asyncio.run(write())

    def results(self) -> list[dict[str, Any]]:
        return rows(self.folder, "results")

    def calls(self) -> list[dict[str, Any]]:
        return rows(self.folder, "tool_calls")


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def called(**changes: Any) -> ToolCall:
    values: dict[str, Any] = {
        "name": "find_order",
        "raw_name": "find_order",
        "call_id": "c1",
        "arguments": {"card": SECRET},
        "arguments_status": "ok",
        "output": [SECRET],
        "output_status": "ok",
        "error": ToolError("Refused", f"no card {SECRET}"),
        "start_ns": 1_700_000_000_000_001_500,
        "end_ns": 1_700_000_000_000_004_000,
        "span_id": "aa",
        "agent": "support",
        "agent_span_id": "bb",
    }
    return ToolCall(**values | changes)


def with_calls(*calls: ToolCall, **trace: Any) -> TraceResult:
    return new_result(summary_of(trace_id=TRACE_ID, **trace), b"", list(calls), [])


def test_each_evaluation_is_a_row_with_its_decision(written: Written, judged) -> None:
    batch = judged({}, {"evaluation": "args", "outcome": "fail", "score": 0.5}, first_received_ns=3 * DAY_NS + 5_000)
    assert written.write(batch) == DONE
    first, second = written.results()
    assert first["folder"] == "tenant=default/date=1970-01-04"
    assert first["id"] == batch.evaluations[0].id
    assert (first["outcome"], first["score"], first["rule_outcome"]) == ("pass", 1.0, "fail")
    assert (second["outcome"], second["score"], second["rule_outcome"]) == ("fail", 0.5, "fail")
    assert first["received"] == datetime.fromtimestamp(3 * 86_400, UTC).replace(microsecond=5)
    assert (first["judged_id"], first["trace_id"], first["revision"]) == (TRACE_ID, TRACE_ID, 3)
    assert (first["decision"], first["rule_id"], first["agent"]) == ("evaluated", "checkout-order", "support")
    assert first["release"] is None
    assert first["case"] is None


def test_each_tool_call_is_a_row(written: Written) -> None:
    written.write(with_calls(called(), called(name="refund", error=None, start_ns=0, end_ns=0, batch=2)))
    first, second = written.calls()
    assert (first["number"], first["name"], first["error_type"]) == (0, "find_order", "Refused")
    assert (first["duration_ns"], first["start"].microsecond) == (2500, 1)
    assert (second["number"], second["name"], second["error_type"], second["batch"]) == (1, "refund", None, 2)
    assert second["start"] is second["end"] is second["duration_ns"] is None
    assert written.results() == []


def test_the_columns_are_those_that_are_documented(written: Written, judged) -> None:
    written.write(judged({}), with_calls(called()))
    for table, found in (("results", written.results()), ("tool_calls", written.calls())):
        assert list(found[0]) == [*(column.name for column in COLUMNS[table]), "folder"]


def test_values_are_written_only_where_they_are_asked_for(tmp_path: Path, judged) -> None:
    failed = {"outcome": "error", "score": None, "reason": f"KeyError: {SECRET}", "explanation": f"no {SECRET}"}
    batch = (judged({}, failed), with_calls(called()))
    without = Written(tmp_path / "without")
    without.write(*batch)
    found = [*without.results(), *without.calls()]
    assert len(found) == 3
    assert SECRET not in repr(found)
    assert found[1]["reason"] == "KeyError"
    values = [(table, column.name) for table in COLUMNS for column in COLUMNS[table] if column.is_value]
    assert all(row[name] is None for row in found for _, name in values if name in row)

    complete = Written(tmp_path / "with", include_values=True)
    complete.write(*batch)
    assert complete.results()[0]["details"] == f'{{"found":["{SECRET}"]}}'
    assert complete.results()[1]["reason"] == f"KeyError: {SECRET}"
    (call,) = complete.calls()
    assert (call["arguments"], call["output"]) == (f'{{"card":"{SECRET}"}}', f'["{SECRET}"]')
    assert call["error_message"] == f"no card {SECRET}"


def test_writing_a_cut_again_overwrites_its_files(written: Written, judged) -> None:
    batch = (judged({}, first_received_ns=DAY_NS), judged({}, tenant="b"), with_calls(called()))
    written.write(*batch)
    before = {name: (written.folder / name).read_bytes() for name in names(written.folder)}
    assert set(before) == {
        "results/tenant=default/date=1970-01-02/here-results-00000000000000000000.parquet",
        "results/tenant=b/date=1970-01-01/here-results-00000000000000000000.parquet",
        "tool_calls/tenant=default/date=1970-01-01/here-results-00000000000000000000.parquet",
    }
    written.write(*batch)
    assert {name: (written.folder / name).read_bytes() for name in names(written.folder)} == before
    assert written.sink().last_cut() == Cut(0, 100)


def test_results_journals_have_files_and_cuts_of_their_own(written: Written, judged) -> None:
    written.write(judged({}), journal="results-1", end=5)
    written.write(judged({}), journal="results-2", end=7)
    assert len(written.results()) == 2
    assert written.sink("results-1").last_cut() == Cut(0, 5)
    assert written.sink().of_journal("results-2").last_cut() == Cut(0, 7)
    assert written.sink().last_cut() is None


@pytest.mark.parametrize(
    ("tenant", "folder"),
    [
        ("shop-1", "tenant=shop-1"),
        ("a/b", "tenant=a%2Fb"),
        ("../x=1", "tenant=..%2Fx%3D1"),
        ("Käse", "tenant=K%C3%A4se"),
        ("", "tenant="),
    ],
)
def test_a_tenants_name_is_safe_in_a_path(written: Written, judged, tenant: str, folder: str) -> None:
    written.write(judged({}, tenant=tenant))
    assert written.results()[0]["folder"] == f"{folder}/date=1970-01-01"


def test_tenants_whose_names_are_too_long_for_a_path_stay_apart(written: Written, judged) -> None:
    written.write(judged({}, tenant="ä" * 300 + "1"), judged({}, tenant="ä" * 300 + "2"))
    folders = {row["folder"].partition("/")[0] for row in written.results()}
    assert len(folders) == 2
    assert all(len(folder.encode()) < 255 for folder in folders)


def test_a_revision_without_results_has_a_row_if_it_replaces_one(written: Written, judged) -> None:
    written.write(judged(), judged(revision=5, supersedes=3))
    (row,) = written.results()
    assert (row["revision"], row["rule_id"], row["id"], row["judged_id"]) == (5, None, None, TRACE_ID)


def test_a_session_has_an_id_of_its_own_and_names_its_traces(written: Written, judged) -> None:
    session = {"subject": {"kind": "session", "id": "chat"}, "session": "chat"}
    batch = judged(session, session="chat", members={bytes.fromhex(TRACE_ID): 2})
    written.write(batch)
    (row,) = written.results()
    assert row["judged_id"] == batch.trace.own_id.hex() != TRACE_ID
    assert (row["members"], row["session"]) == ([TRACE_ID], "chat")


def test_a_row_that_no_file_can_hold_is_counted_and_the_others_are_written(written: Written) -> None:
    delivery = written.write(with_calls(called(), called(attempt=2**70), called(name="refund")))
    assert delivery == Delivery("done", "not_storable", failed_records=1)
    assert [call["name"] for call in written.calls()] == ["find_order", "refund"]


def test_text_that_is_no_unicode_is_written_with_replacements(written: Written) -> None:
    written.write(with_calls(called(agent="a\ud800b\0")))
    assert written.calls()[0]["agent"] == "a?b\N{REPLACEMENT CHARACTER}"


def test_rows_of_deleted_traces_are_not_written(written: Written, judged) -> None:
    other = "ff" * 16
    session = {"subject": {"kind": "session", "id": "chat"}, "session": "chat"}
    batch = (
        judged({}),
        judged({}, trace_id=other),
        judged(session, trace_id=other, session="chat", members={bytes.fromhex(TRACE_ID): 2}),
        with_calls(called()),
    )
    written.write(*batch)
    assert len(written.results()) == 3
    written.deleted = {bytes.fromhex(TRACE_ID)}
    written.write(*batch)  # after a kill: the files that hold them are replaced
    assert [row["judged_id"] for row in written.results()] == [other]
    assert written.calls() == []


def test_a_disk_that_refuses_is_tried_again_and_nothing_is_forgotten(written: Written, judged) -> None:
    written.folder.write_text("no folder")

    async def write() -> tuple[Delivery, Delivery]:
        sink = written.sink()
        await sink.deliver([judged({})])
        refused = await sink.write(Cut(0, 100))
        written.folder.unlink()
        taken = await sink.write(Cut(0, 100))
        await sink.close()
        return refused, taken

    refused, taken = asyncio.run(write())
    assert refused == Delivery("retry", "storage_unavailable")
    assert taken == DONE
    assert len(written.results()) == 1


def test_writing_waits_while_files_are_rewritten(written: Written, judged) -> None:
    lock = writing_lock(written.data)
    assert written.write(judged({})) == Delivery("retry", "deletion_under_way")
    lock.release()
    assert written.write(judged({})) == DONE


def test_the_sink_is_full_at_its_number_of_rows(tmp_path: Path, judged) -> None:
    sink = Written(tmp_path, max_rows=3).sink()

    async def gather() -> list[bool]:
        full = []
        for _ in range(3):
            await sink.deliver([judged({})])
            full.append(sink.is_full)
        await sink.close()
        return full

    assert asyncio.run(gather()) == [False, False, True]


def test_the_sink_is_full_when_long_values_fill_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.deliver.sinks.parquet.MAX_BYTES", 100_000)
    sink = Written(tmp_path, include_values=True).sink()

    async def gather() -> list[bool]:
        full = []
        for length in (10, 40_000, 40_000, 40_000):
            await sink.deliver([with_calls(called(output="x" * length))])
            full.append(sink.is_full)
        await sink.write(Cut(0, 1))
        await sink.close()
        return [*full, sink.is_full]

    assert asyncio.run(gather()) == [False, False, False, True, False]


def test_values_are_counted_once_when_they_become_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.deliver.parquet.gathered._CHUNK_ROWS", 2)
    gathered = Gathered(include_values=True)
    for _ in range(3):
        gathered.add(with_calls(called(output="x" * 40_000)))
    assert 3 * 40_000 < gathered.bytes < 4 * 40_000
