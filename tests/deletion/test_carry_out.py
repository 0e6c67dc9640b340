"""After a deletion no byte of a trace is left, whenever it was interrupted; all others are as they were."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from build.engines import BACKENDS, POSTGRESQL, without_tables
from build.otlp import tool_span
from build.served_folder import ServedFolder, id_of, packed_rows, pieces_of, secret_trace
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.codec.results import decode_result, is_erased, unpack_summary
from tracegrade.deletion.carry_out import erase_from_journal, erase_from_results
from tracegrade.deletion.late_spans_of_deleted import ASK_EVERY_S, LateSpansOfDeleted
from tracegrade.deletion.request import Choice, Deletion, Deletions
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.receive.redacted_ids import RedactedIds
from tracegrade.serve.offline import run_deletion_offline
from tracegrade.store.alerts import open_alerts
from tracegrade.store.heads import trace_heads
from tracegrade.store.open import open_store
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results
from tracegrade.store.schema import traces as traces_table
from tracegrade.store.tallies import ALL_SUMS, RATED_BY, tallies
from tracegrade.telemetry.metrics import Exemplar, Telemetry

SECRET = "the-marker-that-must-go"
SESSION, USER = "conversation-to-forget", "user-to-forget"

# Where a kill hits: whatever makes a step of a deletion durable.
STEPS = [
    "tracegrade.deletion.request.replace_file",
    "tracegrade.deletion.tombstones.replace_file",
    "tracegrade.journal.erase._replace",
    "tracegrade.deletion.carry_out.delete_everywhere",
    "tracegrade.deletion.carry_out.overwrite_deleted",
    "tracegrade.store.delete.cut_log",
]


class Killed(BaseException):
    """The process ends here."""


def killing(step: str, at: int, *, after: bool) -> Any:
    """A patch under which the `at`-th call of `step` is the last thing that happens."""
    module, _, name = step.rpartition(".")
    real: Callable[..., Any] = getattr(__import__(module, fromlist=[name]), name)
    calls = iter(range(1000))

    def call(*arguments: Any, **named: Any) -> Any:
        is_last = next(calls) == at
        if is_last and not after:
            raise Killed
        result = real(*arguments, **named)
        if is_last:
            raise Killed
        return result

    return patch(step, call)


@pytest.fixture(params=BACKENDS)
def store_url(request: pytest.FixtureRequest) -> str:
    """Of an empty store: the folder's own, and PostgreSQL where there is one."""
    if request.param == "sqlite":
        return ""
    without_tables(POSTGRESQL)
    return POSTGRESQL


def filled(folder: Path, store_url: str = "") -> ServedFolder:
    """Traces 1 and 3 hold the secret, one of them of a session with trace 4; 2 shares a request with 1."""
    kept = ServedFolder(folder, store_url)
    first, second = secret_trace(1, SECRET, SESSION, USER), secret_trace(2, "harmless")
    kept.receive(first[1:] + second[:1], [*first[:1], *second[1:]], secret_trace(4, "also harmless", SESSION))
    kept.alert_about(id_of(1), id_of(2))
    kept.receive(secret_trace(3, SECRET + "-open", user=USER), judge=False)
    return kept


def of_traces(kept: ServedFolder) -> list[str]:
    """The canonical results that the journal gives, without those of sessions: what they are about has changed."""
    return [line for line in kept.replayed() if '"kind":"session"' not in line]


def pieces(kept: ServedFolder, *trace_ids: bytes) -> list[bytes]:
    """What traces are recognised by in files, whether as they came or packed."""
    reader = JournalReader(kept.folder / "results")
    records = [decode_result(record.payload) for record in reader.read(reader.first())]
    reader.close()
    hex_ids = {trace_id.hex() for trace_id in trace_ids}
    return [SECRET.encode(), *packed_rows(r for r in records if not hex_ids.isdisjoint({r.trace.trace_id}))]


def carry_out(kept: ServedFolder, choice: Choice, *trace_ids: bytes) -> Deletion:
    asked = Deletions(kept.folder).request(choice, frozenset(trace_ids))
    return run_deletion_offline(kept.config, asked)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> ServedFolder:
    return filled(tmp_path_factory.mktemp("full"))


@given(st.sampled_from(STEPS), st.integers(0, 3), st.booleans())
def test_a_kill_at_any_step_leaves_a_deletion_that_is_finished_later(
    full: ServedFolder, step: str, at: int, after: bool
) -> None:
    known = pieces(full, id_of(1), id_of(3))
    assert full.files_with(*known)
    others = [line for line in of_traces(full) if id_of(1).hex() not in line and id_of(3).hex() not in line]
    with tempfile.TemporaryDirectory() as folder:
        kept = ServedFolder(shutil.copytree(full.folder, Path(folder) / "kept"))
        deletions = Deletions(kept.folder)
        asked = deletions.request(Choice(user=USER))
        try:
            with killing(step, at, after=after):
                run_deletion_offline(kept.config, asked)
        except Killed:
            found = deletions.find(asked.id)
            assert found is not None
            run_deletion_offline(kept.config, found)
        done = deletions.find(asked.id)
        assert done is not None
        assert done.state == "done"
        assert kept.files_with(*known, USER.encode()) == []
        assert of_traces(kept) == others


def test_a_deletion_says_what_it_deleted(tmp_path: Path, store_url: str) -> None:
    kept = filled(tmp_path, store_url)
    done = carry_out(kept, Choice(user=USER))
    assert done.trace_count == 2
    assert (done.deleted.spans, done.deleted.log_records) == (6, 0)
    # Trace 1 with both its revisions, and its session with each of its own.
    assert done.deleted.traces == 1
    assert done.deleted.sessions == 1
    assert done.deleted.alerts == 1
    assert done.deleted.results >= 3
    assert done.deleted.evaluations > 0


def test_no_byte_is_left_in_runs_either_and_their_rates_are_of_what_is_left(tmp_path: Path, store_url: str) -> None:
    kept = filled(tmp_path, store_url)
    of_run = ResultFilter(run=kept.replay())
    engine = open_store(kept.config.store_url)
    with engine.connect() as connection:
        rows = connection.execute(select(traces_table.c.judged).where(traces_table.c.run == of_run.run)).scalars().all()
        assert len(trace_heads(connection, of_run, 10)) == 4
    # Trace 3 was open: of what was judged live the store has nothing, the run has.
    assert carry_out(kept, Choice(user=USER)).deleted.traces == 3
    gone = [row for row in rows if unpack_summary(row).trace_id in (id_of(1).hex(), id_of(3).hex())]
    assert kept.files_with(SECRET.encode(), *(piece for row in gone for piece in pieces_of(row))) == []
    with engine.connect() as connection:
        assert {head.trace_id for head in trace_heads(connection, of_run, 10)} == {id_of(2).hex(), id_of(4).hex()}
        left = results(connection, of_run, 100)
        counted = tallies(connection, of_run, RATED_BY, of="both", incomplete="count", summed=ALL_SUMS)
        assert sum(tally.results for (_, _, evaluation, _), tally in counted.items() if evaluation) == len(left) > 0
    engine.dispose()


def test_metrics_that_an_ended_serve_left_name_no_deleted_trace(tmp_path: Path) -> None:
    kept = filled(tmp_path)
    telemetry, folder = Telemetry("judge"), DataFolder(tmp_path)
    exemplars = [Exemplar(id_of(trace).hex(), "01", 1.0, 1) for trace in (1, 2)]
    for exemplar, rule in zip(exemplars, ("a", "b"), strict=True):
        labels = {"rule": rule, "rule_hash": "", "evaluation": "e", "agent": "", "service": "", "outcome": "pass"}
        telemetry.add("tracegrade.evaluations", 1, exemplar, **labels)
    folder.write_snapshot("judge", telemetry.snapshot())
    folder.write_published([telemetry.snapshot()])
    carry_out(kept, Choice(), id_of(1))
    snapshots = [str(tmp_path / f"{name}.snapshot.json") for name in ("judge", "published")]
    assert not set(kept.files_with(id_of(1).hex().encode())) & set(snapshots)
    assert set(kept.files_with(id_of(2).hex().encode())) >= set(snapshots)


def test_a_session_goes_with_all_its_traces_and_others_stay(tmp_path: Path, store_url: str) -> None:
    kept = filled(tmp_path, store_url)
    assert carry_out(kept, Choice(session=SESSION)).trace_count == 2
    engine = open_store(kept.config.store_url, read_only=True)
    with engine.connect() as connection:
        assert [head.trace_id for head in trace_heads(connection, ResultFilter(), 10)] == [id_of(2).hex()]
        assert len(connection.execute(select(traces_table.c.number)).all()) == 1  # and no session
        (alert,) = open_alerts(connection)
        assert alert.facts.worst == [id_of(2).hex()]
    engine.dispose()


def test_rates_are_of_what_is_left(tmp_path: Path, store_url: str) -> None:
    kept = filled(tmp_path, store_url)
    carry_out(kept, Choice(), id_of(1))
    engine = open_store(kept.config.store_url, read_only=True)
    with engine.connect() as connection:
        left = results(connection, ResultFilter(), 100)
        counted = tallies(connection, ResultFilter(), RATED_BY, of="both", incomplete="count", summed=ALL_SUMS)
        assert sum(tally.results for (_, _, evaluation, _), tally in counted.items() if evaluation) == len(left) > 0
    engine.dispose()


def test_many_that_wait_are_done_in_one_pass_and_each_says_what_was_its_own(tmp_path: Path, store_url: str) -> None:
    kept = filled(tmp_path, store_url)
    deletions = Deletions(kept.folder)
    asked = [deletions.request(Choice(), frozenset({id_of(trace)})) for trace in (1, 2, 1)]
    journal, results = LocalJournal.open(tmp_path / "journal"), LocalJournal.open(tmp_path / "results")
    engine = open_store(kept.config.store_url)
    url, ids = kept.config.store_url, RedactedIds(None, tmp_path)
    erased = erase_from_journal(
        asked, deletions, journal, tmp_path / "journal", store_url=url, ids=ids, remembered_s=3600
    )
    done = erase_from_results(erased, deletions, [results], engine)
    journal.close()
    results.close()
    engine.dispose()
    assert [item.deleted.spans for item in done] == [3, 3, 0]
    assert [item.deleted.traces for item in done] == [1, 1, 0]
    assert done == deletions.waiting("done")
    assert done[2].found_nothing


def test_before_a_time_takes_what_began_before_it(tmp_path: Path, store_url: str) -> None:
    kept = filled(tmp_path, store_url)
    third = JournalReader(kept.folder / "journal")
    received_ns = [record.received_ns for record in third.read(third.first())]
    third.close()
    done = carry_out(kept, Choice(before_ns=received_ns[2]))
    assert done.trace_count == 2  # 1 and 2, whose first spans came with the first request
    assert kept.replayed() != []
    assert not any(id_of(trace).hex() in line for trace in (1, 2) for line in kept.replayed())


def test_late_spans_of_a_deleted_trace_are_not_judged(tmp_path: Path) -> None:
    kept = filled(tmp_path)
    carry_out(kept, Choice(), id_of(1))
    before = kept.replayed()
    kept.receive([tool_span(1, 9, 1, "create_order", "{}")], judge=False)
    tombstones = Deletions(kept.folder).tombstones()
    assert id_of(1) in tombstones
    assert id_of(2) not in tombstones
    assert kept.replayed([id_of(1)]) == before
    assert kept.replayed() != before  # it would be, as a trace of its own


def test_late_spans_of_a_deleted_trace_are_erased_from_the_journal_too(tmp_path: Path) -> None:
    kept = filled(tmp_path)
    carry_out(kept, Choice(), id_of(1))
    kept.receive([tool_span(1, 9, 1, "create_order", f'{{"a": "{SECRET}-late"}}')], judge=False)
    assert kept.files_with(SECRET.encode() + b"-late")
    deletions = Deletions(kept.folder)
    closed = ClosedTraces(deleted=deletions.tombstones())
    late = LateSpansOfDeleted(deletions)
    closed.came_deleted = late.traces
    late.ask(100.0)
    assert deletions.waiting("requested") == []
    closed.find([("default", id_of(1)), ("default", id_of(2))])
    late.ask(100.0)
    closed.find([("default", id_of(1))])
    late.ask(100.0 + ASK_EVERY_S - 1)
    (asked,) = deletions.waiting("requested")
    done = run_deletion_offline(kept.config, asked)
    assert (done.state, done.deleted.spans, done.deleted.results) == ("done", 1, 0)
    assert kept.files_with(SECRET.encode() + b"-late") == []
    late.ask(100.0 + ASK_EVERY_S)
    assert len(deletions.waiting("requested")) == 1


def test_results_that_no_sink_has_taken_yet_are_not_delivered(tmp_path: Path) -> None:
    kept = filled(tmp_path)
    carry_out(kept, Choice(), id_of(1))
    reader = JournalReader(kept.folder / "results")
    left = [record for record in reader.read(reader.first()) if not is_erased(record.payload)]
    reader.close()
    assert left
    assert all(
        id_of(1) not in {bytes.fromhex(summary.trace_id), *(summary.members or ())}
        for summary in (decode_result(record.payload).trace for record in left)
    )


@pytest.mark.parametrize("id_", ["../x", "no-such", "a\0b"])
def test_a_deletion_that_does_not_exist_is_not_found(tmp_path: Path, id_: str) -> None:
    assert Deletions(tmp_path).find(id_) is None
