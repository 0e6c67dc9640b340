import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from sqlalchemy import Engine

from build.judged_traces import MINUTE_NS, START_NS, judged
from build.loop_stage import Channel, Stage, rules
from build.stored_runs import begin
from tracegrade.alert.notify.message import details, headline, summary
from tracegrade.document.tenants import ForTenants
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import Silence, recent_alerts, save_silence
from tracegrade.store.incidents import Incident
from tracegrade.store.open import reading
from tracegrade.store.write import StoreWriter

SECOND_NS = 1_000_000_000
FIRING = [("checkout-order", "shop", "firing")]
RESOLVED = [("checkout-order", "shop", "resolved")]


@pytest.fixture(autouse=True)
def undiagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What broke is found, and tested, in `diagnose`."""
    monkeypatch.setattr("tracegrade.alert.loop.with_diagnoses", lambda connection, incidents, *how, anew: incidents)


def test_it_fires_once_then_is_resolved_once(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    assert stage.step(1) == FIRING
    assert stage.step(2) == []
    stage.receive(2, *["pass"] * 30)
    assert stage.step(3) == RESOLVED
    assert stage.step(4) == []
    assert stage.firing() == []


def test_silence_neither_fires_nor_resolves(stage: Stage) -> None:
    assert stage.step(0) == []
    stage.receive(0, "fail", "fail")
    assert stage.step(1) == FIRING
    assert stage.step(200) == [], "the window is empty, so nobody knows whether it is better"
    assert len(stage.firing()) == 1


def test_too_few_samples_do_not_fire(stage: Stage) -> None:
    stage.receive(0, "fail", "not_evaluable", "error")
    assert stage.step(1) == []


def test_incomplete_traces_do_not_count_unless_the_rule_says_so(stage: Stage) -> None:
    stage.receive(0, "fail", "fail", complete=False)
    assert stage.step(1) == []
    stage.rule_set = rules(incomplete="count")
    stage.receive(1, "fail", "fail", complete=False)
    assert stage.step(2) == FIRING


def test_experimental_rules_never_alert(stage: Stage) -> None:
    stage.rule_set = rules(status="experimental")
    stage.receive(0, "fail", "fail")
    assert stage.step(1) == []


def test_experiments_never_alert(stage: Stage) -> None:
    begin(stage.engine, "tuning")
    stage.receive(0, "fail", "fail", run="tuning")
    assert stage.step(1) == []


def test_each_service_and_tenant_alerts_on_its_own(stage: Stage) -> None:
    stage.receive(0, "fail", "fail", service="bank")
    stage.receive(0, "pass", "pass", service="shop")
    stage.receive(0, "fail", "fail", service="shop", tenant="other")
    stage.step(1)
    assert [(alert.tenant, alert.service) for alert in stage.firing()] in (
        [("default", "bank"), ("other", "shop")],
        [("other", "shop"), ("default", "bank")],
    )


def test_one_evaluation_can_be_watched_instead(stage: Stage) -> None:
    stage.rule_set = rules({"below": 0.9, "over": "10m", "of": "tool-call-order", "min_samples": 1})
    stage.receive(0, "fail", "fail")
    assert stage.step(1) == FIRING
    assert stage.firing()[0].of == "tool-call-order"


def test_what_is_older_than_the_window_does_not_count(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    stage.receive(30, "pass", "pass")
    assert stage.step(31) == []


def test_an_alert_whose_rule_is_gone_is_resolved(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    stage.step(1)
    stage.rule_set = RuleSet([])
    assert stage.step(2) == RESOLVED


def test_firing_again_is_a_new_firing_of_the_same_alert(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    stage.step(1)
    stage.receive(1, *["pass"] * 30)
    stage.step(2)
    stage.receive(40, "fail", "fail")
    assert stage.step(41) == FIRING
    with reading(stage.engine) as connection:
        found = recent_alerts(connection, 0)
    assert [alert.state for alert in found] == ["firing", "resolved"]
    assert found[0].fingerprint == found[1].fingerprint


def test_a_channel_that_was_away_is_notified_later(stage: Stage) -> None:
    stage.channel.away = True
    stage.receive(0, "fail", "fail")
    assert stage.step(1) == []
    stage.channel.away = False
    assert stage.step(1.1) == [], "not before the pause is over"
    assert stage.step(1.3) == FIRING


def test_the_pause_after_failures_grows(stage: Stage) -> None:
    def tries_after(seconds: int) -> int:
        """How often the channel was tried until so long after the first try."""
        stage.loop.step(START_NS + (1 + seconds) * SECOND_NS)
        return stage.channel.calls

    stage.channel.away = True
    stage.receive(0, "fail", "fail")
    assert tries_after(0) == 1
    for number, seconds in enumerate((15, 45, 105, 225, 465), 1):
        assert (tries_after(seconds - 1), tries_after(seconds)) == (number, number + 1), f"{seconds} seconds"
    assert stage.telemetry.value("tracegrade.alerts.notifications", outcome="failed") == 6


def test_what_came_and_went_while_a_channel_was_away_is_notified_as_resolved(stage: Stage) -> None:
    stage.channel.away = True
    stage.receive(0, "fail", "fail")
    stage.step(1)
    stage.receive(1, *["pass"] * 30)
    stage.step(2)
    stage.channel.away = False
    assert stage.step(9) == RESOLVED


def test_notifications_are_remembered_over_a_restart(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    stage.step(1)
    again = Stage(stage.engine)
    assert again.step(2) == []


def test_a_channel_that_is_away_does_not_keep_others_from_being_notified(engine: Engine, plain: None) -> None:
    away, other = Channel("away"), Channel("other")
    away.away = True
    stage = Stage(engine, away, other)
    stage.receive(0, "fail", "fail")
    stage.step(1)
    stage.step(2)
    assert other.told == FIRING
    told = stage.incidents()[0].notified
    assert told["other"].state == "firing"
    assert (told["away"].state, told["away"].tries, told["away"].error) == ("", 2, "answered 503")


def firing_metric(stage: Stage) -> dict[tuple[str, ...], float]:
    found = stage.telemetry.snapshot()["metrics"].get("tracegrade.alerts.firing", [])
    names = ("rule", "service", "agent", "level")
    return {tuple(point["labels"][name] for name in names): point["value"] for point in found}


def test_what_fires_is_a_metric_by_service_agent_and_level(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    stage.receive(0, "fail", "fail", service="other-shop")
    stage.step(1)
    of_shop = ("checkout-order", "shop", "support", "medium")
    of_other = ("checkout-order", "other-shop", "support", "medium")
    assert firing_metric(stage) == {of_shop: 1, of_other: 1}
    stage.receive(1, *["pass"] * 30)
    stage.step(2)
    assert firing_metric(stage) == {of_shop: 0, of_other: 1}


def test_what_fires_without_room_for_its_names_counts_as_other(stage: Stage) -> None:
    stage.telemetry.fit("tracegrade.decisions", stage.telemetry.max_series - 1, ("a",), ("other",))
    for service in ("one", "two", "three"):
        stage.receive(0, "fail", "fail", service=service)
    stage.step(1)
    assert firing_metric(stage) == {("checkout-order", "other", "other", "medium"): 3}
    stage.step(2)
    assert firing_metric(stage) == {("checkout-order", "other", "other", "medium"): 3}


def test_a_first_notification_is_a_rise_from_0(engine: Engine) -> None:
    stage = Stage(engine)
    found = stage.telemetry.snapshot()["metrics"]["tracegrade.alerts.notifications"]
    assert [(point["labels"], point["value"]) for point in found] == [
        ({"receiver": "pager", "outcome": outcome}, 0) for outcome in ("sent", "failed")
    ]


def test_a_store_that_refuses_is_asked_again(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    with stage.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE alerts RENAME TO away")
    assert stage.step(1) == []
    assert stage.telemetry.value("tracegrade.alerts.failed_checks") == 1
    with stage.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE away RENAME TO alerts")
    assert stage.step(2) == FIRING


def test_running_ends_when_told_and_closes_channels(stage: Stage) -> None:
    async def run() -> None:
        stop = asyncio.Event()
        stop.set()
        await stage.loop.run(stop)

    asyncio.run(run())
    assert stage.channel.closed


def test_what_takes_long_is_done_less_often(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """0.3 s of processor time for a step: not again before 30 s are over, at most 1 % of a core."""
    stop, waited = asyncio.Event(), []

    async def wait_for(waiting: Coroutine[Any, Any, Any], seconds: float) -> None:
        waiting.close()
        waited.append(seconds)
        stop.set()

    monkeypatch.setattr(stage.loop, "_timed_step", lambda: 0.3)
    monkeypatch.setattr(asyncio, "wait_for", wait_for)
    asyncio.run(stage.loop.run(stop))
    assert waited == [pytest.approx(30)]


def test_what_still_fires_is_notified_again_after_a_while(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    assert [stage.step(minute) for minute in (1, 200, 242, 300)] == [FIRING, [], FIRING, []]
    assert len(set(stage.channel.keys)) == 1


def test_a_kill_between_telling_and_storing_repeats_with_the_same_key(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    stage.channel.killed_after = True
    with pytest.raises(KeyboardInterrupt):
        stage.step(1)
    again = Stage(stage.engine, Channel())
    again.rule_set = stage.rule_set
    assert again.step(2) == FIRING
    assert again.channel.keys == stage.channel.keys
    assert again.step(3) == []


@pytest.mark.parametrize("killed_at", [1, 2, 3, 4, 5])
def test_a_restart_in_any_state_changes_nothing(engine: Engine, plain: None, killed_at: int) -> None:
    """Firing at 1, resolved at 4: one word of each, whoever looks."""
    stage = Stage(engine)
    stage.receive(0, "fail", "fail")
    told = []
    for minute in range(1, 7):
        if minute == killed_at:
            fresh = Stage(engine)
            fresh.rule_set, fresh.next_trace = stage.rule_set, stage.next_trace
            stage = fresh
        if minute == 4:
            stage.receive(3, *["pass"] * 30)
        told.append(stage.step(minute))
    assert told == [FIRING, [], [], RESOLVED, [], []]


def test_a_silence_holds_back_and_what_still_fires_is_told_after_it(stage: Stage) -> None:
    with stage.engine.begin() as connection:
        save_silence(connection, Silence("1", {"service": "sh*"}, START_NS, START_NS + 5 * MINUTE_NS, ""))
    stage.receive(0, "fail", "fail")
    assert [stage.step(1), stage.step(5)] == [[], FIRING]


def test_a_silence_of_other_alerts_holds_nothing_back(stage: Stage) -> None:
    with stage.engine.begin() as connection:
        save_silence(connection, Silence("1", {"service": "bank"}, START_NS, START_NS + 5 * MINUTE_NS, ""))
    stage.receive(0, "fail", "fail")
    assert stage.step(1) == FIRING


def test_the_end_of_what_was_told_is_told_in_a_silence_too(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    stage.step(1)
    with stage.engine.begin() as connection:
        save_silence(connection, Silence("1", {}, START_NS, START_NS + 50 * MINUTE_NS, ""))
    stage.receive(2, *["pass"] * 30)
    assert stage.step(3) == RESOLVED


def test_a_changed_rule_ends_the_alert_and_begins_anew_without_results(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    stage.step(1)
    stage.rule_set = rules(scope="trace")
    assert stage.step(2) == RESOLVED
    with reading(stage.engine) as connection:
        (alert,) = recent_alerts(connection, 0)
    assert alert.facts.ended_by == "the rule was changed"
    assert stage.step(3) == []


def test_an_edited_text_leaves_the_alert_as_it_is_but_for_what_it_says(stage: Stage) -> None:
    stage.rule_set = rules(title="Orders are chekced")
    stage.receive(0, "fail", "fail")
    assert stage.step(1) == FIRING
    (before,) = stage.firing()
    texts = {"title": "Orders are checked", "level": "critical", "tags": ["shop"], "references": ["https://x.test"]}
    stage.rule_set = rules(**texts, description="Why.", false_positives=["A test order"])
    assert stage.step(2) == FIRING, "it matters more than was said"
    assert stage.step(2.5) == []
    assert len(set(stage.channel.keys)) == 1
    (after,) = stage.firing()
    assert (after.fingerprint, after.key, after.rule_hash) == (before.fingerprint, before.key, before.rule_hash)
    assert (after.title, after.level) == ("Orders are checked", "critical")
    assert details(stage.incidents()[0])[-2:] == ["About this rule: Why.", "See https://x.test"]
    stage.receive(3, *["pass"] * 30)
    assert stage.step(4) == RESOLVED


def test_a_moved_threshold_makes_another_alert_of_that_condition_alone(stage: Stage) -> None:
    errors = {"above": 0.3, "of": "error", "over": "10m", "min_samples": 2}
    stage.rule_set = rules({"below": 0.8, "over": "10m", "min_samples": 2}, errors)
    stage.receive(0, *["fail"] * 8, *["error"] * 16)
    assert stage.step(1) == FIRING
    assert stage.channel.members == [2], "one thing went wrong"
    before = {alert.of: alert for alert in stage.firing()}
    stage.rule_set = rules({"below": 0.85, "over": "10m", "min_samples": 2}, errors)
    assert stage.step(2) == [], "the history is the same: it fires at once, as the same incident"
    after = {alert.of: alert for alert in stage.firing()}
    assert after["error"].key == before["error"].key
    assert (after["pass_rate"].bound, before["pass_rate"].bound) == (0.85, 0.8)
    assert after["pass_rate"].fingerprint != before["pass_rate"].fingerprint
    with reading(stage.engine) as connection:
        (ended,) = [alert for alert in recent_alerts(connection, 0) if alert.state == "resolved"]
    assert ended.facts.ended_by == "the alert was changed or removed"
    assert summary(ended).endswith("pass rate was 0% (8 results in 10 minutes) when the alert was changed or removed")


def test_a_silence_outlasts_an_edited_text(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    with stage.engine.begin() as connection:
        labels = {"rule": "checkout-order"}
        save_silence(connection, Silence("quiet", labels, 0, START_NS + 60 * MINUTE_NS, ""))
    assert stage.step(1) == []
    stage.rule_set = rules(title="The same, said otherwise")
    assert stage.step(2) == []
    assert len(stage.firing()) == 1


def test_releases_and_agents_are_judged_apart_and_a_replaced_release_ends(stage: Stage) -> None:
    stage.receive(0, "fail", "fail", release="1.0")
    stage.receive(0, "pass", "pass", release="1.1")
    assert stage.step(1) == FIRING
    assert [alert.release for alert in stage.firing()] == ["1.0"]
    stage.receive(20, *["pass"] * 20, release="1.1")
    assert stage.step(21) == RESOLVED
    with reading(stage.engine) as connection:
        (alert,) = recent_alerts(connection, 0)
    assert alert.facts.ended_by == "release 1.1 replaced it"


def test_a_revision_corrects_what_it_replaces(stage: Stage) -> None:
    stage.receive(0, *["pass"] * 8)
    stage.receive(0, *["fail"] * 6)
    assert stage.step(1) == FIRING
    for number in range(8, 14):
        received_ns = START_NS
        trace = judged(number, "pass", revision=3, first_received_ns=received_ns, last_received_ns=received_ns)
        for decision in trace.decisions:
            decision.pair.rule_hash = stage.rule_set.rules[0].hash
        StoreWriter(stage.engine).write([trace])
    assert stage.step(2) == RESOLVED
    assert stage.channel.told[-1] == RESOLVED[0]
    with reading(stage.engine) as connection:
        assert recent_alerts(connection, 0)[0].samples == 14


HOOK = {"webhook": {"url": "http://127.0.0.1/"}}


def test_only_channels_of_its_route_are_notified(engine: Engine, plain: None) -> None:
    pager, chat = Channel("pager"), Channel("chat")
    routes = [{"labels": {"service": "bank"}, "channels": ["pager"]}, {"channels": ["chat"]}]
    stage = Stage(engine, pager, chat, channels={"pager": HOOK, "chat": HOOK}, routes=routes)
    stage.receive(0, "fail", "fail")
    stage.step(1)
    stage.receive(100, "fail", "fail", service="bank")
    stage.step(101)
    assert pager.told == [("checkout-order", "bank", "firing")]
    assert chat.told == FIRING


def test_a_channel_notified_of_an_alert_is_notified_of_its_end_though_its_route_has_changed(
    engine: Engine, plain: None
) -> None:
    stage = Stage(engine, channels={"pager": HOOK})
    stage.receive(0, "fail", "fail")
    assert stage.step(1) == FIRING
    stage.receive(2, *["pass"] * 30)
    changed = Stage(engine, channels={"pager": HOOK}, routes=[{"channels": []}])
    changed.rule_set = stage.rule_set
    assert changed.step(3) == RESOLVED


@pytest.mark.parametrize("records", [False, True], ids=["a channel", "the events of an exporter"])
def test_a_channel_for_one_tenant_is_notified_of_its_incidents_alone(
    engine: Engine, plain: None, records: bool
) -> None:
    everybody, own = Channel("everybody"), Channel("own", records=records)
    stage = Stage(engine, everybody, own, for_tenants={"own": ForTenants(tenants=["globex"])})
    stage.receive(0, "fail", "fail", service="bank")
    stage.receive(0, "fail", "fail", service="plant", tenant="globex")
    stage.step(1)
    stage.receive(2, *["pass"] * 30, service="bank")
    stage.receive(2, *["pass"] * 30, service="plant", tenant="globex")
    stage.step(3)
    assert own.told == [("checkout-order", "plant", "firing"), ("checkout-order", "plant", "resolved")]
    assert len(everybody.told) == 4


def test_what_keeps_a_record_is_told_of_everything_once(engine: Engine, plain: None) -> None:
    pager, record = Channel("pager"), Channel("exporters.otlp", records=True)
    stage = Stage(engine, pager, record, channels={"pager": HOOK}, routes=[{"channels": []}], repeat="1m")
    with stage.engine.begin() as connection:
        save_silence(connection, Silence("1", {}, START_NS, START_NS + 50 * MINUTE_NS, ""))
    stage.receive(0, "fail", "fail")
    for minute in range(1, 6):
        stage.step(minute)
    stage.receive(6, *["pass"] * 30)
    stage.step(7)
    assert pager.told == []
    assert record.told == [*FIRING, *RESOLVED]


def test_a_channel_that_breaks_has_failed_and_ends_nothing(engine: Engine, plain: None) -> None:
    broken, other = Channel("broken"), Channel("other")
    broken.broken = True
    stage = Stage(engine, broken, other)
    stage.receive(0, "fail", "fail")
    stage.step(1)
    assert other.told == FIRING
    assert stage.incidents()[0].notified["broken"].error == "failed: ValueError"


def test_an_incident_that_a_channel_does_not_take_does_not_keep_it_from_others(engine: Engine, plain: None) -> None:
    class Picky(Channel):
        def send(self, incident: Incident, now_ns: int) -> str | None:
            return "answered 400" if incident.lead.service == "bank" else super().send(incident, now_ns)

    stage = Stage(engine, Picky())
    stage.receive(0, "fail", "fail", service="shop")
    stage.channel.away = True
    stage.step(1)
    stage.channel.away = False
    stage.receive(100, "fail", "fail", service="bank")
    stage.step(101)
    stage.step(103)
    stage.step(105)
    assert stage.channel.told == FIRING, "the newest is first, but was refused"


def test_a_fault_in_a_check_ends_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError

    stage.receive(0, "fail", "fail")
    with monkeypatch.context() as patch:
        patch.setattr("tracegrade.alert.loop.check", broken)
        assert stage.step(1) == []
    assert stage.telemetry.value("tracegrade.alerts.failed_checks") == 1
    assert stage.step(2) == FIRING


def test_who_does_not_lead_tells_nothing_and_shows_nothing(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    assert stage.step(1) == FIRING
    assert set(firing_metric(stage).values()) == {1}
    stage.leads = False
    stage.receive(2, *["pass"] * 30)
    assert stage.step(3) == []
    assert set(firing_metric(stage).values()) == {0}
    stage.leads = True
    assert stage.step(4) == RESOLVED


def test_a_judge_that_is_behind_makes_no_agent_silent(detecting: Stage) -> None:
    detecting.rule_set = rules({"coverage": {"silent": "30m"}, "min_samples": 2})
    detecting.receive(0, "pass", "pass")
    detecting.judged_to_ns = START_NS + 2 * MINUTE_NS
    assert detecting.step(60) == []
    detecting.judged_to_ns = START_NS + 60 * MINUTE_NS
    assert detecting.step(60) == FIRING
    assert detecting.firing()[0].kind == "silent"


def test_an_agent_that_falls_silent_during_an_incident_is_notified_of(detecting: Stage) -> None:
    detecting.rule_set = rules(
        {"slo": {"objective": 0.99, "window": "7d"}, "min_samples": 2},
        {"coverage": {"silent": "3m"}, "min_samples": 2},
    )
    detecting.receive(0, *["fail"] * 40)
    assert detecting.step(1) == FIRING
    assert detecting.step(4) == FIRING
    assert [[alert.kind for alert in each.members] for each in detecting.incidents()] == [["slo"], ["silent"]]
    said = [headline(each) for each in detecting.incidents()]
    assert "error budget" in said[0]
    assert said[1].endswith("has sent no results for 3 minutes (rule checkout-order)")
    detecting.receive(5, "pass", "pass")
    assert detecting.step(6) == RESOLVED
    assert [each.lead.kind for each in detecting.incidents()] == ["slo"]


def test_tokens_that_were_measured_fire_and_a_corrected_revision_ends_it(detecting: Stage) -> None:
    detecting.rule_set = rules({"above": 20_000, "of": "tokens"}, {"below": 0.5})
    for minute in range(0, 300, 2):
        detecting.receive(minute, "pass", measured=(("tokens", 30_000.0 + minute % 4 * 2_000),))
    assert detecting.step(300) == [("checkout-order", "shop", "firing")]
    (incident,) = detecting.incidents()
    assert "mean tokens 32,000 is above 20,000 (150 results in 1 day)" in summary(incident.lead)
    detecting.next_trace = 0
    for minute in range(0, 300, 2):
        values = (("tokens", 3_000.0),)
        detecting.receive(minute, "pass", measured=values, revision=3, supersedes=2)
    for minute in range(300, 600, 2):
        detecting.receive(minute, "pass", measured=(("tokens", 3_000.0),))
    assert detecting.step(600) == [("checkout-order", "shop", "resolved")]
