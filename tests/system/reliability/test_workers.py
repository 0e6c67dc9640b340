"""Several judges: whoever is killed, and however their number changes, each trace is judged once and none is lost."""

import json
import os
import random
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from end_to_end.test_deletion import SECRET, delete, files_with, traces
from end_to_end.test_sessions import RULE
from reliability.conftest import Report
from reliability.load import request_of, send, stored, wait_until_stored
from reliability.table import Row
from reliability.test_kill import Load, check_stored

from build.otlp import payload, spans_of
from build.served import Server, alive, children, export
from build.served_folder import secret_trace
from pipeline.test_sessions import turn
from tracegrade.assemble.share import share_of
from tracegrade.pipeline.heartbeat import read_heartbeat
from waiting import eventually

pytestmark = pytest.mark.long


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Two judges; not started yet, and stopped at the end."""
    server = Server(tmp_path, judge={"workers": 2})
    yield server
    if server.process is not None and server.process.poll() is None:
        server.stop()


def change(server: Server, **settings: Any) -> None:
    """Other settings for the next start."""
    before = json.loads(server.config.read_text())
    server.config.write_text(json.dumps(before | settings))


def part_pid(server: Server, part: str) -> int:
    """The process id of a judge, or of delivery, by its name."""

    def find() -> int:
        assert server.process is not None
        for pid in children(server.process.pid):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if command.endswith(b"\0--part\0" + part.encode() + b"\0"):
                return pid
        return 0

    return eventually(find, f"the process of {part}")


def kill_part(server: Server, part: str) -> None:
    pid = part_pid(server, part)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not alive(pid), f"{part} to be gone")


def has_judged(server: Server, part: str) -> bool:
    beat = read_heartbeat(server.data / f"{part}.heartbeat")
    return beat is not None and beat.position > 0


def test_kills_of_judges_of_delivery_and_of_everything_lose_and_double_nothing(
    server: Server, kills: int, report: Report
) -> None:
    rng = random.Random(11)
    server.start()
    load = Load(server)
    load.start()
    victims = rng.sample(["judge-0-of-2", "judge-1-of-2", "delivery", "receive"] * kills, 4 * kills)
    try:
        for victim in victims:
            eventually(lambda: all(has_judged(server, f"judge-{number}-of-2") for number in (0, 1)), "both judges", 60)
            load.wait_until_answered()
            if victim == "receive":
                server.kill()
                server.start()
            else:
                kill_part(server, victim)
        load.stop()
        wait_until_stored(server, load.answered)
    finally:
        load.stop()
        server.stop()
    check_stored(server, load.answered)
    assert server.canonical("results", "list", "--limit", "100000") == server.canonical("replay")
    seen = f"{len(load.answered):,} traces answered, each stored and judged once"
    report(Row("kill -9 of one of two judges, of delivery, of all", len(victims), 0, 0, 0.0, seen))


def test_the_number_of_judges_changes_under_load_and_kills(server: Server, report: Report) -> None:
    numbers = [1, 3, 2, 1]
    change(server, judge={"workers": numbers[0]})
    server.start()
    load = Load(server)
    load.start()
    try:
        for place, (_, workers) in enumerate(pairwise(numbers)):
            load.wait_until_answered()
            if place % 2:
                server.stop()
            else:
                server.kill()
            change(server, judge={"workers": workers})
            server.start()
            load.wait_until_answered()
        load.stop()
        wait_until_stored(server, load.answered)
        eventually(lambda: not list(server.data.glob("results-*")), "what other numbers of judges left to be delivered")
    finally:
        load.stop()
        server.stop()
    check_stored(server, load.answered)
    assert server.canonical("results", "list", "--limit", "100000") == server.canonical("replay")
    left = sorted(path.name for path in (server.data / "positions").glob("*judge*"))
    assert [name for name in left if "-of-" in name] == []
    seen = f"{len(load.answered):,} traces answered, each stored and judged once"
    report(Row("1, 3, 2 and 1 judges, by stops and kills", len(numbers) - 1, 0, 0, 0.0, seen))


def test_a_session_over_the_shares_of_two_judges_is_judged_as_by_one(server: Server, tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "rule.yaml").write_text(json.dumps(RULE))
    times = {"settle": "200ms", "idle_timeout": "1s", "session_quiet": "2s"}
    change(server, rules={"paths": [str(rules)]}, traces=times)

    def sent(number: int, session: str, tool: str) -> None:
        export(server.endpoints["grpc"], payload(spans_of(turn(number, session, tool, 1000 * number))))

    def listed() -> list[tuple[str, bool]]:
        shown = server.cli("results", "list", "--format", "json", "-c", str(server.config)).stdout
        found = [json.loads(line) for line in shown.splitlines()]
        return sorted((item["outcome"], item["complete"]) for item in found)

    server.start()
    chats = [f"chat-{number}" for number in range(6)]
    for place, chat in enumerate(chats):
        sent(2 * place + 1, chat, "find_order")
    assert {share_of((2 * place + 1).to_bytes(16, "big"), 2) for place in range(6)} == {0, 1}, "traces of both"
    eventually(lambda: len(listed()) == len(chats), "the first turns", 60)
    kill_part(server, "judge-0-of-2")
    kill_part(server, "judge-1-of-2")
    for place, chat in enumerate(chats):
        sent(2 * place + 2, chat, "refund")
    eventually(lambda: listed() == [("pass", True)] * len(chats), "all conversations, whole and quiet", 90)
    assert server.canonical("results", "list", "--limit", "100000") == server.canonical("replay")
    # One judge goes on with what two have judged.
    server.kill()
    change(server, judge={"workers": 1})
    server.start()
    sent(101, chats[0], "refund")
    eventually(lambda: len(server.cli("traces", "list", "-c", str(server.config)).stdout.splitlines()) > 0, "the page")
    eventually(
        lambda: f"{101:032x}" in server.cli("traces", "list", "--format", "json", "-c", str(server.config)).stdout
    )
    eventually(lambda: listed() == [("pass", True)] * len(chats), "all conversations again", 60)
    server.stop()
    assert server.canonical("results", "list", "--limit", "100000") == server.canonical("replay")


def test_two_judges_delete_what_one_would(server: Server) -> None:
    server.start()
    endpoint = server.endpoints["grpc"]
    for trace in range(1, 7):
        said, user = (SECRET, "ann") if trace < 5 else ("harmless", "bob")
        export(endpoint, payload(spans_of(secret_trace(trace, said, user=user))))
    eventually(lambda: len(traces(server)) == 6, "six traces", 60)
    export(endpoint, payload(spans_of(secret_trace(7, SECRET + "-open", user="ann"))[:1]))
    done = json.loads(delete(server, "--user", "ann", "--format", "json").stdout)
    assert (done["state"], done["trace_count"]) == ("done", 5)
    assert done["deleted"]["traces"] == done["deleted"]["results"] >= 4  # the open one may have closed meanwhile
    assert files_with(server, SECRET) == []
    assert len(traces(server)) == 2
    export(endpoint, payload(spans_of(secret_trace(8, "harmless"))))
    eventually(lambda: len(traces(server)) == 3, "judging to go on")
    assert not list((server.data / "deletions").glob("*.erased"))
    server.stop()
    # Without any process the command does the part of all judges.
    done = json.loads(delete(server, f"{8:032x}", "--format", "json").stdout)
    assert (done["state"], done["deleted"]["results"]) == ("done", 1)


def test_a_judge_that_hangs_is_restarted_alone(server: Server) -> None:
    change(server, judge={"workers": 2, "hang_timeout": "3s"})
    server.start()
    wait_until_stored(server, send(server, 2))

    def judged() -> float:
        return server.metric("tracegrade_spans_total", "judge", fate="judged")

    eventually(lambda: judged() == 4 * 10, "what both have counted to be published", 60)
    hung, other = part_pid(server, "judge-0-of-2"), part_pid(server, "judge-1-of-2")
    os.kill(hung, signal.SIGSTOP)
    sent = send(server, 4, 1001)
    eventually(lambda: "judge-0-of-2 ended (hung" in server.log, "the watchdog", 60)
    wait_until_stored(server, sent)
    assert part_pid(server, "judge-1-of-2") == other
    assert part_pid(server, "judge-0-of-2") != hung
    # What the one that hung had counted stays in the sum, and it had judged all that it had read.
    eventually(lambda: judged() == 4 * (10 + len(sent)), "the sum of both", 60)
    server.stop()
    assert set(sent) <= set(stored(server))


def test_the_numbers_of_two_judges_add_up(server: Server) -> None:
    change(server, traces={"settle": "1s", "idle_timeout": "3s"})
    server.start()
    sent = send(server, 10)
    export(server.endpoints["grpc"], request_of([sent[0]]))  # a second time

    def adds_up() -> bool:
        page = server.page()
        accepted = server.metric("tracegrade_receiver_accepted_items_total", "receive", page=page)
        counted = server.metric("tracegrade_spans_total", "judge", page=page)
        still_open = server.metric("tracegrade_spans_open", "judge", page=page)
        unread = server.metric("tracegrade_spans_unread", "receive", page=page)
        assert accepted == counted + still_open + unread, page
        return server.metric("tracegrade_spans_total", "judge", page=page, fate="judged") == 4 * len(sent)

    eventually(adds_up, "all spans judged", 60)
    page = server.page()
    assert server.metric("tracegrade_spans_total", "judge", page=page, fate="duplicate") == 4
    assert server.metric("tracegrade_rules_loaded", "judge", page=page) == 3
    assert 'tracegrade_judge_lag_bytes{judge="judge-1-of-2",role="receive"} 0.0' in page
    server.stop()
