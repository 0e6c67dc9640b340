"""The database goes away: no process ends, one condition says so, and afterwards all results are there, once each."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from reliability.load import TRACES_PER_REQUEST, send

from build.postgresql import Postgresql, missing
from build.served import Server, children
from waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(missing()), reason=missing() or "all is here")]


@pytest.fixture
def database() -> Iterator[Postgresql]:
    with Postgresql() as running:
        yield running


def health(server: Server) -> dict[str, Any]:
    with urlopen(f"http://{server.endpoints['telemetry']}/healthz") as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def conditions(server: Server) -> set[str]:
    return {found["name"] for found in health(server)["conditions"]}


def stop_at_once(database: Postgresql) -> Callable[[], None]:
    database.stop("immediate")
    return database.start


def stop_in_order(database: Postgresql) -> Callable[[], None]:
    database.stop("fast")
    return database.start


def freeze(database: Postgresql) -> Callable[[], None]:
    database.freeze()
    return database.thaw


def only_read(database: Postgresql) -> Callable[[], None]:
    database.execute("ALTER DATABASE results SET default_transaction_read_only = on")
    database.stop("fast")
    database.start()

    def writable() -> None:
        database.execute("ALTER DATABASE results RESET ALL", PGOPTIONS="-c default_transaction_read_only=off")
        database.stop("fast")
        database.start()

    return writable


@contextmanager
def goes_on(server: Server, database: Postgresql) -> Iterator[Callable[[], None]]:
    """What happens in here ends no process, and what is sent, by calling what this gives, is stored once in the end."""
    assert server.process is not None
    sent: list[int] = []

    def send_some() -> None:
        sent.extend(send(server, 5, len(sent) + 1))

    def wait_until_stored() -> None:
        eventually(lambda: stored(database) == len(sent), "all results")

    send_some()
    wait_until_stored()
    before = sorted(children(server.process.pid))
    yield send_some
    wait_until_stored()
    send_some()
    wait_until_stored()
    evaluations = "count(*), count(DISTINCT (trace, place)), count(DISTINCT trace)"
    all_, distinct, traces = map(int, database.execute(f"SELECT {evaluations} FROM evaluations").split("|"))
    assert (all_, traces) == (distinct, len(sent))
    assert sorted(children(server.process.pid)) == before, "a process was started again"
    eventually(lambda: "store_unavailable" not in conditions(server), "the end of the condition")


def stored(database: Postgresql) -> int:
    try:
        return int(database.execute("SELECT count(*) FROM traces"))
    except subprocess.CalledProcessError:
        return 0


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("fault", [stop_at_once, stop_in_order, freeze, only_read])
def test_a_database_that_goes_away_ends_nothing(
    tmp_path: Path, database: Postgresql, away_s: float, fault: Callable[[Postgresql], Any], workers: int
) -> None:
    server = Server(tmp_path, store={"url": database.url}, judge={"workers": workers})
    server.start()
    try:
        with goes_on(server, database) as send_some:
            mended = fault(database)
            begun_s = time.monotonic()
            send_some()
            if fault is not freeze:  # which is like a slow one for some time
                eventually(lambda: "store_unavailable" in conditions(server), "the condition")
            eventually(lambda: time.monotonic() - begun_s > away_s, "the time to pass", away_s + 60, every_s=0.5)
            mended()
        told = server.log.count("store_unavailable")
        assert told <= 2 * 2 * (workers + 1), server.log  # begin and end, of what each process does with the store
    finally:
        assert server.stop() == 0


def test_a_database_that_comes_after_the_judge_is_waited_for(tmp_path: Path, database: Postgresql) -> None:
    database.stop("fast")
    server = Server(tmp_path, store={"url": database.url})
    server.start()
    try:
        send(server, 2)
        assert server.process is not None
        before = children(server.process.pid)
        eventually(lambda: "store_unavailable" in conditions(server), "the condition")
        database.start()
        eventually(lambda: stored(database) == 2 * TRACES_PER_REQUEST, "the results")
        assert children(server.process.pid) == before
        eventually(lambda: not conditions(server), "the end of the condition")
    finally:
        assert server.stop() == 0


def test_a_judge_that_waits_for_its_database_ends_when_it_is_told_to(tmp_path: Path, database: Postgresql) -> None:
    database.stop("fast")
    server = Server(tmp_path, store={"url": database.url})
    command = [sys.executable, "-m", "tracegrade", "serve", "-c", str(server.config), "--role", "judge"]
    judge = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert judge.stderr is not None
    told = ""
    while "store_unavailable" not in told:
        told = judge.stderr.readline()
    judge.terminate()
    assert judge.wait() == 0
    judge.stderr.close()
    database.start()
