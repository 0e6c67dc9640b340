import getpass
import json
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from build import each, store_with
from build.commands import run, run_json
from build.judged_traces import MINUTE_NS, START_NS, judged
from build.stored_alerts import ALERT, incident, store_incident
from tracegrade.rule.load import load_rules
from tracegrade.store.incidents import Incident, Notification, open_incidents, stored_incident
from tracegrade.store.open import open_store

NOTIFIED = {"pager": Notification("firing", 1), "mail": Notification(tries=3, error="answered 503")}
FIRING = incident(ALERT, notified=NOTIFIED)
EARLIER = incident(
    replace(ALERT, starts_ns=ALERT.starts_ns - 10**12, ends_ns=ALERT.starts_ns - 10**11, state="resolved")
)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    engine = open_store(store_with(tmp_path))
    with engine.begin() as connection:
        for each in (EARLIER, FIRING):
            store_incident(connection, *each.members, notified=each.notified)
    engine.dispose()
    return tmp_path


def listed(each: Incident, silenced_until_ns: int | None = None) -> dict[str, Any]:
    return {**each.to_json(), "silenced_until_ns": silenced_until_ns}


def test_list_shows_the_latest_first(data_dir: Path) -> None:
    assert run_json(data_dir, "alerts", "list") == [listed(FIRING), listed(EARLIER)]


def test_firing_shows_only_what_fires_now(data_dir: Path) -> None:
    assert run_json(data_dir, "alerts", "list", "--firing") == [listed(FIRING)]


def test_only_incidents_of_what_is_asked_for_are_listed(data_dir: Path) -> None:
    other = incident(replace(ALERT, rule_id="refunds", agent="desk", fingerprint="cd" * 16, starts_ns=1))
    engine = open_store(store_with(data_dir))
    with engine.begin() as connection:
        store_incident(connection, *other.members)
    engine.dispose()
    for option in (("--rule", "refunds"), ("--agent", "desk")):
        assert run_json(data_dir, "alerts", "list", *option) == [listed(other)]
    assert run_json(data_dir, "alerts", "list", "--rule", "refunds", "--agent", "support") == []
    assert len(run_json(data_dir, "alerts", "list", "--service", "shop", "--release", "1.1")) == 3


def test_since_leaves_out_what_was_resolved_before(data_dir: Path) -> None:
    assert run_json(data_dir, "alerts", "list", "--since", "2026-01-01") == [listed(FIRING)]


def test_the_table_reads_without_colour_and_says_who_was_told(data_dir: Path) -> None:
    output = run(data_dir, "alerts", "list").stdout
    assert "! firing" in output
    assert "✓ resolved" in output
    assert "50%" in output
    assert "pager" in output
    assert "answered 503" in output


def test_the_table_tells_tenants_apart_where_there_are_several(data_dir: Path) -> None:
    assert "tenant" not in run(data_dir, "alerts", "list").stdout
    engine = open_store(store_with(data_dir))
    with engine.begin() as connection:
        store_incident(connection, replace(ALERT, tenant="shop"))
    engine.dispose()
    output = run(data_dir, "alerts", "list").stdout
    assert output.split()[:2] == ["id", "tenant"]
    assert {"shop", "default"} <= set(output.split())


def test_no_alerts_is_said(data_dir: Path) -> None:
    assert run(data_dir, "alerts", "list", "--since", "2026-01-01", "--limit", "1").exit_code == 0
    engine = open_store(store_with(data_dir))
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM incidents")
    engine.dispose()
    assert run(data_dir, "alerts", "list").stdout == "No incidents.\n"


RULE = """
id: checkout-order
status: experimental
evaluate: [{evaluator: tool-call-order, tool_calls_order: [a, b]}]
alert: [{below: 0.9, over: 30m, min_samples: 20}]
"""


def remember(
    data_dir: Path,
    *outcomes: str,
    every_minutes: int = 1,
    minutes: Sequence[float] = (),
    late: bool = False,
    written: str = RULE,
    file: str = "rule.yaml",
) -> str:
    """Store these results of a rule, from the start of 2026 on, or at these minutes; its hash.

    `late`: all of them are received a day later.
    """
    (data_dir / file).write_text(written)
    (rule,) = load_rules([data_dir / file]).rules
    traces = []
    for number, outcome in enumerate(outcomes):
        start_ns = START_NS + int((minutes[number] if minutes else number * every_minutes) * MINUTE_NS)
        received_ns = START_NS + 1440 * MINUTE_NS if late else start_ns
        times = {"first_received_ns": received_ns, "last_received_ns": received_ns, "start_ns": start_ns}
        traces.append(judged(number if written == RULE else 1000 + number, outcome, **times))
    for trace in traces:
        for decision in trace.decisions:
            decision.pair.rule_id, decision.pair.rule_hash = rule.id, rule.hash
    store_with(data_dir, *traces)
    return rule.hash


def preview_of(data_dir: Path, until: str, *more: str) -> tuple[str, ...]:
    return ("alerts", "preview", str(data_dir / "rule.yaml"), "--since", "2026-01-01", "--until", until, *more)


def test_preview_says_when_an_alert_would_have_fired_and_tells_nobody(tmp_path: Path) -> None:
    """Of 24 hours one result a minute fails from 9:00 to 10:30, looked at each 30 minutes."""
    remember(tmp_path, *("fail" if 540 <= minute < 630 else "pass" for minute in range(1440)))
    arguments = preview_of(tmp_path, "2026-01-02", "--every", "30m")
    (found,) = run_json(tmp_path, *arguments)
    assert (found["state"], found["rule_id"]) == ("resolved", "checkout-order")
    hours = [(found[name] - START_NS) / (60 * MINUTE_NS) for name in ("starts_ns", "ends_ns")]
    assert 9 < hours[0] <= 10, "soon after it began"
    assert 10.5 < hours[1] < 20, "once hours have passed"
    assert all(hour * 2 == int(hour * 2) for hour in hours), "at one of the checks"
    assert found["facts"]["since_ns"] == START_NS + 540 * MINUTE_NS
    assert "checkout-order at shop" in run(tmp_path, *arguments).stdout
    assert run_json(tmp_path, "alerts", "list") == []


def test_preview_counts_what_came_before_its_first_check(tmp_path: Path) -> None:
    """All of ten hours fail: looked at from 8:00 on, the first check finds it, and knows when it began."""
    remember(tmp_path, *["fail"] * 120, every_minutes=5)
    arguments = ("alerts", "preview", str(tmp_path / "rule.yaml"), "--since", "2026-01-01T08:00Z")
    (found,) = run_json(tmp_path, *arguments, "--until", "2026-01-01T10:00Z")
    assert found["starts_ns"] == START_NS + (8 * 60 + 15) * MINUTE_NS
    assert found["facts"]["since_ns"] == START_NS
    assert found["samples"] == 6, "what is shown is of the last 30 minutes"


def test_preview_says_that_its_checks_are_too_far_apart_for_a_silence(tmp_path: Path) -> None:
    remember(tmp_path, "pass")
    rule = RULE.partition("alert:")[0] + "alert: [{coverage: {silent: 6m}}]\n"
    (tmp_path / "rule.yaml").write_text(rule)
    said = run(tmp_path, *preview_of(tmp_path, "2026-01-01T01:00Z")).stderr
    assert "checks are 15m apart here, so that a silence of 6m may be missed, or seen late; --every 2m finds it" in said
    assert "apart" not in run(tmp_path, *preview_of(tmp_path, "2026-01-01T01:00Z", "--every", "2m")).stderr


def test_preview_with_an_edited_text_and_another_threshold_reads_the_same_history(tmp_path: Path) -> None:
    """Each seventh fails, 86 % pass: below 0.9 for sure only with more; below 0.99 within hours."""
    rule_hash = remember(tmp_path, *("pass" if number % 7 else "fail" for number in range(120)), every_minutes=3)
    arguments = preview_of(tmp_path, "2026-01-01T06:00Z", "--every", "30m")
    assert run_json(tmp_path, *arguments) == []
    moved = RULE.replace("below: 0.9", "below: 0.99").replace("status: experimental", "title: Said otherwise")
    (tmp_path / "rule.yaml").write_text(moved)
    (fired,) = run_json(tmp_path, *arguments)
    assert (fired["bound"], fired["rule_hash"], fired["title"]) == (0.99, rule_hash, "Said otherwise")
    assert "Note" not in run(tmp_path, *arguments).stderr
    (tmp_path / "rule.yaml").write_text(moved.replace("[a, b]", "[b, a]"))
    judging_otherwise = run(tmp_path, *arguments)
    assert "No alert would have fired" in judging_otherwise.stdout
    assert "Note: no results of checkout-order as it judges now" in judging_otherwise.stderr


def test_preview_counts_imported_traces_by_their_start_where_it_is_asked_to(tmp_path: Path) -> None:
    """A day whose every result from 9:00 to 10:30 failed, imported within a minute."""
    remember(tmp_path, *("fail" if 540 <= minute < 630 else "pass" for minute in range(1440)), late=True)
    arguments = preview_of(tmp_path, "2026-01-02T01:00Z", "--every", "30m")
    assert run_json(tmp_path, *arguments) == []
    (found,) = run_json(tmp_path, *arguments, "--by-start-time")
    assert found["facts"]["since_ns"] == START_NS + 540 * MINUTE_NS


def test_what_does_not_fire_says_how_long_it_would_take(tmp_path: Path) -> None:
    """Everything fails, 20 results in five minutes; as many an hour fire as soon as is said, and not long before."""
    (tmp_path / "now").mkdir()
    remember(tmp_path / "now", *["fail"] * 20, minutes=[number / 4 for number in range(20)])
    told = run(tmp_path / "now", *preview_of(tmp_path / "now", "2026-01-01T00:05Z", "--every", "5m")).stdout
    how = "At the rate of the last hour with results (20 results) and the pass rate of the last 30m (0%)"
    words = " ".join(told.split())
    assert how in words
    said = re.search(r"it would fire after about (\d+) minutes more, counting hours with results only", words)
    assert said is not None, words
    minutes = int(said[1])
    for until, fires in ((minutes // 2, False), (minutes + 20, True)):
        (tmp_path / str(until)).mkdir()
        # The same burst, then a result each three minutes.
        later = [5 + 3 * number for number in range(until // 3)]
        remember(tmp_path / str(until), *["fail"] * (20 + len(later)), minutes=[*(n / 4 for n in range(20)), *later])
        end = f"2026-01-01T{(5 + until) // 60:02}:{(5 + until) % 60:02}Z"
        found = run_json(tmp_path / str(until), *preview_of(tmp_path / str(until), end, "--every", "5m"))
        assert bool(found) is fires, until


def test_of_several_rules_each_is_told_by_its_own_results(tmp_path: Path) -> None:
    remember(tmp_path, *["pass"] * 30)
    other = RULE.replace("checkout-order", "order-of-others").replace("[a, b]", "[c]")
    remember(tmp_path, *["pass", "pass", "fail"] * 3, written=other, file="other.yaml")
    told = run(tmp_path, *preview_of(tmp_path, "2026-01-01T01:00Z", str(tmp_path / "other.yaml"))).stdout
    words = " ".join(told.split())
    assert "last hour with results (30 results) and the pass rate of the last 30m (100%)" in words
    assert "last hour with results (9 results) and the pass rate of the last 30m (66.7%)" in words


def test_a_rule_is_explained_with_how_long_its_alert_would_take(tmp_path: Path) -> None:
    start = (time.time_ns() - START_NS) // MINUTE_NS - 30
    start += 6 if start % 60 > 54 else 0  # all of one hour, by which results are counted
    remember(tmp_path, *["fail"] * 20, minutes=[start + number / 4 for number in range(20)])
    (tmp_path / "rule.yaml").write_text(RULE.replace("status: experimental", "status: stable"))
    said = " ".join(run(tmp_path, "rules", "explain", str(tmp_path / "rule.yaml")).stdout.split())
    found = re.search(r"At (\d+) results a day of one agent", said)
    assert found, said
    assert 240 < int(found[1]) <= 480  # 20 since the beginning of an hour that ended less than one ago
    assert (
        "At the rate of the last hour with results (20 results) and the pass rate of the last 30m (0%) it would" in said
    )


def test_what_is_good_would_not_fire(tmp_path: Path) -> None:
    remember(tmp_path, *["pass"] * 60)
    told = run(tmp_path, *preview_of(tmp_path, "2026-01-01T01:00Z")).stdout
    assert "it would not fire within 7 days of results" in " ".join(told.split())


def test_preview_of_rules_without_alerts_says_so(tmp_path: Path) -> None:
    (tmp_path / "rule.yaml").write_text(RULE.partition("alert:")[0])
    result = run(tmp_path, "alerts", "preview", str(tmp_path / "rule.yaml"))
    assert result.exit_code == 2
    assert "none of these rules has an 'alert'" in result.stderr


def test_silences_are_made_listed_and_ended(data_dir: Path) -> None:
    assert run(data_dir, "alerts", "silence", "--list").stdout == "No silences.\n"
    (made,) = run_json(
        data_dir, "alerts", "silence", "rule=checkout-*", "service=shop", "--for", "30m", "--comment", "x"
    )
    assert (made["labels"], made["comment"]) == ({"rule": "checkout-*", "service": "shop"}, "x")
    assert made["ends_ns"] - made["starts_ns"] == 1800 * 10**9
    assert run_json(data_dir, "alerts", "silence", "--list") == [made]
    assert run_json(data_dir, "alerts", "silence", "--end", made["id"][:4]) == []


def test_a_silence_takes_no_operators_of_alertmanager(data_dir: Path) -> None:
    for label in ('service=~"help.*"', "service!=shop", "service!~shop.*"):
        refused = run(data_dir, "alerts", "silence", label)
        assert refused.exit_code == 2
        assert "a silence knows no =~, != or !~; write LABEL=GLOB" in " ".join(refused.stderr.split()), label
    assert run_json(data_dir, "alerts", "silence", "--list") == []


def test_a_silence_says_what_it_is_of(data_dir: Path) -> None:
    store_with(data_dir, judged(1, "pass"))
    for label, said in (
        ("service=shop", "Matches 1 alert of those that fire now."),
        ("service=nosuch", "it matches nothing: no stored result has the service 'nosuch'; expected one of shop."),
        ("release=1.?", "Matches 1 alert of those that fire now."),
        ("kind=drop", "No alert that fires now matches; alerts that begin until then are silenced."),
    ):
        assert said in " ".join(run(data_dir, "alerts", "silence", label).stderr.split()), label


@each(
    ("arguments", "said"),
    [
        (["team=x"], "no label 'team'; expected one of rule, level, service"),
        (["shop"], "expected LABEL=GLOB such as service=shop, found 'shop'"),
        (["service=shop", "--for", "soon"], "soon"),
        (["--end", "nothing"], "no silence 'nothing' is in force"),
        ([], "expected labels or --incident ID, or --end ID, or --list"),
    ],
)
def test_a_silence_that_cannot_be_is_refused(data_dir: Path, arguments: list[str], said: str) -> None:
    result = run(data_dir, "alerts", "silence", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_silenced_incident_is_listed_as_firing_and_silenced(data_dir: Path) -> None:
    run(data_dir, "alerts", "silence", "service=shop", "--for", "2h")
    first, earlier = run_json(data_dir, "alerts", "list")
    assert (first["state"], first["silenced_until_ns"] is None) == ("firing", False)
    assert "! firing, silenced until" in run(data_dir, "alerts", "list").stdout
    assert earlier["id"] == EARLIER.id


def test_show_says_all_of_one_incident(data_dir: Path) -> None:
    output = run(data_dir, "alerts", "show", FIRING.id).stdout
    assert output.startswith("FIRING (high): checkout-order at shop, agent support, release 1.1: pass rate 50%")
    assert "Changed near that time or since: release 1.1" in output
    assert run_json(data_dir, "alerts", "show", FIRING.id[:5]) == [{**FIRING.to_json(), "silenced_until_ns": None}]
    unknown = run(data_dir, "alerts", "show", "0000000000")
    assert (unknown.exit_code, "no incident '0000000000'" in unknown.stderr) == (2, True)


def test_a_bound_cannot_be_accepted_and_a_fall_can(data_dir: Path) -> None:
    refused = run(data_dir, "alerts", "accept", FIRING.id)
    assert refused.exit_code == 2
    assert "its bound stands in the rule checkout-order" in " ".join(refused.stderr.split())
    engine = open_store(store_with(data_dir))
    facts = replace(ALERT.facts, was=0.9, was_samples=500)
    other = replace(ALERT, fingerprint="ef" * 16)
    with engine.begin() as connection:
        fell = store_incident(connection, replace(ALERT, fingerprint="cd" * 16, kind="drop", facts=facts), other)
    accepted = run(data_dir, "alerts", "accept", fell.id)
    assert accepted.stdout.splitlines() == [
        "Accepted: 1 of 2 alerts end with the next check.",
        "Still firing: checkout-order, below 0.95: change its bound in the rule.",
    ]
    with engine.begin() as connection:
        found = stored_incident(connection, fell.id)
        assert found is not None
        assert found.accepted_ns is not None
        assert [each.accepted_ns for each in open_incidents(connection) if each.id != fell.id] == [None]
    engine.dispose()
    assert "there is nothing to accept" in run(data_dir, "alerts", "accept", EARLIER.id).stderr


def test_what_people_do_is_noted_with_their_name_and_logged_without_their_words(data_dir: Path) -> None:
    id_ = FIRING.id
    assert run(data_dir, "alerts", "acknowledge", id_[:6]).stdout == f"Acknowledged: {id_}\n"
    assert run(data_dir, "alerts", "own", id_).exit_code == 0
    assert run(data_dir, "alerts", "comment", id_, "a lock is held").stdout == f"Commented: {id_}\n"
    assert run(data_dir, "alerts", "silence", "--incident", id_, "--comment", "we know").exit_code == 0
    (shown,) = run_json(data_dir, "alerts", "show", id_)
    me = f"command line: {getpass.getuser()}"
    assert [(note["author"], note["kind"]) for note in shown["notes"]] == [
        (me, "acknowledged"),
        (me, "owned"),
        (me, "commented"),
        (me, "silenced"),
    ]
    assert (shown["owner"], shown["acknowledged"]["author"]) == (me, me)
    assert f"{me}: commented: a lock is held" in run(data_dir, "alerts", "show", id_).stdout
    (log,) = (data_dir / "access").glob("*.jsonl")
    noted = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(entry["name"], entry["right"], entry["operation"], entry["named"]) for entry in noted] == [
        (me, "review", "tracegrade alerts acknowledge", {"incident": id_}),
        (me, "review", "tracegrade alerts own", {"incident": id_}),
        (me, "review", "tracegrade alerts comment", {"incident": id_}),
        (me, "admin", "tracegrade alerts silence", {"incident": id_}),
    ]
    assert "a lock is held" not in log.read_text()
    assert "we know" not in log.read_text()


def test_a_dry_run_says_what_a_silence_would_match_and_makes_none(data_dir: Path) -> None:
    said = run(data_dir, "alerts", "silence", "--incident", FIRING.id, "--dry-run")
    assert "Matches 1 firing of this incident, 0 others." in said.stderr
    assert said.stdout == "No silences.\n"


def test_another_tenants_incident_is_as_none(data_dir: Path) -> None:
    for operation in (["acknowledge"], ["own"], ["comment"], ["accept"]):
        words = ["mine"] if operation == ["comment"] else []
        refused = run(data_dir, "alerts", *operation, FIRING.id, *words, "--tenant", "globex")
        assert (refused.exit_code, f"no incident '{FIRING.id}'" in refused.stderr) == (2, True), operation
