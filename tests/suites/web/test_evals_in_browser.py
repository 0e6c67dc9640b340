"""The pages of evals in a real browser: they fit every width, and do what they do without the script."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from build.asgi import call
from build.browser import axe, browser
from build.site import Site, serving
from suites.build.scripted_models import write_models
from suites.build.suite_runs import SUITE, store_suite_runs
from tracegrade.config import Config
from tracegrade.history.runs.experiment_entries import report
from tracegrade.store.open import changing_store
from tracegrade.suites.jobs.submit import submit
from tracegrade.suites.jobs.suite_request import SuiteRequest
from tracegrade.suites.store.jobs import Job, claim, note, stored_jobs
from tracegrade.web.app import build_app

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PATHS = (
    "/evals",
    "/evals/new",
    "/experiments",
    "/experiments/weather",
    "/runs/weather/1",
    "/runs/weather/2",
    "/runs/weather/2?case=case-2",
    "/runs/weather/2?case=case-3",
    "/runs/weather/2?case=case-6",
)
LONG = "m-" + "x" * 120


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two runs of a suite, the job that wrote them, one that runs, and an experiment with reported entries."""
    folder: Path = tmp_path_factory.mktemp("evals")
    store_suite_runs(folder)
    models = write_models(folder, "http://127.0.0.1:9/v1", models=f"{{good: {{}}, odd: {{}}, {LONG}: {{}}}}")
    config = Config.model_validate({"data_dir": str(folder), "suites": {"models": str(models)}})
    with serving(folder, config=config) as served:
        body = json.dumps(SUITE).encode()
        made = call(build_app(served.sources), "POST", "/api/tool-eval/import", body, content_type="application/json")
        for name in (["one::good", "one::odd"], ["one::good", f"one::{LONG}"]):
            submit(config, "default", "", SuiteRequest(suite=made.json["id"], models=name, experiment="weather"))
        with served.store() as connection:
            second, first = stored_jobs(connection, "default")
        runs = ["weather/1", "weather/2"]
        _write(served, first, runs=runs, state="done", done=24, total=24, ended_ns=time.time_ns())
        _write(served, second, runs=runs[:1], done=7, total=24)
        report(served.store_url, "default", "weather", "param_tune", 0.9, {"prompt": "Be brief. " * 30})
        yield served


def _write(site: Site, job: Job, **changed: Any) -> None:
    now_ns = time.time_ns()
    with changing_store(site.store_url) as connection:
        assert claim(connection, job, "w", now_ns)
        assert note(connection, job, "w", now_ns, **changed)


def paths(site: Site) -> list[str]:
    with site.store() as connection:
        return [*PATHS, *(f"/evals/{job.id}" for job in stored_jobs(connection, "default"))]


@pytest.fixture(scope="module")
def chrome() -> "Iterator[Browser]":
    with browser() as started:
        yield started


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_every_page_fits_every_width(site: Site, chrome: "Browser", width: int) -> None:
    page = chrome.new_page(viewport={"width": width, "height": 900})
    for path in paths(site):
        page.goto(site.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    page.close()


def test_forms_work_without_the_script(site: Site, chrome: "Browser") -> None:
    context = chrome.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.url}/evals/new")
    page.locator('[name="model:one::good"]').check()
    page.get_by_role("button", name="Run eval").click()
    page.get_by_text("It waits for its turn").wait_for()
    refreshing = page.locator('head meta[http-equiv="refresh"]')
    assert refreshing.get_attribute("content") == "3"
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("cancelled").wait_for()
    assert page.locator('head meta[http-equiv="refresh"]').count() == 0
    page.get_by_text("Delete", exact=True).click()
    page.get_by_role("button", name="Delete this eval").click()
    page.wait_for_url("**/evals")
    context.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing(site: Site, chrome: "Browser", scheme: Any, width: int) -> None:
    script = axe()
    page = chrome.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    found = {}
    for path in paths(site):
        page.goto(site.url + path)
        page.evaluate("document.querySelectorAll('details').forEach(element => { element.open = true; })")
        page.evaluate(script)
        for item in page.evaluate("axe.run().then(results => results.violations)"):
            found[path, item["id"]] = [node["html"] for node in item["nodes"]][:3]
    page.close()
    assert found == {}
