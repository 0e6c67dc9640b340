"""Judges of one group under kills: no answered span is missing, no trace wrong, no evaluation doubled."""

import os
import random
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import pytest
from kafka.broker import Broker
from kafka.collector import Collector
from kafka.group import (
    LOGS,
    SPANS,
    TRACES_AT_ONCE,
    Judge,
    Sender,
    new_database,
    saturating_rate,
    settings,
    stored,
    stored_sessions,
    wait_for_lag,
    write_all,
    write_session_rule,
)

from build.served import Server
from waiting import eventually

POSTGRESQL = os.environ.get("TRACEGRADE_TEST_POSTGRESQL", "") if find_spec("psycopg") else ""
PARTITIONS = 8
TRACES_BETWEEN_KILLS = 150
LOWEST_RATE = 20.0
# "half": half of what saturates this machine, which is tried first.
RATE = os.environ.get("TRACEGRADE_TEST_TRACES_A_SECOND", "40")
LASTS_S = float(os.environ.get("TRACEGRADE_TEST_TRACES_LAST_S", "0.6"))

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not POSTGRESQL,
        reason="needs pip install -e '.[postgresql]' and TRACEGRADE_TEST_POSTGRESQL=postgresql+psycopg://...",
    ),
]


@pytest.mark.timeout(3600)
def test_kills_of_judges_and_of_the_broker_lose_and_double_nothing(
    broker: Broker,
    tmp_path: Path,
    collector: Collector | None,
    at_end: ExitStack,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kills: int = request.config.getoption("--kills")
    store = new_database(POSTGRESQL, "kafka_kills")
    for topic in (SPANS, LOGS):
        broker.create_topic(topic, PARTITIONS)
    common = settings(broker, store, LASTS_S)
    common["rules"]["paths"].append(write_session_rule(tmp_path))
    (tmp_path / "receive").mkdir()
    receiver = Server(tmp_path / "receive", **common)
    receiver.start(role="receive")
    at_end.callback(receiver.kill)
    judges = [Judge(tmp_path, f"judge-{number}", common) for number in range(3)]
    for judge in judges:
        judge.start()
        at_end.callback(judge.kill)
    wait_for_lag(judges, PARTITIONS, 1.0)
    endpoints = [receiver.endpoints["grpc"]]
    if collector is not None:
        endpoints.append(collector.start(tmp_path / "collector", broker))
    sender = Sender(endpoints, 40.0 if RATE == "half" else float(RATE), LASTS_S)
    sender.start()
    saturating = ""
    if RATE == "half":
        rate = saturating_rate(sender, judges, PARTITIONS)
        sender.traces_a_second = rate / 2
        saturating = f", {rate:.0f} saturate"
        _wait_at_a_rate_that_the_machine_takes(sender, judges)
    chance = random.Random(7)
    fourth = Judge(tmp_path, "judge-3", common)
    leaving_s: list[float] = []

    def leave() -> None:
        _wait_for_partitions(fourth)
        judges.remove(fourth)
        assert fourth.stop() == 0
        leaving_s.append(wait_for_lag(judges, PARTITIONS, 1.0))

    for kill in range(kills):
        _wait_for_traces(sender, judges)
        victim = chance.choice(judges[:3])
        _wait_for_partitions(victim)
        victim.kill()
        victim.start()
        if kill == kills // 3:
            broker.kill()
            broker.start()
        if fourth not in judges and kill in (kills // 4, kills * 3 // 4):
            judges.append(fourth)
            fourth.start()
            at_end.callback(fourth.kill)
        elif fourth in judges and kill == kills // 2:
            leave()
    _wait_for_traces(sender, judges)
    if fourth in judges:
        leave()
    last = chance.choice(judges)
    last.kill()
    last.start()
    lag_after_s = wait_for_lag(judges, PARTITIONS, 1.0)
    _wait_for_traces(sender, judges)
    sender.end()
    ended_s = time.monotonic()
    wanted = dict.fromkeys(sender.answered, (4, 4, 4))
    sessions = {f"chat-{first}": (TRACES_AT_ONCE, True, 1) for first in range(1, len(wanted), TRACES_AT_ONCE)}

    def is_all_there() -> bool:
        for judge in judges:
            judge.keep()
        return stored(store) == wanted and stored_sessions(store) == sessions

    try:
        eventually(is_all_there, "all traces in the store, whole", every_s=0.5)
    finally:
        found = stored(store)
        found_sessions = stored_sessions(store)
        missing = [trace for trace in wanted if trace not in found]
        wrong = [trace for trace in wanted if trace in found and found[trace] != wanted[trace]]
        spans = sum(map(len, sender.answered.values()))
        with capsys.disabled():
            print(
                f"\n{kills + 1} kills of judges, 1 of the broker, {len(wanted)} traces of up to {LASTS_S:g} s, {spans} "
                f"spans sent to {'a receiver' if collector is None else 'a receiver and a Collector'} at "
                f"{sender.traces_a_second:g} traces a second{saturating}, {sender.retries} retries: "
                f"{len(missing)} missing, {len(wrong)} wrong; "
                f"of {len(sessions)} sessions {len(sessions.items() - found_sessions.items())} missing or wrong; "
                f"lag below 1 s {lag_after_s:.1f} s after the last restart, {_listed(leaving_s)} s after one left; "
                f"all stored {time.monotonic() - ended_s:.1f} s after the last request"
            )
            print(_table(judges))
            for name in sorted(sessions.items() - found_sessions.items())[:5]:
                print(name, found_sessions.get(name[0]))
            for trace in (missing + wrong)[:5]:
                print(trace, found.get(trace), [span.span_id.hex()[-4:] for span in sender.answered[trace]])
    write_all(sender, tmp_path / "sent.pb")
    live = receiver.canonical("results", "list", "--limit", "1000000")
    assert live == receiver.canonical("replay", str(tmp_path / "sent.pb"))
    assert live == receiver.canonical("replay"), "what lies in Kafka, read again"
    for judge in judges:
        assert judge.stop() == 0
    assert receiver.stop() == 0


def _wait_for_partitions(judge: Judge) -> None:
    def has_some() -> bool:
        judge.keep()
        return judge.has_partitions()

    eventually(has_some, f"{judge.name} to have partitions")


def _wait_at_a_rate_that_the_machine_takes(sender: Sender, judges: list[Judge]) -> None:
    """Until the judges have caught up; other work on the machine may have begun since the rate was found."""
    while sender.traces_a_second > LOWEST_RATE:
        try:
            wait_for_lag(judges, PARTITIONS, 1.0)
        except AssertionError:
            sender.traces_a_second /= 2
        else:
            return
    wait_for_lag(judges, PARTITIONS, 1.0)


def _listed(values: list[float]) -> str:
    return " and ".join(f"{value:.1f}" for value in values)


def _table(judges: list[Judge]) -> str:
    """How long judges needed after their starts, in parts."""
    found = [recovery for judge in judges for recovery in judge.recoveries()]
    lines = [f"{len(found)} starts, in s:{'':30}  median   longest"]
    for what, values in (
        ("from the start until it had partitions", [each.joined_s for each in found]),
        ("from then until it had caught up with all", [each.caught_up_s for each in found]),
        ("both", [sum(each) for each in found]),
    ):
        lines.append(f"  {what:45} {median(values):8.1f} {max(values):9.1f}")
    return "\n".join(lines)


def _wait_for_traces(sender: Sender, judges: list[Judge]) -> None:
    """Until some more traces were answered."""
    aim = len(sender.answered) + TRACES_BETWEEN_KILLS

    def has_sent() -> bool:
        for judge in judges:
            judge.keep()
        assert sender.is_alive()
        return len(sender.answered) >= aim

    eventually(has_sent, "more traces to be answered", every_s=0.1)
