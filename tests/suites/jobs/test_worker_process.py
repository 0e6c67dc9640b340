"""Workers as processes of their own, one of which is killed."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from suites.build.jobs import Place, Placed, right
from suites.build.scripted_models import Answer
from waiting import WITHIN_S, eventually


@contextmanager
def worker(place: Place) -> "Iterator[subprocess.Popen[bytes]]":
    """``serve --role jobs``, killed at the end."""
    command = [sys.executable, "-m", "tracegrade", "serve", "--role", "jobs", "-c", str(place.write_settings())]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.long
def test_a_killed_worker_is_followed_by_the_one_that_waits(place: Placed) -> None:
    goes_on, asked = threading.Event(), []

    def pausing(body: dict[str, Any]) -> Answer:
        asked.append(body)
        assert len(asked) <= 50 or goes_on.wait(WITHIN_S)
        return right(body)

    here = place(pausing, cases=200, at_a_time=4)
    job = here.submit()
    with worker(here) as first, worker(here) as second:
        eventually(lambda: len(asked) == 54, "requests under way")
        working = here.job(job.id).worker.split("/")[1]
        killed = first if int(working) == first.pid else second
        killed.kill()
        goes_on.set()
        here.until(job.id, "done")
    assert len(here.trace_ids()) == len({*here.prompts()}) == 200
    assert len(here.prompts()) - 200 <= 3 * 4
    results = [event.fields["case_id"] for event in here.events(job.id, "tool_eval_result")]
    assert sorted(results) == sorted(f"case-{number}" for number in range(1, 201))
