"""Judges over Kafka whose database goes away: they stay members, their partitions wait, and nothing is missing then."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kafka.broker import Broker
from kafka.group import LOGS, SPANS, Judge, Sender, settings, stored, wait_for_lag

from build.postgresql import Postgresql, missing
from build.served import Server, alive
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.telemetry.conditions import conditions_in
from waiting import eventually

PARTITIONS = 4
TRACES = 100

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(missing()), reason=missing() or "all is here")]


def members(broker: Broker, group: str) -> set[str]:
    """The names of the clients in a group, as the broker shows them."""
    client = AdminClient({"bootstrap.servers": broker.address})  # with it, what was asked of it would go
    asked = client.describe_consumer_groups([group])
    return {member.client_id for member in asked[group].result(600).members}


def says_away(judge: Judge) -> bool:
    snapshot = DataFolder(judge.folder / "data").read_snapshot("judge")
    return snapshot is not None and "store_unavailable" in {found.name for found in conditions_in(snapshot)}


@pytest.mark.parametrize("mode", ["immediate", "fast"])
def test_a_database_that_is_stopped_ends_no_judge(broker: Broker, tmp_path: Path, at_end: ExitStack, mode: str) -> None:
    topics = {"traces_topic": f"{SPANS}_{mode}", "logs_topic": f"{LOGS}_{mode}"}
    for topic in topics.values():
        broker.create_topic(topic, PARTITIONS)
    database = at_end.enter_context(Postgresql())
    common = settings(broker, database.url, group=f"judges-{mode}", **topics)
    (tmp_path / "receive").mkdir()
    receiver = Server(tmp_path / "receive", **common)
    receiver.start(role="receive")
    at_end.callback(receiver.kill)
    judges = [Judge(tmp_path, f"judge-{number}", common) for number in range(2)]
    for judge in judges:
        judge.start()
        at_end.callback(judge.kill)
    wait_for_lag(judges, PARTITIONS, 1.0)
    names = {f"tracegrade-judge-0-{DataFolder(judge.folder / 'data').instance_id()}" for judge in judges}
    eventually(lambda: members(broker, f"judges-{mode}") == names, "both judges among the group's members, by name")
    before = [judge.pid for judge in judges]
    sender = Sender([receiver.endpoints["grpc"]], 20.0)
    sender.start()
    eventually(lambda: len(stored(database.url)) > TRACES, "traces with the database")
    database.stop(mode)
    at = len(sender.answered)
    eventually(lambda: all(map(says_away, judges)), "both judges to say that the store is away")
    eventually(lambda: len(sender.answered) > at + 2 * TRACES, "traces without the database")
    late = Judge(tmp_path, "judge-2", common)  # its start is in the outage
    late.start()
    at_end.callback(late.kill)
    eventually(lambda: says_away(late), "the new judge to wait")
    database.start()
    eventually(lambda: not any(map(says_away, [*judges, late])), "the end of the condition")
    sender.end()
    expected = {trace: len({span.span_id for span in spans}) for trace, spans in sender.answered.items()}

    def all_stored() -> bool:
        return {trace: found[0] for trace, found in stored(database.url).items()} == expected

    eventually(all_stored, "all traces with all their spans")
    assert all(all_ == distinct for _, all_, distinct in stored(database.url).values())
    assert [judge.pid for judge in judges] == before
    assert all(map(alive, [*before, late.pid])), "a judge ended"
    assert [judge.stop() for judge in (*judges, late)] == [0, 0, 0]
