"""What a changed rule reads and the store did not keep comes from the journal, for a backtest and for a comparison."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from build import store_with
from build.commands import run, run_json
from build.journalled import START_S, Came, judged_live, with_
from build.otlp import Content, agent_span, chat_span, choice_log, payload, spans_of, tool_span
from build.replayed import write_source
from tracegrade.assemble.settings import TracesSettings
from tracegrade.compare.backtest.backtest import Asked, backtest
from tracegrade.compare.backtest.sources import Rules
from tracegrade.config import load_config
from tracegrade.deletion.request import Deletions
from tracegrade.deletion.tombstones import Tombstones
from tracegrade.pipeline.set_aside import SetAside, SetAsideRecord
from tracegrade.rule.load import load_rules
from tracegrade.store.open import open_store, reading_store
from tracegrade.store.write import StoreWriter

SINCE = ("--since", "2025-12-01", "--until", "2026-02-01")
LIVE = """\
id: order-checked
match: {tools: [create_order]}
evaluate: [{evaluator: tool-call-count, tool_calls_count: {create_order: ['<=', 1]}}]
"""
BLUE = LIVE.replace("match: {", "match: {attributes: {team: blue}, ").replace("'<=', 1", "'<=', 0")
"""Reads an attribute that the rule which judged live does not read, so that the store did not keep it."""


def order(trace: int, team: str = "blue") -> list[Content]:
    return [with_(agent_span(trace, 1), team=team), tool_span(trace, 2, 1, "create_order")]


@pytest.fixture
def live(tmp_path: Path) -> Path:
    path = tmp_path / "live.rule.yaml"
    path.write_text(LIVE)
    return path


@pytest.fixture
def blue(tmp_path: Path) -> Path:
    path = tmp_path / "blue.rule.yaml"
    path.write_text(BLUE)
    return path


def backtested(data_dir: Path, rules: Path, *options: str) -> dict[str, Any]:
    (found,) = run_json(data_dir, "rules", "backtest", str(rules), *SINCE, *options)
    return found


def counts(found: dict[str, Any]) -> tuple[int, int, int]:
    return found["traces"], found["from_journal"], found["not_kept"]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_the_store_did_not_keep_is_read_from_the_journal(
    tmp_path: Path, live: Path, blue: Path, jobs: str
) -> None:
    came = [Came(trace, order(trace, "blue" if trace % 2 else "red")) for trace in range(1, 9)]
    judged_live(tmp_path, came, live)
    found = backtested(tmp_path, blue, "--jobs", jobs)
    assert counts(found) == (8, 8, 0)
    (rule,) = found["rules"]
    assert (rule["before"]["pass"], rule["after"]["fail"], rule["after"]["results"]) == (8, 4, 4)
    assert rule["changes"]["no_longer_matched"]["subjects"] == 4
    newest = [int(item["trace_id"], 16) for item in rule["changes"]["newly_fails"]["examples"]]
    assert newest == [7, 5, 3]
    table = run(tmp_path, "rules", "backtest", str(blue), *SINCE).stdout
    assert "8 traces read from the journal: the store did not keep what the rules read\n" in table


def test_a_trace_of_several_records_is_read_up_to_the_last_one_that_was_judged(
    tmp_path: Path, live: Path, blue: Path
) -> None:
    """Two revisions; a duplicate; log records; and a span that came too late, which was not judged."""
    agent, call = order(1)
    logged = choice_log(1, 3, "c1", "create_order", "{}")
    came = [
        Came(0, [agent]),
        Came(1, [call, *order(2)]),
        Came(20, [chat_span(1, 3, 1), logged, call]),
        Came(2000, [tool_span(1, 4, 1, "create_order")]),
    ]
    results = judged_live(tmp_path, came, live)
    assert [(int(found.trace.trace_id, 16), found.trace.revision) for found in results] == [(1, 2), (2, 2), (1, 4)]
    found = backtested(tmp_path, blue)
    assert counts(found) == (2, 2, 0)
    (example, other) = found["rules"][0]["changes"]["newly_fails"]["examples"]
    assert (example["trace_id"][-1], other["trace_id"][-1]) == ("1", "2")


def test_one_trace_id_of_two_tenants_is_two_traces(tmp_path: Path, live: Path, blue: Path) -> None:
    """Their spans come in turns, and only one of them is blue."""
    mine, yours = order(1), order(1, "red")
    came = [
        Came(0, mine[:1], "mine"),
        Came(0, yours[:1], "yours"),
        Came(1, yours[1:], "yours"),
        Came(1, [*mine[1:], tool_span(1, 3, 1, "create_order")], "mine"),
    ]
    judged_live(tmp_path, came, live)
    found = backtested(tmp_path, blue)
    assert counts(found) == (2, 2, 0)
    (rule,) = found["rules"]
    assert (rule["after"]["fail"], rule["changes"]["no_longer_matched"]["subjects"]) == (1, 1)
    assert "2 listed" not in rule["changes"]["no_longer_matched"]["examples"][0]["explanation"]
    only = backtested(tmp_path, blue, "--tenant", "yours")
    assert counts(only) == (1, 1, 0)
    assert only["rules"][0]["after"]["results"] == 0


def damage(data_dir: Path, *numbers: int) -> None:
    """Damage the stored spans of these traces."""
    engine = open_store(store_with(data_dir))
    with engine.begin() as connection:
        for number in numbers:
            wrong = {"wrong": b"\x03 not compressed", "id": number.to_bytes(16, "big")}
            connection.execute(text("UPDATE traces SET spans = :wrong WHERE trace_id = :id"), wrong)
    engine.dispose()


def test_without_a_journal_it_is_counted_and_said(tmp_path: Path, live: Path, blue: Path) -> None:
    judged_live(tmp_path, [Came(trace, order(trace)) for trace in range(1, 4)], live)
    shutil.rmtree(tmp_path / "journal")
    result = run(tmp_path, "rules", "backtest", str(blue), *SINCE)
    assert (result.exit_code, result.stderr) == (
        3,
        "Error: the store did not keep what the rules read of any of the 3 traces, and there is no journal in "
        f"{tmp_path}\n",
    )


def test_what_the_journal_no_longer_holds_is_left_out(tmp_path: Path, live: Path, blue: Path) -> None:
    """The first file is gone, with all of trace 1 and the beginning of trace 2."""
    agent, call = order(2)
    large = with_(agent_span(9, 1), **{f"noise{n}": "x" * 300_000 for n in range(4)})
    came = [Came(0, order(1)), Came(0.1, [agent]), Came(0.2, [large]), Came(0.3, [call]), Came(9, order(3))]
    judged_live(tmp_path, came, live, segment_size_mib=1)
    first, *others = sorted((tmp_path / "journal" / "segments").iterdir())
    assert others
    first.unlink()
    found = backtested(tmp_path, blue)
    assert counts(found) == (2, 2, 2)
    table = run(tmp_path, "rules", "backtest", str(blue), *SINCE).stdout
    assert (
        "2 traces left out: the store did not keep what the rules read, and the journal no longer holds them\n" in table
    )


def test_one_damaged_trace_is_named_and_the_others_are_judged(tmp_path: Path, live: Path) -> None:
    judged_live(tmp_path, [Came(trace, order(trace)) for trace in range(1, 6)], live)
    damage(tmp_path, 2, 4)
    live.write_text(LIVE.replace("'<=', 1", "'<=', 0"))
    assert counts(backtested(tmp_path, live)) == (5, 2, 0)  # the journal has them still
    shutil.rmtree(tmp_path / "journal")
    found = backtested(tmp_path, live)
    assert counts(found) == (3, 0, 2)
    assert found["rules"][0]["after"]["fail"] == 3
    assert [line.partition(": ")[0] for line in sorted(found["damaged"])] == [f"trace {n:032x}" for n in (2, 4)]
    table = run(tmp_path, "rules", "backtest", str(live), *SINCE).stdout
    assert f"cannot be read in the store, left out: trace {2:032x}: kept spans cannot be read" in table


def test_a_damaged_summary_of_an_incomplete_trace_ends_nothing(tmp_path: Path, live: Path, blue: Path) -> None:
    incomplete = tool_span(1, 2, 1, "create_order")
    judged_live(tmp_path, [Came(0, [incomplete]), Came(0, order(2))], live)
    engine = open_store(store_with(tmp_path))
    with engine.begin() as connection:
        connection.execute(text("UPDATE traces SET judged = x'00'"))
    engine.dispose()
    live.write_text(LIVE.replace("'<=', 1", "'<=', 0"))
    found = backtested(tmp_path, live)
    assert (counts(found), found["rules"][0]["after"]["incomplete"]) == ((2, 0, 0), 1)
    assert run(tmp_path, "rules", "backtest", str(blue), *SINCE).exit_code == 3


def test_filters_hold_for_traces_of_the_journal(tmp_path: Path, live: Path, blue: Path) -> None:
    came = [Came(1, order(1)), Came(2, order(2), service="bank")]
    judged_live(tmp_path, came, live)
    damage(tmp_path, 1)
    assert counts(backtested(tmp_path, blue, "--service", "bank")) == (1, 1, 0)
    assert counts(backtested(tmp_path, blue, "--agent", "order-agent")) == (2, 2, 0)
    result = run(tmp_path, "rules", "backtest", str(blue), *SINCE, "--agent", "nobody")
    assert (result.exit_code, result.stderr[:34]) == (3, "Error: no trace of agent 'nobody' ")


def test_spans_are_held_as_bytes_beyond_a_bound(tmp_path: Path, live: Path, blue: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("traces: {max_unpacked_spans: 0}\n")
    traces = range(1, 6)
    came = [Came(0, [order(trace)[0]]) for trace in traces] + [Came(1, [order(trace)[1]]) for trace in traces]
    judged_live(tmp_path, came, live)
    found = backtested(tmp_path, blue, "-c", str(config))
    assert (counts(found), found["rules"][0]["after"]["fail"]) == ((5, 5, 0), 5)


def test_sides_of_a_comparison_are_read_from_the_journal(tmp_path: Path, live: Path, blue: Path) -> None:
    came = [Came(3600 * day, order(day)) for day in range(1, 9)]
    judged_live(tmp_path, came, live)
    damage(tmp_path, 7)
    sides = ("live@2026-01-01..2026-01-01T04:30:00Z", "live@2026-01-01T04:30:00Z..2026-01-02")
    asked = ("compare", *sides, "--rejudge", "--rules", str(blue), "--no-behaviour", "--format", "json")
    found = json.loads(run(tmp_path, *asked).stdout)
    (rule,) = found["rules"]
    assert (rule["a"]["fail"], rule["b"]["fail"]) == (4, 4)
    read = "4 traces read from the journal: the store did not keep what the rules read"
    assert found["notes"] == [f"A: {read}", f"B: {read}"]
    shutil.rmtree(tmp_path / "journal")
    result = run(tmp_path, *asked)
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: {sides[0]}: the store did not keep what the rules read of any of its 4 traces, and there is no "
        f"journal in {tmp_path}\n",
    )


@pytest.mark.parametrize("bound", ["max_spans_per_trace: 3", "max_live_traces: 1", "max_live_spans: 2"])
def test_traces_that_a_bound_cut_are_judged_as_they_were_cut(tmp_path: Path, blue: Path, bound: str) -> None:
    """What came after a cut is dropped, or makes a further revision. The judge that kept everything says the same."""
    config = tmp_path / "config.yaml"
    config.write_text(f"traces: {{{bound}}}\n")
    came = [
        Came(0, [*order(1), tool_span(1, 3, 1, "create_order"), tool_span(1, 4, 1, "create_order")]),
        Came(0.1, order(2)[:1]),
        Came(0.2, [*order(3), tool_span(1, 5, 1, "create_order"), order(2)[1]]),
        Came(5, [tool_span(2, 6, 1, "create_order"), *order(4)]),
    ]
    outcomes = []
    for name, rule in (("kept", BLUE), ("not-kept", LIVE)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "live.rule.yaml").write_text(rule)
        results = judged_live(folder, came, folder / "live.rule.yaml", load_config(config).traces)
        assert any(found.trace.cut_by or found.trace.supersedes for found in results)
        found = backtested(folder, blue, "-c", str(config), "--rule", "order-checked")
        assert (found["traces"], found["from_journal"]) == (4, 4 if rule == LIVE else 0)
        outcomes.append((found["rules"][0]["after"], found["rules"][0]["changes"]["no_longer_matched"]))
    assert outcomes[0] == outcomes[1]


def test_set_aside_and_deleted_traces_are_not_read_from_the_journal(tmp_path: Path, live: Path, blue: Path) -> None:
    *_, last = judged_live(tmp_path, [Came(trace, order(trace)) for trace in range(1, 4)], live)
    Tombstones(Deletions(tmp_path).tombstones_path).add({(2).to_bytes(16, "big")}, 1, forget_before_ns=0)
    found = backtested(tmp_path, blue)
    assert counts(found) == (2, 2, 1)
    end = last.trace.last_position
    record = SetAsideRecord(last.trace.first_position, end, 1, "default", "traces", 2, "it ended two judges", 1)
    SetAside(tmp_path).path.write_text(json.dumps({"pairs": [], "records": [asdict(record)]}))
    assert counts(backtested(tmp_path, blue)) == (1, 1, 2)


def test_while_others_write_a_backtest_sees_the_store_of_one_moment(tmp_path: Path, live: Path, blue: Path) -> None:
    """New traces, a revision of one it has not read yet, a deletion; the writer waits for nothing."""
    came = [Came(trace, order(trace)) for trace in range(1, 201)]
    results = judged_live(tmp_path, came, live)
    engine = open_store(store_with(tmp_path))
    written: list[float] = []

    @contextmanager
    def writing(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
        def advance(steps: int) -> None:
            if label != "traces judged" or len(written) == 5:
                return
            began = time.monotonic()
            number = len(written) + 1
            head, new_id = results[number - 1], (10_000 + number).to_bytes(16, "big").hex()
            more = replace(head.trace, revision=9, supersedes=2)  # read last
            fresh = replace(head.trace, trace_id=new_id)
            StoreWriter(engine).write([replace(head, trace=more), replace(head, trace=fresh)])
            with engine.begin() as connection:
                connection.execute(text("DELETE FROM traces WHERE trace_id = :id"), {"id": (number + 50).to_bytes(16)})
            written.append(time.monotonic() - began)

        yield advance

    with reading_store(f"sqlite:///{tmp_path / 'tracegrade.db'}") as connection:
        rules = Rules("blue", [str(blue)], load_rules([blue]))
        asked = Asked(
            rules=rules,
            other=None,
            since_ns=START_S * 10**9,
            until_ns=(START_S + 3600) * 10**9,
            settings=TracesSettings(),
            data_path=tmp_path,
        )
        found = backtest(connection, asked, writing)
    assert len(written) == 5
    assert max(written) < 4  # a writer that had to wait would have waited for `busy_timeout`, 5 s
    assert (found.traces, found.not_judged.from_journal, found.not_judged.left_out) == (200, 200, 0)
    (change,) = found.changes
    assert (change.whole.before.subjects, change.whole.after.subjects) == (200, 200)
    engine.dispose()


def test_a_run_is_read_from_the_journal_if_it_was_judged_from_it(tmp_path: Path, live: Path, blue: Path) -> None:
    judged_live(tmp_path, [Came(trace, order(trace)) for trace in range(1, 5)], live)
    file = write_source(tmp_path, payload(spans_of(order(9))))
    for name, sources in (("again", []), ("files", [file])):
        replayed = run(tmp_path, "replay", *sources, "--rules", str(live), "--experiment", name)
        assert replayed.exit_code == 0, replayed.stderr
    asked = ("--rejudge", "--rules", str(blue), "--no-behaviour", "--format", "json")
    found = json.loads(run(tmp_path, "compare", "live", "again/1", *asked).stdout)
    assert (found["rules"][0]["a"]["fail"], found["rules"][0]["b"]["fail"]) == (4, 4)
    assert found["notes"][1].startswith("B: 4 traces read from the journal")
    result = run(tmp_path, "compare", "live", "files/1", *asked)
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: files/1: the store did not keep what the rules read of any of its 1 trace, and run files/1 was not "
        "judged from a journal\n",
    )
