"""Runs beside what was judged live, seen by nobody who does not ask for them; and entries of experiments."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, func, select

from build.judged_traces import MINUTE_NS, START_NS, evaluation, judged, tool_call, trace_id
from build.stored_runs import begin, run_of
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.tally import NO_RESULTS
from tracegrade.model.trace_result import RunSummary
from tracegrade.store import schema
from tracegrade.store.delete import delete_everywhere, delete_old_runs, delete_older, traces_before
from tracegrade.store.heads import session_heads, session_sums, trace_heads
from tracegrade.store.history import SeriesHistory, Window
from tracegrade.store.index import spread
from tracegrade.store.open import one_at_a_time, reading
from tracegrade.store.read import closed_traces, newest_traces, stored_session, stored_traces
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results
from tracegrade.store.runs import (
    Entry,
    Experiment,
    add_entry,
    delete_experiment,
    delete_run,
    entry_count,
    rename_experiment,
    save_experiment,
    save_run,
    stored_entries,
    stored_experiment,
    stored_experiments,
    stored_run,
    stored_runs,
    take_back_run,
)
from tracegrade.store.senders import called_tools
from tracegrade.store.series import recent_series
from tracegrade.store.tallies import ALL_SUMS, RATED_BY, names_of, tallies
from tracegrade.store.write import StoreWriter

RUN = "tuning/1"
OF_RUN = ResultFilter(run=RUN)
YEAR_NS = 365 * 24 * 60 * MINUTE_NS


def of_run(number: int, outcome: str = "pass", **changes: Any) -> Any:
    """A trace of the run, which was recorded a year before it was judged again."""
    received = START_NS - YEAR_NS + number * MINUTE_NS
    return judged(
        number, outcome, run=changes.pop("run", RUN), first_received_ns=received, last_received_ns=received, **changes
    )


def table_sizes(connection: Connection) -> dict[str, int]:
    sizes = {}
    for name in ("traces", "series", "counts", "runs", "experiments"):
        query = select(func.count()).select_from(schema.metadata.tables[name])
        sizes[name] = connection.execute(query).scalar_one()
    return sizes


def test_results_of_a_run_are_found_by_its_name_at_any_time(engine: Engine) -> None:
    begin(engine, RUN)
    writer = StoreWriter(engine)
    writer.write([judged(1), of_run(1, "fail"), of_run(2)])
    writer.write([judged(2), of_run(3), judged(3)])
    with reading(engine) as connection:
        assert [(item.trace_id, item.outcome) for item in results(connection, OF_RUN, 9)] == [
            (trace_id(3), "pass"),
            (trace_id(2), "pass"),
            (trace_id(1), "fail"),
        ]
        assert [head.trace_id for head in trace_heads(connection, OF_RUN, 9)] == [trace_id(3), trace_id(2), trace_id(1)]
        second_ns = START_NS - YEAR_NS + 2 * MINUTE_NS
        since, until = ResultFilter(run=RUN, since_ns=second_ns), ResultFilter(run=RUN, until_ns=second_ns)
        assert [head.trace_id for head in trace_heads(connection, since, 9)] == [trace_id(3), trace_id(2)]
        assert [item.trace_id for item in results(connection, until, 9)] == [trace_id(1)]
        (stored,) = stored_traces(connection, bytes.fromhex(trace_id(1)), run=RUN)
        assert stored.evaluations[0].outcome == "fail"


def test_a_run_is_counted_as_a_whole_by_the_same_reads(engine: Engine) -> None:
    begin(engine, RUN)
    StoreWriter(engine).write([judged(1), of_run(1, "fail"), of_run(2), of_run(3, complete=False)])
    with reading(engine) as connection:
        for times in ({}, {"since_ns": START_NS}, {"until_ns": 1}):
            (rate,) = tallies(connection, ResultFilter(run=RUN, **times)).values()
            assert (rate.passed, rate.failed, rate.incomplete) == (1, 1, 1)
        sums = tallies(connection, OF_RUN, ["rule_id"], incomplete=["checkout-order"])
        assert {key: (found.passed, found.failed) for key, found in sums.items()} == {("checkout-order",): (2, 1)}
        assert traffic(connection, OF_RUN) == 3
        (of_evaluation,) = tallies(connection, OF_RUN, of="evaluations", incomplete="count").values()
        assert of_evaluation.failed == 1


def test_a_higher_revision_in_a_run_takes_back_what_was_counted(engine: Engine) -> None:
    begin(engine, RUN)
    writer = StoreWriter(engine)
    writer.write([of_run(1, "fail")])
    writer.write([of_run(1, "pass", revision=3), of_run(1, "fail")])
    with reading(engine) as connection:
        (rate,) = tallies(connection, OF_RUN).values()
        assert (rate.passed, rate.failed, traffic(connection, OF_RUN)) == (1, 0, 1)


def traffic(connection: Connection, result_filter: ResultFilter) -> int:
    return tallies(connection, result_filter, of="traces", incomplete="count").get((), NO_RESULTS).passed


def live_reads(connection: Connection) -> Sequence[object]:
    """What everybody sees who does not name a run: lists, rates, charts, alerts, metrics, assembly, checks of rules."""
    everything = ResultFilter()
    all_series = list(connection.execute(select(schema.series.c.number)).scalars())
    live_alone = ResultFilter(since_ns=0, until_ns=2**62)
    history = SeriesHistory(connection, ["0123456789abcdef"])
    window = Window("", 0, START_NS + YEAR_NS, count_incomplete=True)
    return [
        [(item.trace_id, item.outcome) for item in results(connection, everything, 99)],
        [head.trace_id for head in trace_heads(connection, everything, 99)],
        [head.trace_id for head in trace_heads(connection, live_alone, 99)],
        [head.session for head in session_heads(connection, everything, 99)],
        [found.trace_count for found in session_sums(connection, everything, 99, before=2**62)],
        tallies(connection, everything, RATED_BY, of="both", incomplete="count", summed=ALL_SUMS),
        tallies(connection, live_alone, RATED_BY, of="both", summed=ALL_SUMS),
        tallies(connection, everything, ["agent"]),
        traffic(connection, everything),
        tallies(connection, everything, ["rule_id"], of="evaluations", incomplete="count"),
        [names_of(connection, of) for of in ("service", "agent", "release")],
        history.totals(window),
        history.bins(window),
        recent_series(connection, 0, 99),
        sorted(called_tools(connection, 1)),
        [found.trace.run for found in newest_traces(connection, 99)],
        list(closed_traces(connection, [("default", bytes.fromhex(trace_id(7)))])),
        stored_traces(connection, bytes.fromhex(trace_id(7))),
        stored_session(connection, "default", "of-the-run"),
        sorted(row.number for rows in spread(connection, live_alone, all_series, (0, 1)) for row in rows),
        list(connection.execute(select(schema.arrivals))),
    ]


def test_who_does_not_ask_for_a_run_does_not_see_it(engine: Engine) -> None:
    writer = StoreWriter(engine)
    writer.write([judged(1), judged(2, "fail", session="chat")])
    begin(engine, RUN)
    with reading(engine) as connection:
        before = live_reads(connection)
    other: dict[str, Any] = {"service": "of the run", "release": "9", "run": RUN}
    items = [evaluation(7, "fail", agent="of the run", **other)]
    in_session = {"session": "of-the-run", "evaluations": items, **other}
    writer.write(
        [
            of_run(1, "fail"),
            judged(7, members={bytes.fromhex(trace_id(7)): 2}, **in_session),
            judged(7, tool_calls=[tool_call(name="of_the_run")], **in_session),
        ]
    )
    with reading(engine) as connection:
        assert live_reads(connection) == before


def test_a_run_that_is_not_begun_or_over_takes_nothing(engine: Engine) -> None:
    writer = StoreWriter(engine)
    with pytest.raises(TraceGradeError, match=r"run 'tuning/1' of tenant 'default' takes no more results"):
        writer.write([judged(1), of_run(1)])
    begin(engine, RUN, state="complete")
    with pytest.raises(TraceGradeError):
        writer.write([judged(1), of_run(1)])
    with reading(engine) as connection:
        assert table_sizes(connection)["traces"] == 0, "all of the batch or nothing"


def test_what_is_known_of_runs_comes_back_in_the_order_of_their_beginning(engine: Engine) -> None:
    first = run_of("tuning/1", labels={"model": "m"}, releases=["1.0"], prompt_hash="ab", prompt_count=2)
    second = run_of("before", begun_ns=START_NS - 1, gate="fail", state="failed", problem="it was ended")
    other = run_of("other/1", experiment="other")
    with engine.begin() as connection:
        for run in (first, second, other, run_of("tuning/1", tenant="somebody")):
            save_run(connection, run)
        save_run(connection, other)
        save_experiment(connection, Experiment("default", "tuning", START_NS, None, 0))
        save_experiment(connection, Experiment("default", "tuning", START_NS, "before", 1))
    with reading(engine) as connection:
        assert stored_runs(connection, "default", "tuning") == [second, first]
        assert stored_runs(connection, "default") == [second, other, first]
        assert stored_run(connection, "default", "tuning/1") == first
        assert stored_run(connection, "nobody", "tuning/1") is None
        (found,) = stored_experiments(connection, "default")
        assert found == Experiment("default", "tuning", START_NS, "before", 1, id=found.id)
        assert stored_experiment(connection, "somebody", "tuning") is None


def test_retention_empties_a_run_by_its_own_age_and_keeps_its_numbers(engine: Engine) -> None:
    begin(engine, RUN, written_ns=START_NS)
    begin(engine, "tuning/2", written_ns=START_NS + 9)
    StoreWriter(engine).write([of_run(1), of_run(2, "fail"), of_run(1, run="tuning/2"), judged(1)])
    assert delete_older(engine, START_NS) == 0, "its traces are a year old, the run is not"
    assert delete_older(engine, START_NS + 9, max_traces=1) == 1
    assert delete_older(engine, START_NS + 9, max_traces=1) == 1
    assert delete_older(engine, START_NS + 9, max_traces=1) == 0
    with reading(engine) as connection:
        assert trace_heads(connection, OF_RUN, 9) == []
        assert len(trace_heads(connection, ResultFilter(run="tuning/2"), 9)) == 1
        assert len(trace_heads(connection, ResultFilter(), 9)) == 1
        (rate,) = tallies(connection, OF_RUN).values()
        assert (rate.passed, rate.failed, traffic(connection, OF_RUN)) == (1, 1, 2)
        assert [run.emptied for run in stored_runs(connection, "default")] == [True, False]
    StoreWriter(engine).write([of_run(3)])
    assert delete_older(engine, START_NS + 9) == 1, "what came later goes, too"


def test_retention_of_what_came_in_leaves_runs_alone(engine: Engine) -> None:
    begin(engine, RUN, written_ns=START_NS + YEAR_NS)
    StoreWriter(engine).write([judged(1), of_run(1), judged(2)])
    assert delete_older(engine, START_NS + 3 * MINUTE_NS) == 2
    assert delete_older(engine, START_NS + 3 * MINUTE_NS) == 0
    with reading(engine) as connection:
        assert len(results(connection, OF_RUN, 9)) == 1


def test_old_runs_alone_can_be_emptied(engine: Engine) -> None:
    begin(engine, RUN, written_ns=START_NS)
    begin(engine, "tuning/2", written_ns=START_NS + YEAR_NS)
    StoreWriter(engine).write([of_run(1), of_run(1, run="tuning/2"), judged(1)])
    assert [delete_old_runs(engine, START_NS + YEAR_NS) for _ in range(2)] == [1, 0]
    with reading(engine) as connection:
        assert [len(trace_heads(connection, ResultFilter(run=run), 9)) for run in (RUN, "tuning/2", "live")] == [
            0,
            1,
            1,
        ]
        assert [run.emptied for run in stored_runs(connection, "default")] == [True, False]


def test_a_deleted_trace_goes_in_runs_with_its_counts(engine: Engine) -> None:
    begin(engine, RUN)
    members = {bytes.fromhex(trace_id(1)): 2}
    in_session = [evaluation(1, "fail", run=RUN, session="chat", rule_id="of-sessions")]
    StoreWriter(engine).write(
        [
            of_run(1, "fail", session="chat", runs=[RunSummary("00", "support")]),
            of_run(2),
            of_run(1, session="chat", members=members, evaluations=in_session),
        ]
    )
    deleted = delete_everywhere(engine, [bytes.fromhex(trace_id(1))])
    assert (deleted.traces, deleted.sessions, deleted.evaluations) == (1, 1, 2)
    with reading(engine) as connection:
        assert [head.trace_id for head in trace_heads(connection, OF_RUN, 9)] == [trace_id(2)]
        assert {
            key[0]: (tally.passed, tally.failed) for key, tally in tallies(connection, OF_RUN, ["rule_id"]).items()
        } == {
            "checkout-order": (1, 0),
            "of-sessions": (0, 0),
        }
        assert traffic(connection, OF_RUN) == 1


def test_traces_from_before_a_time_are_found_in_runs_too(engine: Engine) -> None:
    begin(engine, RUN)
    StoreWriter(engine).write([judged(1), of_run(2)])
    with reading(engine) as connection:
        assert traces_before(connection, START_NS) == {bytes.fromhex(trace_id(2))}
        assert traces_before(connection, START_NS + 2 * MINUTE_NS) == {bytes.fromhex(trace_id(n)) for n in (1, 2)}


def test_a_deleted_run_leaves_nothing_and_its_experiment_has_no_baseline(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1)])
    with reading(engine) as connection:
        before = table_sizes(connection)
    begin(engine, RUN)
    with engine.begin() as connection:
        save_experiment(connection, Experiment("default", "tuning", START_NS, RUN, 1))
    StoreWriter(engine).write([of_run(number) for number in range(3)])
    assert delete_run(engine, "default", RUN) == 3
    with reading(engine) as connection:
        assert table_sizes(connection) == {**before, "experiments": 1}
        found = stored_experiment(connection, "default", "tuning")
        assert found is not None
        assert (found.baseline, found.last_number) == (None, 1)
        assert len(results(connection, ResultFilter(), 9)) == 1


def test_deleting_a_run_goes_on_where_it_broke_off(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(engine, RUN)
    StoreWriter(engine).write([of_run(number) for number in range(3)])
    monkeypatch.setattr("tracegrade.store.runs._TOGETHER", 1)
    with monkeypatch.context() as broken:
        broken.setattr("tracegrade.store.runs.traces_of_run", _once_then_fails())
        with pytest.raises(OSError, match="the disk is gone"):
            delete_run(engine, "default", RUN)
    with reading(engine) as connection:
        (left,) = stored_runs(connection, "default")
        assert (left.state, len(trace_heads(connection, OF_RUN, 9))) == ("deleting", 2)
    with pytest.raises(TraceGradeError):
        StoreWriter(engine).write([of_run(9)])
    assert delete_run(engine, "default", RUN) == 2
    with reading(engine) as connection:
        assert stored_runs(connection, "default") == []


def _once_then_fails() -> Any:
    from tracegrade.store.index import traces_of_run

    calls = iter(range(9))

    def found(*arguments: Any) -> list[int]:
        if next(calls):
            raise OSError("the disk is gone")
        return traces_of_run(*arguments)

    return found


def test_a_deleted_experiment_takes_its_runs_along(engine: Engine) -> None:
    begin(engine, RUN, "another-name")
    begin(engine, "other/1", experiment="other")
    StoreWriter(engine).write([of_run(1), of_run(1, run="another-name"), of_run(1, run="other/1")])
    assert delete_experiment(engine, "default", "tuning") == 2
    with reading(engine) as connection:
        assert [run.name for run in stored_runs(connection, "default")] == ["other/1"]
        assert [found.name for found in stored_experiments(connection, "default")] == ["other"]


def test_a_series_of_a_deleted_run_is_stored_anew(engine: Engine) -> None:
    """Who wrote it has its number in memory, and stores nothing under that."""
    begin(engine, RUN)
    writer = StoreWriter(engine)
    writer.write([of_run(1)])
    delete_run(engine, "default", RUN)
    with pytest.raises(TraceGradeError):
        writer.write([of_run(2)])
    begin(engine, RUN)
    writer.write([of_run(2)])
    with reading(engine) as connection:
        assert [item.trace_id for item in results(connection, OF_RUN, 9)] == [trace_id(2)]


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
