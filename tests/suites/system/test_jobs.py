"""A suite as a job of a real ``serve``: what is killed goes on, and no case is lost or stored twice."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from build.served import Server, alive, children, served
from suites.build.jobs import WEATHER, right
from suites.build.scripted_models import Answer, prompt_of, serving, write_models
from suites.build.scripted_models import Server as ModelServer
from waiting import eventually

pytestmark = pytest.mark.long

CASES = 200


class Asked:
    """A script that answers, and knows what it was asked and how many requests were under way at most."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.pause = threading.Event()  # set: answers wait
        self.under_way = 0

    def __call__(self, body: dict[str, Any]) -> Answer:
        self.prompts.append(prompt_of(body))
        self.under_way += 1
        eventually(lambda: not self.pause.is_set(), "the pause to end")
        self.under_way -= 1
        return right(body)


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def model(asked: Asked) -> Iterator[ModelServer]:
    with serving(asked) as server:
        yield server


@pytest.fixture
def settings(tmp_path: Path, model: ModelServer) -> dict[str, Any]:
    cases = [
        {
            "prompt": f"Weather in city {number}?",
            "expected_tool": "get_weather",
            "expected_params": {"city": f"city {number}"},
        }
        for number in range(CASES)
    ]
    suite = {"name": "Weather", "tools": [WEATHER], "test_cases": cases}
    (tmp_path / "weather.json").write_text(json.dumps(suite))
    path = write_models(tmp_path, model.url, attempts=1, at_a_time=4, timeout="1h")
    return {"suites": {"models": str(path)}}


def submitted(server: Server, folder: Path) -> str:
    do(server, "suite", "import", str(folder / "weather.json"))
    said = do(server, "suite", "run", "Weather", "--background", "--model", "m-1", "--experiment", "tuning")
    return said.partition("job ")[2].partition(":")[0]


def do(server: Server, *command: str) -> str:
    done = server.cli(*command, "-c", str(server.config))
    assert done.exit_code == 0, done.output
    return done.stdout


def job(server: Server, id_: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(do(server, "jobs", "show", id_, "--format", "json"))
    return found


def worker_of(server: Server) -> int:
    """The process id of the worker; 0 where there is none."""
    assert server.process is not None
    return next(filter(_is_worker, children(server.process.pid)), 0)


def _is_worker(pid: int) -> bool:
    try:
        return b"\0--role\0jobs\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def check_whole(server: Server, asked: Asked, id_: str, asked_before: int) -> None:
    """Check that every case is stored and told of once, and that only what was not stored was asked again."""
    runs = do(server, "experiments", "timeline", "tuning", "--format", "json").splitlines()
    assert [json.loads(run)["traces"] for run in runs] == [CASES]
    told = map(json.loads, do(server, "jobs", "show", id_, "--events").splitlines())
    results = sorted(event["case_id"] for event in told if event["event"] == "tool_eval_result")
    assert results == sorted(f"case-{number}" for number in range(1, CASES + 1))
    assert {*asked.prompts} == {f"Weather in city {number}?" for number in range(CASES)}
    again = len(asked.prompts) - CASES
    assert again <= 3 * 4, "more than what was under way, or waited to be stored"
    assert asked_before < CASES


@pytest.mark.parametrize("what", ["worker", "serve"])
def test_what_was_killed_amid_200_cases_goes_on(
    tmp_path: Path, asked: Asked, settings: dict[str, Any], what: str
) -> None:
    with served(tmp_path, **settings) as server:
        id_ = submitted(server, tmp_path)
        eventually(lambda: len(asked.prompts) > CASES // 4, "some cases")
        asked.pause.set()
        eventually(lambda: asked.under_way == 4, "requests under way")
        before = len(asked.prompts)
        worker = worker_of(server)
        if what == "worker":
            os.kill(worker, signal.SIGKILL)
            eventually(lambda: worker_of(server) not in (0, worker), "another worker")
        else:
            server.kill()
            eventually(lambda: not alive(worker), "the worker to end with its parent")
            assert job(server, id_)["state"] == "interrupted"
            server.start()
        asked.pause.clear()
        eventually(lambda: job(server, id_)["state"] == "done", "the job's end", every_s=0.3)
        check_whole(server, asked, id_, before)


def test_serve_stops_with_a_job_under_way_and_the_next_goes_on(
    tmp_path: Path, asked: Asked, settings: dict[str, Any]
) -> None:
    with served(tmp_path, **settings) as server:
        id_ = submitted(server, tmp_path)
        eventually(lambda: len(asked.prompts) > CASES // 4, "some cases")
        asked.pause.set()
        before = len(asked.prompts)
        assert server.stop() == 0
        assert job(server, id_)["state"] == "interrupted"
        asked.pause.clear()
        server.start()
        eventually(lambda: job(server, id_)["state"] == "done", "the job's end", every_s=0.3)
        check_whole(server, asked, id_, before)
    assert "Traceback" not in server.log


def test_a_job_is_cancelled_while_its_model_hangs(tmp_path: Path, asked: Asked, settings: dict[str, Any]) -> None:
    asked.pause.set()
    with served(tmp_path, **settings) as server:
        id_ = submitted(server, tmp_path)
        eventually(lambda: asked.under_way == 4, "requests under way")
        assert do(server, "jobs", "cancel", id_) == f"{id_}: cancelled\n"
        assert job(server, id_)["state"] == "cancelled"
        worker = worker_of(server)
        # Its connections to the model are closed: it no longer works for us.
        eventually(lambda: not _connections(worker, settings), "the requests to be broken off")
        asked.pause.clear()
        assert len(asked.prompts) == 4
        shown = server.cli("jobs", "show", id_, "--follow", "-c", str(server.config))
        assert shown.exit_code == 1


def _connections(pid: int, settings: dict[str, Any]) -> int:
    """How many connections a process has to the model server."""
    port = int(Path(settings["suites"]["models"]).read_text().partition("127.0.0.1:")[2].partition("/")[0])
    inodes = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    established = "01"
    return sum(
        f"socket:[{row[9]}]" in inodes and row[3] == established and int(row[2].partition(":")[2], 16) == port
        for row in rows
    )
