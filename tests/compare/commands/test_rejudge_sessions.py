"""Stored sessions judged again: by a backtest, and on both sides of a comparison."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from build import store_with
from build.commands import run, run_json
from build.journalled import Came, judged_live, with_
from build.otlp import Content, tool_span
from pipeline.test_sessions import CONTENTS, turn
from tracegrade.store.open import open_store

SINCE = ("--since", "2025-12-01", "--until", "2026-02-01")
OF_SESSION = """\
id: looked-up-first
scope: session
evaluate: [{evaluator: tool-call-order, tool_calls_order: [find_order, refund]}]
"""
OF_TRACE = """\
id: any-call
match: {tools: [refund]}
evaluate: [{evaluator: tool-call-count, tool_calls_count: {refund: ['<=', 1]}}]
"""
CALLS_ONCE = OF_SESSION.replace(
    "{evaluator: tool-call-order, tool_calls_order: [find_order, refund]}",
    "{evaluator: tool-call-count, tool_calls_count: {find_order: ['=', 1]}}",
)


def write(folder: Path, text: str, name: str = "one") -> Path:
    path = folder / f"{name}.rule.yaml"
    path.write_text(text)
    return path


def backtested(data_dir: Path, rules: Path, *options: str) -> dict[str, Any]:
    (found,) = run_json(data_dir, "rules", "backtest", str(rules), *SINCE, *options)
    return found


def changes(rule: dict[str, Any]) -> dict[str, int]:
    return {way: found["subjects"] for way, found in rule["changes"].items() if found["subjects"]}


CAME = [Came(number, [content]) for number, content in enumerate(CONTENTS)]
"""Three conversations and a trace of none; one trace is first of one, then of another; each span comes alone."""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_same_rule_says_of_stored_sessions_what_it_said_live(tmp_path: Path, jobs: str) -> None:
    rules = write(tmp_path, OF_SESSION)
    results = judged_live(tmp_path, CAME, rules)
    live = {found.trace.session: found for found in results if found.trace.members is not None}
    assert sorted(filter(None, live)) == ["chat-1", "chat-2", "chat-3"]
    found = backtested(tmp_path, rules, "--rule", "looked-up-first", "--jobs", jobs)
    assert found["sessions"] == {"judged": 3, "from_journal": 0, "not_kept": 0, "damaged": []}
    assert found["traces"] == 0  # no rule judges them
    (rule,) = found["rules"]
    assert rule["before"] == rule["after"]
    assert (rule["after"]["pass"], rule["after"]["fail"]) == (1, 2)
    assert changes(rule) == {}


def test_what_newly_fails_is_named_by_the_last_trace_of_the_session(tmp_path: Path) -> None:
    rules = write(tmp_path, OF_SESSION)
    judged_live(tmp_path, CAME, rules)
    write(tmp_path, CALLS_ONCE)
    (rule,) = backtested(tmp_path, rules)["rules"]
    assert changes(rule) == {}  # chat-2 looked up twice, and failed for another reason before
    write(tmp_path, OF_SESSION.replace("[find_order, refund]", "[refund, find_order]"))
    (rule,) = backtested(tmp_path, rules)["rules"]
    assert changes(rule) == {"newly_fails": 1, "newly_passes": 1}
    (example,) = rule["changes"]["newly_fails"]["examples"]
    assert (int(example["trace_id"], 16), example["subject"]) == (2, {"kind": "session", "id": "chat-1"})
    table = run(tmp_path, "rules", "backtest", str(rules), *SINCE).stdout
    assert "1 changed rule on 3 stored sessions from" in table


def test_a_first_rule_of_sessions_judges_those_that_no_rule_judged(tmp_path: Path) -> None:
    """They have no row in the store; the last span of trace 6 says that it is of chat-3."""
    judged_live(tmp_path, CAME, write(tmp_path, OF_TRACE, "other"))
    rules = write(tmp_path, OF_SESSION + "alert: [{below: 0.9, min_samples: 1}]\n")  # the only one: a preview is slow
    found = backtested(tmp_path, rules)
    assert found["sessions"]["judged"] == 3
    (rule,) = found["rules"]
    assert (rule["before"]["results"], rule["after"]["pass"], rule["after"]["fail"]) == (0, 1, 2)
    assert changes(rule) == {"newly_matched": 3}


def test_rules_of_traces_and_of_sessions_judge_beside_each_other(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    write(rules, OF_SESSION)
    write(rules, OF_TRACE, "other")
    judged_live(tmp_path, CAME, rules)
    write(rules, OF_TRACE.replace("'<=', 1", "'<=', 0"), "other")
    write(rules, CALLS_ONCE)
    found = backtested(tmp_path, rules)
    assert (found["traces"], found["sessions"]["judged"], len(found["rules"])) == (7, 3, 2)
    assert changes(found["rules"][0]) == {"newly_fails": 4}
    assert (
        "2 changed rules on 7 stored traces and 3 stored sessions from"
        in run(tmp_path, "rules", "backtest", str(rules), *SINCE).stdout
    )


def test_a_rule_that_judged_traces_and_judges_sessions_now_no_longer_matches_traces(tmp_path: Path) -> None:
    rules = write(tmp_path, OF_TRACE)
    judged_live(tmp_path, CAME, rules)
    write(tmp_path, OF_TRACE + "scope: session\n")
    (rule,) = backtested(tmp_path, rules)["rules"]
    assert changes(rule) == {"newly_matched": 3, "no_longer_matched": 4}


def test_sessions_of_a_time_are_those_whose_last_trace_came_then(tmp_path: Path) -> None:
    """Their earlier turns are judged with them, also where no rule of sessions was in force."""
    day = 24 * 3600
    came = [
        Came(0, turn(1, "before", "find_order", 1000)),
        Came(1, turn(2, "across", "find_order", 1000)),
        Came(2 * day, turn(3, "across", "refund", 3000)),
        Came(2 * day, turn(4, "goes-on", "find_order", 3000)),
        Came(4 * day, turn(5, "goes-on", "refund", 5000)),
    ]
    for name, live in (("judged", OF_SESSION), ("not-judged", OF_TRACE)):
        folder = tmp_path / name
        folder.mkdir()
        rules = write(folder, live)
        judged_live(folder, came, rules)
        write(folder, OF_SESSION.replace("threshold", "") + "title: changed\n")
        asked = ("--rule", "looked-up-first", "--since", "2026-01-02", "--until", "2026-01-04", "--format", "json")
        found = json.loads(run(folder, "rules", "backtest", str(rules), *asked).stdout)
        assert found["sessions"]["judged"] == 1
        assert (found["rules"][0]["after"]["pass"], found["rules"][0]["after"]["fail"]) == (1, 0)


def test_sessions_of_two_tenants_with_one_id_and_one_trace_id(tmp_path: Path) -> None:
    rules = write(tmp_path, OF_SESSION)
    came = [
        Came(0, turn(1, "chat", "find_order", 1000), "mine"),
        Came(0, turn(1, "chat", "refund", 1000), "yours"),
        Came(1, turn(2, "chat", "refund", 2000), "mine"),
        Came(1, turn(2, "chat", "find_order", 2000), "yours"),
    ]
    judged_live(tmp_path, came, write(tmp_path, OF_TRACE, "other"))
    for tenant, passed in (("mine", 1), ("yours", 0)):
        found = backtested(tmp_path, rules, "--tenant", tenant)
        assert (found["sessions"]["judged"], found["rules"][0]["after"]["pass"]) == (1, passed)
    assert backtested(tmp_path, rules)["sessions"]["judged"] == 2


def test_filters_choose_sessions(tmp_path: Path) -> None:
    rules = write(tmp_path, OF_SESSION)
    came = [Came(0, turn(1, "one", "refund", 1000)), Came(0, turn(2, "two", "refund", 1000), service="bank")]
    for name, live in (("judged", OF_SESSION), ("not-judged", OF_TRACE)):
        (tmp_path / name).mkdir()
        judged_live(tmp_path / name, came, write(tmp_path / name, live))
        for options in (("--service", "bank"), ("--agent", "support", "--service", "bank")):
            found = backtested(tmp_path / name, rules, "--rule", "looked-up-first", *options)
            assert found["sessions"]["judged"] == 1
        result = run(
            tmp_path / name, "rules", "backtest", str(rules), "--rule", "looked-up-first", "--agent", "nobody", *SINCE
        )
        assert (result.exit_code, result.stderr[:47]) == (3, "Error: no trace of a session of agent 'nobody' ")


def blue(contents: list[Content]) -> list[Content]:
    return [with_(contents[0], team="blue"), *contents[1:]]


def test_what_was_not_kept_of_a_session_is_read_from_the_journal(tmp_path: Path) -> None:
    rules = write(tmp_path, OF_SESSION)
    came = [Came(number, blue(turn(number, f"chat-{number % 2}", "refund", 1000 * number))) for number in range(1, 5)]
    judged_live(tmp_path, came, rules)
    changed = OF_SESSION.replace("scope: session", "scope: session\nmatch: {attributes: {team: blue}}")
    write(tmp_path, changed.replace("[find_order, refund]", "[refund]"))
    found = backtested(tmp_path, rules)
    assert found["sessions"] == {"judged": 2, "from_journal": 2, "not_kept": 0, "damaged": []}
    assert changes(found["rules"][0]) == {"newly_passes": 2}
    shutil.rmtree(tmp_path / "journal")
    result = run(tmp_path, "rules", "backtest", str(rules), *SINCE)
    assert (result.exit_code, result.stderr) == (
        3,
        "Error: the store did not keep what the rules read of any of the 2 sessions, and there is no journal in "
        f"{tmp_path}\n",
    )


def change(data_dir: Path, statement: str, **values: Any) -> None:
    engine = open_store(store_with(data_dir))
    with engine.begin() as connection:
        connection.execute(text(statement), values)
    engine.dispose()


def test_a_session_with_one_turn_that_cannot_be_judged_is_left_out_as_a_whole(tmp_path: Path) -> None:
    rules = write(tmp_path, OF_SESSION)
    came = [Came(number, turn(number, f"chat-{number % 3}", "refund", 1000 * number)) for number in range(1, 7)]
    judged_live(tmp_path, came, rules)
    write(tmp_path, CALLS_ONCE)
    damaged, gone = (1).to_bytes(16, "big"), (2).to_bytes(16, "big")
    change(tmp_path, "UPDATE traces SET spans = :wrong WHERE trace_id = :id", wrong=b"wrong", id=damaged)
    change(tmp_path, "DELETE FROM traces WHERE trace_id = :id", id=gone)  # as retention does, which counts other times
    found = backtested(tmp_path, rules)
    assert (found["sessions"]["judged"], found["sessions"]["from_journal"], found["sessions"]["not_kept"]) == (2, 1, 1)
    shutil.rmtree(tmp_path / "journal")
    found = backtested(tmp_path, rules)
    assert (found["sessions"]["judged"], found["sessions"]["not_kept"]) == (1, 2)
    (text_of_it,) = found["sessions"]["damaged"]
    assert text_of_it.startswith(f"trace {damaged.hex()}: kept spans of version")


def compared(data_dir: Path, rules: Path, a: str, b: str) -> dict[str, Any]:
    asked = ("--rejudge", "--rules", str(rules), "--no-behaviour", "--format", "json")
    found: dict[str, Any] = json.loads(run(data_dir, "compare", a, b, *asked).stdout)
    return found


def test_a_session_that_goes_on_from_one_side_to_the_other_is_of_the_last_as_where_it_was_judged_live(
    tmp_path: Path,
) -> None:
    """By time. All sessions are judged again as whole conversations, with their turns of the other side."""
    day = 24 * 3600
    came = [
        *(Came(at, turn(10 + at, f"only-{at}", "find_order", 1000)) for at in range(5)),
        *(Came(5 + at, turn(20 + at, f"across-{at}", "find_order", 1000)) for at in range(5)),
        *(Came(2 * day + at, turn(30 + at, f"across-{at}", "refund", 3000)) for at in range(5)),
    ]
    rules = write(tmp_path, OF_SESSION)
    judged_live(tmp_path, came, rules)
    sides = ("live@2026-01-01..2026-01-02", "live@2026-01-02..2026-01-05")
    plain = json.loads(run(tmp_path, "compare", *sides, "--no-behaviour", "--format", "json").stdout)["rules"][0]
    again = compared(tmp_path, rules, *sides)["rules"][0]
    for side, results, passed in (("a", 5, 0), ("b", 5, 5)):
        assert (plain[side]["results"], plain[side]["pass"]) == (results, passed)
        assert (again[side]["results"], again[side]["pass"]) == (results, passed)
    assert again["verdict"] == plain["verdict"]


def test_a_session_is_of_the_release_that_began_it(tmp_path: Path) -> None:
    """As where it was judged live; there is no session of which half counts."""
    rules = write(tmp_path, OF_SESSION)
    came = [
        Came(1, turn(1, "across", "find_order", 1000), release="1.0"),
        Came(2, turn(2, "across", "refund", 2000), release="2.0"),
        Came(3, turn(3, "second", "refund", 2000), release="2.0"),
    ]
    judged_live(tmp_path, came, rules)
    (plain,) = json.loads(
        run(tmp_path, "compare", "release:1.0", "release:2.0", "--no-behaviour", "--format", "json").stdout
    )["rules"]
    (again,) = compared(tmp_path, rules, "release:1.0", "release:2.0")["rules"]
    for found in (plain, again):
        assert (found["a"]["pass"], found["a"]["results"]) == (1, 1)
        assert (found["b"]["fail"], found["b"]["results"]) == (1, 1)


def test_traces_and_sessions_are_compared_beside_each_other(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    write(rules, OF_SESSION)
    write(rules, OF_TRACE, "other")
    judged_live(tmp_path, CAME, write(tmp_path, OF_TRACE, "live"))
    found = compared(tmp_path, rules, "live@2026-01-01..2026-01-01T00:00:06Z", "live@2026-01-01T00:00:06Z..")
    by_id = {rule["rule_id"]: rule for rule in found["rules"]}
    assert sorted(by_id) == ["any-call", "looked-up-first"]
    assert by_id["looked-up-first"]["a"]["results"] + by_id["looked-up-first"]["b"]["results"] == 3


def test_calls_of_sessions_beyond_the_bound_are_cut_as_live(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("traces: {max_calls_per_session: 1}\n")
    calls = [*turn(1, "chat", "find_order", 1000), tool_span(1, 3, 1, "refund", start=1050)]
    judged_live(tmp_path, [Came(0, calls)], write(tmp_path, OF_TRACE, "other"))
    rules = write(tmp_path, OF_SESSION)
    assert backtested(tmp_path, rules)["rules"][0]["after"]["pass"] == 1
    (rule,) = backtested(tmp_path, rules, "-c", str(config))["rules"]
    assert (rule["after"]["incomplete"], rule["after"]["results"]) == (1, 0)


def stored_sessions(data_dir: Path) -> list[tuple[str, str]]:
    listed = run_json(data_dir, "results", "list", "--run", "backfill")
    return sorted((item["subject"]["id"], item["outcome"]) for item in listed)


def test_what_is_said_of_sessions_is_stored_with_them(tmp_path: Path) -> None:
    """As that of traces: once, however often it is stored."""
    judged_live(tmp_path, CAME, write(tmp_path, OF_SESSION, "live"))
    rules = write(tmp_path, CALLS_ONCE.replace("looked-up-first", "brand-new"))
    for _ in range(2):
        stored = backtested(tmp_path, rules, "--store")["stored"]
        assert (stored["subjects"], stored["traces"], stored["changed"]) == (3, 3, 0)
        assert stored_sessions(tmp_path) == [("chat-1", "pass"), ("chat-2", "fail"), ("chat-3", "fail")]
    stats = run_json(tmp_path, "results", "stats")
    (rate,) = (item for item in stats if item["rule_id"] == "brand-new" and not item["evaluation"])
    assert (rate["passed"], rate["failed"], rate["backfilled"]) == (1, 2, 3)


def test_sessions_that_no_rule_judged_have_no_place_and_that_is_said(tmp_path: Path) -> None:
    judged_live(tmp_path, CAME, write(tmp_path, OF_TRACE, "other"))
    rules = write(tmp_path, OF_SESSION)
    shown = run(tmp_path, "rules", "backtest", str(rules), *SINCE, "--store")
    assert shown.exit_code == 0
    assert "3 sessions not stored: no rule judged them when they came\n" in shown.stdout
    assert stored_sessions(tmp_path) == []


def test_why_a_session_failed_before_is_told(tmp_path: Path) -> None:
    rules = write(tmp_path, OF_SESSION)
    judged_live(tmp_path, CAME, rules)
    write(tmp_path, OF_SESSION.replace("[find_order, refund]", "[refund, find_order]"))
    (rule,) = backtested(tmp_path, rules)["rules"]
    (example,) = rule["changes"]["newly_passes"]["examples"]
    assert "out of order" in example["explanation_before"]


@pytest.mark.parametrize("live", [OF_SESSION, OF_TRACE])
def test_a_trace_with_runs_of_two_sessions_is_a_turn_of_both(tmp_path: Path, live: str) -> None:
    other = turn(1, "second", "refund", 2000)
    other[0].span_id, other[1].span_id, other[1].parent_span_id = (n.to_bytes(8, "big") for n in (8, 9, 8))
    judged_live(tmp_path, [Came(0, [*turn(1, "first", "find_order", 1000), *other])], write(tmp_path, live))
    rules = write(tmp_path, CALLS_ONCE.replace("looked-up-first", "brand-new"))
    found = backtested(tmp_path, rules)
    assert found["sessions"]["judged"] == 2
    assert (found["rules"][0]["after"]["pass"], found["rules"][0]["after"]["fail"]) == (1, 1)


def test_a_session_that_lacked_a_turn_when_it_was_judged_lacks_it_now(tmp_path: Path) -> None:
    rules = write(tmp_path, OF_SESSION)
    came = [Came(at, turn(1 + at, "chat", tool, 1000 * (1 + at))) for at, tool in enumerate(("find_order", "refund"))]
    judged_live(tmp_path, came, rules)
    first, second = ((1 + at).to_bytes(16, "big") for at in range(2))
    change(tmp_path, "DELETE FROM traces WHERE trace_id = :id", id=second)
    members = json.dumps({first.hex(): 2, second.hex(): 0})
    change(tmp_path, "UPDATE traces SET members = :members WHERE members IS NOT NULL", members=members)
    found = backtested(tmp_path, rules, "--rule", "looked-up-first")
    assert (found["sessions"]["judged"], found["sessions"]["not_kept"]) == (1, 0)
    assert found["rules"][0]["after"]["incomplete"] == 1


def test_where_there_is_no_session_that_is_said_beside_what_was_judged(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    write(rules, OF_TRACE, "other")
    judged_live(tmp_path, [Came(0, turn(1, "", "refund", 100))], rules)
    write(rules, OF_TRACE.replace("'<=', 1", "'<=', 0"), "other")
    write(rules, OF_SESSION)
    assert (
        "on 1 stored trace and 0 stored sessions from" in run(tmp_path, "rules", "backtest", str(rules), *SINCE).stdout
    )
    result = run(tmp_path, "rules", "backtest", str(rules / "one.rule.yaml"), *SINCE)
    assert (result.exit_code, result.stderr[:36]) == (3, "Error: no trace of a session between")
