"""A store with a suite, a file of models at a scripted server, and jobs that are run over it."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select

from suites.build.scripted_models import Answer, Script, Server, calling, prompt_of, serving, write_models
from tracegrade.config import Config
from tracegrade.store.documents import new_id
from tracegrade.store.open import one_at_a_time, reading
from tracegrade.store.runs import Run, stored_runs
from tracegrade.store.schema import traces
from tracegrade.suites.jobs.submit import submit
from tracegrade.suites.jobs.suite_request import suite_request
from tracegrade.suites.jobs.worker import Worker
from tracegrade.suites.store.jobs import Event, Job, events_after, stored_job
from tracegrade.suites.store.suites import StoredCase, StoredSuite, save_suite
from waiting import WITHIN_S, eventually

WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def right(body: dict[str, Any]) -> Answer:
    return calling(("get_weather", {"city": prompt_of(body).removeprefix("Weather in ").removesuffix("?")}))


def weather(cases: int, tenant: str = "default") -> StoredSuite:
    """A suite with so many cases, each of which the model of `right` passes."""
    bodies = [
        {
            "prompt": f"Weather in city {number}?",
            "expected_tool": "get_weather",
            "expected_params": {"city": f"city {number}"},
        }
        for number in range(1, cases + 1)
    ]
    stored = [StoredCase(f"case-{number}", body) for number, body in enumerate(bodies, 1)]
    return StoredSuite(
        tenant=tenant, id=new_id(), name="Weather", tools=[WEATHER], cases=stored, created_ns=1, updated_ns=1
    )


class Place:
    """One store and the settings of it."""

    def __init__(self, folder: Path, engine: Engine, server: Server, cases: int = 3, **more: Any) -> None:
        self.folder = folder
        self.engine = engine
        self.server = server
        self.models = write_models(folder, server.url, **{"attempts": 1, "models": "{m-1: {}, m-2: {}}", **more})
        self.url = engine.url.render_as_string(hide_password=False)
        self.config = self.config_with()
        self.suite = self.save(weather(cases))

    def config_with(self, **jobs: int) -> Config:
        return Config.model_validate(self._document(**jobs))

    def write_settings(self) -> Path:
        """The path of a file with the settings."""
        path = self.folder / "settings.yaml"
        path.write_text(json.dumps(self._document()))
        return path

    def _document(self, **jobs: int) -> dict[str, Any]:
        suites = {"models": str(self.models), "jobs": jobs}
        telemetry = {"endpoint": "127.0.0.1:0"}
        return {
            "data_dir": str(self.folder / "data"),
            "store": {"url": self.url},
            "suites": suites,
            "telemetry": telemetry,
        }

    def suite_of(self, tenant: str) -> StoredSuite:
        return weather(3, tenant)

    def save(self, suite: StoredSuite) -> StoredSuite:
        with self.engine.begin() as connection:
            one_at_a_time(connection)
            save_suite(connection, suite)
        return suite

    def submit(self, *models: str, tenant: str = "default", owner: str = "", **more: Any) -> Job:
        asked = {"suite": self.suite.id, "models": [*(models or ("one::m-1",))], **more}
        return self.submit_as(asked, tenant, owner)

    def submit_as(self, asked: dict[str, Any], tenant: str = "default", owner: str = "") -> Job:
        return submit(self.config, tenant, owner, suite_request(asked))

    def job(self, id_: str, tenant: str = "default") -> Job:
        with reading(self.engine) as connection:
            found = stored_job(connection, tenant, id_)
        assert found is not None
        return found

    def events(self, id_: str, name: str | None = None) -> list[Event]:
        with reading(self.engine) as connection:
            found = events_after(connection, "default", id_, 0, 100_000)
        return [event for event in found if name in (None, event.name)]

    def runs(self) -> list[Run]:
        with reading(self.engine) as connection:
            return stored_runs(connection, "default")

    def trace_ids(self) -> list[bytes]:
        with reading(self.engine) as connection:
            return list(connection.execute(select(traces.c.trace_id)).scalars())

    def prompts(self) -> list[str]:
        """What was asked, in order."""
        return [prompt_of(body) for body in self.server.requests]

    @contextmanager
    def working(self, **jobs: int) -> Iterator[Worker]:
        """A worker in a thread of this process."""
        worker = Worker(self.config_with(**jobs), ends_when_idle=False)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield worker
        finally:
            worker.stop()
            thread.join(WITHIN_S)
            assert not thread.is_alive()

    def until(self, id_: str, *states: str) -> Job:
        """The job once it is in one of these states."""
        return eventually(lambda: job if (job := self.job(id_)).state in states else None, f"job {id_} to be {states}")


@contextmanager
def placed(folder: Path, engine: Engine, script: Script = right, **more: Any) -> Iterator[Place]:
    with serving(script) as server:
        yield Place(folder, engine, server, **more)


Placed = Callable[..., Place]
