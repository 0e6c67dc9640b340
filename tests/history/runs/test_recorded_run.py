"""A run that is being written: begun, broken off, gone on with, refused, and what of it is stored."""

import subprocess
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from build import each
from build.judged_traces import START_NS, judged, trace_id
from build.otlp import agent_span, payload, tool_span
from build.stored_runs import run_of
from pipeline.test_sessions import turn
from tracegrade.assemble.settings import TracesSettings
from tracegrade.codec.results import decode_result, encode_result
from tracegrade.history.runs.git_revision import git_revision
from tracegrade.history.runs.recorded_run import RecordedRun, record_of
from tracegrade.model.errors import TraceGradeError, WrongValue
from tracegrade.model.signal import Signal
from tracegrade.model.trace_result import RunSummary
from tracegrade.otlp.files.source_request import SourceRequest
from tracegrade.pipeline.replay import replay_sources
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.delete import delete_old_runs
from tracegrade.store.errors import StoreError
from tracegrade.store.heads import trace_heads
from tracegrade.store.open import reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.runs import Run, delete_run, seen_writing, stored_experiments, stored_run, stored_runs
from tracegrade.store.write import StoreWriter
from waiting import eventually

ASKED = run_of("", experiment="tuning")


def begun(engine: Engine, name: str | None = None, asked: Run = ASKED, **changes: Any) -> RecordedRun:
    return RecordedRun(engine, asked, name, now_ns=lambda: START_NS + 5, **changes)


def record(number: int, run: str = "tuning/1", **changes: Any) -> bytes:
    return encode_result(judged(number, run=run, **changes))


def ids(engine: Engine, run: str = "tuning/1") -> list[str]:
    with reading(engine) as connection:
        return sorted(head.trace_id for head in trace_heads(connection, ResultFilter(run=run), 99))


def stored(engine: Engine, name: str = "tuning/1", tenant: str = "default") -> Run:
    with reading(engine) as connection:
        found = stored_run(connection, tenant, name)
    assert found is not None
    return found


def test_a_run_has_the_next_number_of_its_experiment_and_none_twice(engine: Engine) -> None:
    names = [begun(engine).name for _ in range(2)]
    begun(engine, "tuning/3")
    names.append(begun(engine).name)
    delete_run(engine, "default", "tuning/4")
    names += [begun(engine).name, begun(engine, asked=replace(ASKED, experiment="other")).name]
    assert names == ["tuning/1", "tuning/2", "tuning/4", "tuning/5", "other/1"]


def test_others_know_whether_a_process_writes_a_run(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def seen_ns() -> int | None:
        with reading(engine) as connection:
            return seen_writing(connection, "default", "tuning/1")

    monkeypatch.setattr("tracegrade.history.runs.recorded_run._BEAT_S", 0.01)
    ticks = count(START_NS)
    with RecordedRun(engine, ASKED, None, now_ns=lambda: next(ticks)):
        first_ns = seen_ns()
        assert first_ns is not None
        eventually(lambda: (seen_ns() or 0) > first_ns)
    assert seen_ns() is None
    assert stored(engine).state == "incomplete"


def test_what_is_added_is_stored_and_the_run_is_complete_at_its_end(engine: Engine) -> None:
    with begun(engine, asked=replace(ASKED, labels={"model": "m-1"})) as run:
        run.add(record(1, runs=[RunSummary("00", "a", prompt_hash="aa"), RunSummary("01", "a", prompt_hash="bb")]))
        run.add(record(2, release="2.0", runs=[RunSummary("00", "a", prompt_hash="aa")]))
        assert stored(engine).state == "incomplete"
        run.complete()
        run.note_gate("pass")
    found = stored(engine)
    assert (found.state, found.gate, found.labels, found.written_ns) == (
        "complete",
        "pass",
        {"model": "m-1"},
        START_NS + 5,
    )
    assert (found.releases, found.prompt_count) == (["1.0", "2.0"], 2)
    assert ids(engine) == [trace_id(1), trace_id(2)]


def test_runs_with_the_same_prompts_have_the_same_prompt_hash(engine: Engine) -> None:
    hashes = []
    for prompts in (["aa", "bb"], ["bb", "aa", "bb"], ["aa"], []):
        with begun(engine) as run:
            for number, prompt in enumerate(prompts):
                run.add(record(number, run.name, runs=[RunSummary("00", "a", prompt_hash=prompt)]))
            run.complete()
        hashes.append(stored(engine, run.name).prompt_hash)
    assert hashes[0] == hashes[1] == blake2b(b"aa\nbb", digest_size=8).hexdigest() != hashes[2]
    assert hashes[3] is None


def test_a_killed_run_is_incomplete_and_the_same_replay_goes_on_with_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracegrade.history.runs.recorded_run._BATCH_RECORDS", 2)
    killed = begun(engine)
    for number in range(3):
        killed.add(record(number))
    assert (stored(engine).state, ids(engine)) == ("incomplete", [trace_id(0), trace_id(1)])
    again = begun(engine, "tuning/1", replace(ASKED, begun_ns=START_NS + 9, labels={"try": "2"}))
    for number in range(3):
        again.add(record(number))
    again.complete()
    found = stored(engine)
    assert (found.state, found.begun_ns, found.labels) == ("complete", START_NS, {"try": "2"})
    assert ids(engine) == [trace_id(number) for number in range(3)]
    with reading(engine) as connection:
        assert connection.execute(text("SELECT sum(passed) FROM counts WHERE minutes = 0")).scalar_one() == 9


def test_a_higher_revision_replaces_a_lower_one(engine: Engine) -> None:
    with begun(engine) as run:
        run.add(record(1))
        run.add(record(1, revision=3, service="after"))
        run.complete()
    with reading(engine) as connection:
        (head,) = trace_heads(connection, ResultFilter(run="tuning/1"), 9)
    assert (head.revision, head.service) == (3, "after")


@each(
    ("changes", "said"),
    [
        ({"judgement_hash": "other", "source": "file"}, "since these are others: rules, source"),
        ({"settings_hash": "other"}, "since these are others: settings"),
        ({"tracegrade": "9"}, "since these are others: version of TraceGrade"),
        ({"selection": {"since_ns": 1}}, "since these are others: selection of traces"),
        ({"experiment": "another"}, "since these are others: experiment"),
    ],
)
def test_another_replay_does_not_go_on_with_an_incomplete_run(
    engine: Engine, changes: dict[str, Any], said: str
) -> None:
    begun(engine)
    with pytest.raises(WrongValue, match=f"'tuning/1' is incomplete, .*{said}; choose another name, or delete it"):
        begun(engine, "tuning/1", replace(ASKED, **changes))


def test_a_run_that_retention_emptied_is_not_gone_on_with(engine: Engine) -> None:
    """What was counted of it stays, and would be counted again."""
    run = begun(engine)
    run.add(record(1))
    run._write()
    while delete_old_runs(engine, START_NS + 6):
        pass
    with pytest.raises(WrongValue, match="'tuning/1' is incomplete, and retention has deleted its traces; choose"):
        begun(engine, "tuning/1")


def test_a_complete_run_is_never_written_again(engine: Engine) -> None:
    with begun(engine) as run:
        run.complete()
    with pytest.raises(WrongValue, match="'tuning/1' is complete, and a run is written once; choose another name"):
        begun(engine, "tuning/1")


@each("name", ["", "a  b", "-x", "release:1", "live@now", "x" * 101, "live", "replay", "a\n"])
def test_names_that_mean_something_else_are_refused(engine: Engine, name: str) -> None:
    with pytest.raises(WrongValue, match=r"^--run: "):
        begun(engine, name)
    with pytest.raises(WrongValue, match=r"^--experiment: "):
        begun(engine, asked=replace(ASKED, experiment=name))
    with reading(engine) as connection:
        assert (stored_runs(connection, "default"), stored_experiments(connection, "default")) == ([], [])


@pytest.mark.parametrize("name", ["Größe_1", "e/2026-11-23/a+b.c", "x" * 100])
def test_names_that_people_choose_are_taken(engine: Engine, name: str) -> None:
    assert begun(engine, name).name == name


def test_what_changed_of_a_suite_run_is_named(engine: Engine) -> None:
    asked = {"suite": "s", "suite_hash": "1", "temperature": 0.0, "system_prompt": ""}
    begun(engine, "tuning/1", replace(ASKED, selection=asked))
    changed = {"suite": "s", "suite_hash": "2", "temperature": 1.0, "system_prompt": "", "repeat": 2}
    with pytest.raises(WrongValue, match="since these are others: suite, temperature, repeat; "):
        begun(engine, "tuning/1", replace(ASKED, selection=changed))


@each("name", ["a/../b", "a/.", "a//b", "a/"])
def test_a_name_that_no_address_can_have_is_refused(engine: Engine, name: str) -> None:
    with pytest.raises(WrongValue, match=r"^--run: expected no part between its '/' that is empty, '\.' or '\.\.'"):
        begun(engine, name)
    with pytest.raises(WrongValue, match=r"^--experiment: expected no part"):
        begun(engine, asked=replace(ASKED, experiment=name))


def test_an_experiment_may_have_single_spaces_however_it_is_made(engine: Engine) -> None:
    assert begun(engine, asked=replace(ASKED, experiment="kill/two words")).name == "kill/two words/1"


def test_no_run_is_called_as_an_experiment_nor_the_other_way_round(engine: Engine) -> None:
    begun(engine, "first")
    with pytest.raises(WrongValue, match="'tuning' is the name of an experiment"):
        begun(engine, "tuning", replace(ASKED, experiment="other"))
    with pytest.raises(WrongValue, match="'own' is the name of an experiment"):
        begun(engine, "own", replace(ASKED, experiment="own"))
    with pytest.raises(WrongValue, match="'first' is the name of a run"):
        begun(engine, asked=replace(ASKED, experiment="first"))


def ended_by(error: BaseException, recording: RecordedRun) -> str:
    """Add a trace to a run, then end it by `error`; the run's name."""
    with suppress(type(error)), recording as run:
        run.add(record(1, run.name))
        raise error
    return recording.name


def test_what_ended_a_run_is_noted(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.history.runs.recorded_run._BATCH_RECORDS", 1)

    ended = ended_by(TraceGradeError("a worker was ended by SIGKILL"), begun(engine))
    assert (stored(engine, ended).state, stored(engine, ended).problem) == ("failed", "a worker was ended by SIGKILL")
    assert stored(engine, ended_by(KeyboardInterrupt(), begun(engine))).state == "incomplete"
    begun(engine, "tuning/1").complete()
    assert (stored(engine).state, stored(engine).problem) == ("complete", "")


def test_a_run_that_fails_before_it_stored_anything_is_forgotten(engine: Engine) -> None:
    ended_by(TraceGradeError("no such file"), begun(engine))
    with reading(engine) as connection:
        assert (stored_runs(connection, "default"), stored_experiments(connection, "default")) == ([], [])
    begun(engine, "kept")
    ended_by(TraceGradeError("no such file"), begun(engine, "kept"))
    assert stored(engine, "kept").state == "failed", "it was begun before"


def test_a_deleted_trace_is_not_stored_even_when_it_is_deleted_meanwhile(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracegrade.history.runs.recorded_run._BATCH_RECORDS", 1)
    deleted: set[bytes] = set()
    with begun(engine, deleted=lambda: deleted) as run:
        run.add(record(1))
        deleted.add(bytes.fromhex(trace_id(2)))
        run.add(record(2))
        run.add(record(3, session="chat", evaluations=[], members={bytes.fromhex(trace_id(2)): 2}))
        run.add(record(4))
        run.complete()
    assert (ids(engine), run.left_out) == ([trace_id(1), trace_id(4)], 2)


def test_deleted_traces_are_asked_for_when_no_deletion_can_come_between(sqlite: Engine) -> None:
    """Asked for before, a trace that is deleted then would be stored after it."""
    asked = []

    def deleted() -> set[bytes]:
        with pytest.raises(Exception, match="locked"), _impatient(sqlite).begin():
            pass
        asked.append(True)
        return set()

    with begun(sqlite, deleted=deleted) as run:
        run.add(record(1))
        run.complete()
    assert asked == [True]


def _impatient(engine: Engine) -> Engine:
    from sqlalchemy import create_engine, event

    other = create_engine(engine.url, connect_args={"isolation_level": None, "timeout": 0})
    event.listen(other, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return other


def test_a_run_that_is_deleted_while_it_is_written_takes_no_more(engine: Engine) -> None:
    run = begun(engine)
    delete_run(engine, "default", "tuning/1")
    begun(engine, "tuning/1", replace(ASKED, begun_ns=START_NS + 1))
    run.add(record(1))
    with pytest.raises(TraceGradeError, match="deleted or completed meanwhile"):
        run.complete()
    assert (ids(engine), stored(engine).state) == ([], "incomplete"), "the other one of that name is as it was"


def test_each_tenant_has_the_run_for_itself(engine: Engine) -> None:
    with begun(engine) as run:
        run.add(record(1))
        run.add(record(1, tenant="other"))
        run.complete()
    assert [stored(engine, tenant=tenant).state for tenant in ("default", "other")] == ["complete", "complete"]
    with reading(engine) as connection:
        for tenant in ("default", "other"):
            assert len(trace_heads(connection, ResultFilter(run="tuning/1", tenant=tenant), 9)) == 1


def test_a_store_that_refuses_is_said_to_and_how_to_go_on(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoreWriter, "_write", _full)

    def written() -> None:
        with begun(engine) as run:
            run.add(record(1))
            run.complete()

    with pytest.raises(
        StoreError, match=r"the same command with --run tuning/1 goes on with it: .*database or disk is full"
    ):
        written()
    assert stored(engine).state == "incomplete"  # not "failed": another process may be going on with it by now


def _full(*_: object) -> None:
    from sqlalchemy.exc import OperationalError

    raise OperationalError("INSERT", None, OSError("database or disk is full"))


def test_results_of_files_are_ordered_by_the_times_of_their_spans() -> None:
    rules = [{"id": "of-runs", "scope": "agent"}, {"id": "of-sessions", "scope": "session"}]
    order = [{"evaluator": "tool-call-order", "tool_calls_order": ["find_order"]}]
    rule_set = RuleSet([Rule.model_validate({**rule, "evaluate": order}) for rule in rules])
    spans = [agent_span(1, 1), tool_span(1, 2, 1, "find_order", start=7, end=900), *turn(2, "chat", "find_order", 50)]
    request = SourceRequest(Signal.TRACES, payload(spans), "file:1")
    found = {}
    for item in replay_sources([request], TracesSettings(), rule_set, "tuning/1"):
        head = decode_result(record_of(item, "tuning/1", "settings")).trace
        found[head.own_id.hex(), head.members is not None] = head
        if head.members is None:
            assert (head.first_received_ns, head.last_received_ns, head.closed_ns) == (
                head.start_ns,
                head.end_ns,
                head.end_ns,
            )
        else:
            assert head.first_received_ns == 50, "that of the trace which began last"
        assert head.closed_ns == head.end_ns
    assert sorted(is_session for _, is_session in found) == [False, False, True]


def test_the_git_revision_is_that_of_the_folder(tmp_path: Path) -> None:
    assert git_revision(tmp_path) is None
    assert git_revision(tmp_path / "nowhere") is None

    def git(*arguments: str) -> str:
        named = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *named, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    assert git_revision(tmp_path) is None, "nothing was committed yet"
    (tmp_path / "prompt.txt").write_text("a")
    git("add", ".")
    git("commit", "-qm", "a")
    git("tag", "v1")
    revision = git("rev-parse", "HEAD")
    assert git_revision(tmp_path) == revision
    (tmp_path / "prompt.txt").write_text("b")
    assert git_revision(tmp_path) == f"{revision}-dirty"
