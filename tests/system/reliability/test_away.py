"""More of "What goes away, and what happens": a disk full for all processes, rules, certificates, a channel."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import urlopen

import grpc
import pytest
import trustme
from end_to_end.test_alert import FELL, MISSING, RULE, Webhook, remember
from end_to_end.test_alert import send as send_calls
from reliability.load import SPANS_PER_TRACE, TRACES_PER_REQUEST, request_of, wait_until_stored

from build.served import TRACES, Server, children, export, served
from waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

# A file system of its own for a process, which others see through `_inside`.
_MOUNTED = 'mkdir -p "$0" && mount -t tmpfs -o size=64m tmpfs "$0" && exec "$@"'


def conditions(server: Server) -> set[str]:
    with urlopen(f"http://{server.endpoints['telemetry']}/healthz") as answer:
        return {found["name"] for found in json.loads(answer.read())["conditions"]}


@contextmanager
def away(away_s: float) -> Iterator[None]:
    """At least so long."""
    until_s = time.monotonic() + away_s
    yield
    eventually(lambda: time.monotonic() > until_s, "the time to pass", away_s + 60, every_s=0.5)


def _inside(server: Server, program: str) -> str:
    """What a Python program prints that sees the mounts of the server."""
    return _entered(server, sys.executable, "-c", program, str(server.data))


def _entered(server: Server, *command: str) -> str:
    assert server.process is not None
    pid = str(server.process.pid)
    is_own_user = os.readlink("/proc/self/ns/user") != os.readlink(f"/proc/{pid}/ns/user")
    enter = ["nsenter", *(["--preserve-credentials", "-U"] if is_own_user else []), "-m", "-t", pid]
    done = subprocess.run([*enter, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


_FILL = """
import sys
with open(sys.argv[1] + "/filler", "wb", buffering=0) as filler:
    for piece in (1 << 20, 4096, 1):
        try:
            while filler.write(bytes(piece)):
                pass
        except OSError:
            pass
"""
_EMPTY = "import os, sys; os.unlink(sys.argv[1] + '/filler')"
_COUNT = """
import sqlite3, sys
try:
    store = sqlite3.connect(f"file:{sys.argv[1]}/tracegrade.db?mode=ro", uri=True)
    print(*store.execute("SELECT count(*), coalesce(sum(span_count), 0) FROM traces").fetchone())
    print(*store.execute("SELECT count(*), count(DISTINCT trace || ' ' || place) FROM evaluations").fetchone())
except sqlite3.OperationalError as error:
    print(error)  # not made yet, or there is no room to read it
"""


def can_mount(folder: Path) -> bool:
    tried = ["unshare", "-rm", "sh", "-c", _MOUNTED, str(folder / "tried"), "true"]
    return shutil.which("unshare") is not None and subprocess.run(tried, capture_output=True).returncode == 0


def test_a_disk_that_is_full_for_all_processes_loses_nothing(tmp_path: Path, away_s: float) -> None:
    if not can_mount(tmp_path):
        pytest.skip("no file system can be mounted here, as root or in a namespace of users")
    server = Server(tmp_path)
    server.under = ["unshare", "-rm", "sh", "-c", _MOUNTED, str(server.data)]
    server.start()
    assert server.process is not None
    traces = 0

    def sent(first: int) -> bool:
        nonlocal traces
        try:
            export(server.endpoints["grpc"], request_of(range(first, first + TRACES_PER_REQUEST)), timeout_s=5)
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED):
                raise
            return False
        traces += TRACES_PER_REQUEST
        return True

    def all_stored() -> bool:
        whole = f"{traces} {traces * SPANS_PER_TRACE}\n{traces * 4} {traces * 4}\n"  # four evaluations each
        return _inside(server, _COUNT) == whole

    try:
        assert sent(1)
        eventually(all_stored, "the first results", every_s=0.5)
        before = sorted(children(server.process.pid))
        with away(away_s):
            _inside(server, _FILL)
            number = 100
            while sent(number):  # what had room in files that were there
                number += TRACES_PER_REQUEST
            eventually(lambda: "disk_failing" in conditions(server), "the condition")
        _inside(server, _EMPTY)
        eventually(lambda: sent(500_000), "an answer")
        eventually(all_stored, "all results", every_s=0.5)
        assert sorted(children(server.process.pid)) == before, "a process was started again"
        eventually(lambda: not conditions(server), "the end of the condition")
    finally:
        assert server.stop() == 0


def test_a_disk_that_becomes_read_only_refuses_senders_and_loses_nothing_answered(tmp_path: Path) -> None:
    """As ext4 does after an error; it can be written again once it was unmounted, so `serve` is started again."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(128 << 20)
    mounts = f'mkdir -p "$0" && mount -o loop {image} "$0" && exec "$@"'
    under = ["unshare", "-m", "sh", "-c", mounts]
    if shutil.which("mkfs.ext4") is None or subprocess.run(["mkfs.ext4", "-q", image]).returncode:
        pytest.skip("needs mkfs.ext4")
    if subprocess.run([*under, str(tmp_path / "tried"), "true"], capture_output=True).returncode:
        pytest.skip("no image of a disk can be mounted here: needs root")
    server = Server(tmp_path)
    server.under = [*under, str(server.data)]
    server.start()

    def count() -> str:
        return _inside(server, _COUNT)

    export(server.endpoints["grpc"], request_of(range(1, 6)))
    eventually(lambda: count() == "5 20\n20 20\n", "the first results", every_s=0.5)
    _entered(server, "mount", "-o", "remount,abort", str(server.data))
    for number in (100, 200):
        with pytest.raises(grpc.RpcError) as refused:
            export(server.endpoints["grpc"], request_of(range(number, number + 5)), timeout_s=60)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "the disk failed (Read-only file system)" in str(refused.value.details())
    eventually(lambda: conditions(server) == {"disk_failing", "judge_down"}, "the conditions")
    assert server.stop() == 0
    subprocess.run(["fsck.ext4", "-fy", image], capture_output=True)  # 1: corrected
    server.start()
    try:
        export(server.endpoints["grpc"], request_of(range(300, 305)))
        eventually(lambda: count() == "10 40\n40 40\n", "all that was answered", every_s=0.5)
        assert not conditions(server)
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize("fault", ["gone", "broken"])
def test_rules_that_cannot_be_read_leave_those_of_before_in_force(tmp_path: Path, away_s: float, fault: str) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    rule = folder / "one.rule.yaml"
    rule.write_text(json.dumps({name: value for name, value in RULE.items() if name != "alert"}))
    with served(tmp_path, rules={"paths": [str(folder)], "reload": "200ms"}) as server:
        assert server.process is not None

        def judged() -> int:
            return int(server.metric("tracegrade_evaluations_total", "judge", rule=RULE["id"]))

        send_calls(server, range(1, 6), "check_inventory", "create_order")
        eventually(lambda: judged() == 5, "the results")
        before = sorted(children(server.process.pid))
        with away(away_s):
            if fault == "gone":
                folder.rename(tmp_path / "elsewhere")
            else:
                rule.write_text("id: [")
            eventually(lambda: "rules_refused" in conditions(server), "the condition")
            send_calls(server, range(6, 11), "check_inventory", "create_order")
            eventually(lambda: judged() == 10, "results by the rules of before")
        if fault == "gone":
            (tmp_path / "elsewhere").rename(folder)
        else:
            rule.write_text(json.dumps({name: value for name, value in RULE.items() if name != "alert"}))
        eventually(lambda: not conditions(server), "the end of the condition")
        send_calls(server, range(11, 16), "check_inventory", "create_order")
        eventually(lambda: judged() == 15, "the results")
        assert sorted(children(server.process.pid)) == before, "a process was started again"


@pytest.mark.parametrize("fault", ["gone", "another's key"])
def test_a_certificate_that_cannot_be_used_leaves_the_one_of_before_in_force(
    tmp_path: Path, away_s: float, fault: str
) -> None:
    authority = trustme.CA()
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def issue() -> None:
        made = authority.issue_cert("localhost", not_after=datetime.now(UTC) + timedelta(days=90))
        made.cert_chain_pems[0].write_to_path(str(cert))
        made.private_key_pem.write_to_path(str(key))

    issue()
    tls = {"cert_file": str(cert), "key_file": str(key)}
    protocols = {"grpc": {"endpoint": "127.0.0.1:0", "tls": tls}, "http": {"endpoint": "127.0.0.1:0"}}
    trusted = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    with served(tmp_path, receivers={"otlp": {"protocols": protocols}}) as server:

        def takes(trace: int) -> bool:
            port = server.endpoints["grpc"].rpartition(":")[2]
            with grpc.secure_channel(f"localhost:{port}", trusted) as channel:
                call = channel.unary_unary(TRACES)
                call(request_of([trace]), timeout=60)
            return True

        assert takes(1)
        with away(away_s):
            if fault == "gone":
                cert.unlink()
            else:
                authority.issue_cert("localhost").private_key_pem.write_to_path(str(key))
            eventually(lambda: "certificate_refused" in conditions(server), "the condition")
            assert takes(2), "with the one of before"
        issue()
        eventually(lambda: not conditions(server), "the end of the condition")
        assert takes(3)
        wait_until_stored(server, range(1, 4))


def test_a_channel_that_is_away_hears_of_the_alert_once_it_is_back(tmp_path: Path, away_s: float) -> None:
    webhook = Webhook()
    webhook.refusals = sys.maxsize
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "one.rule.yaml").write_text(json.dumps(RULE))
    remember(tmp_path / "data", FELL, time.time_ns(), "demo-shop")
    channels = {"ops": {"webhook": {"url": f"http://127.0.0.1:{webhook.server_port}/hook"}}}
    settings = {"rules": {"paths": [str(rules)]}, "alerts": {"interval": "200ms", "channels": channels}}
    try:
        with served(tmp_path, **settings) as server:
            with away(away_s):
                send_calls(server, range(1, MISSING + 1), "create_order")
                eventually(lambda: webhook.refusals < sys.maxsize - 2, "the notification to be tried again")
                wanted = "traces", "list", "--data-dir", str(server.data)
                eventually(lambda: server.cli(*wanted).stdout, "traces that are judged meanwhile")
                assert webhook.posted == []
            webhook.refusals = 0
            eventually(lambda: webhook.posted, "the notification")
            send_calls(server, range(100, 101), "create_order")
            eventually(lambda: server.metric("tracegrade_evaluations_total", "judge") > MISSING, "a result after it")
            assert [posted["alerts"][0]["status"] for posted in webhook.posted] == ["firing"], "once"
    finally:
        webhook.shutdown()
        webhook.server_close()
