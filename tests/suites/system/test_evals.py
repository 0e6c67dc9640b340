"""A suite from an import by curl to models that are compared, in a real browser over a real ``serve``."""

import json
import os
import re
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from build.browser import browser
from build.served import Server, served
from suites.build.scripted_models import Answer, calling, prompt_of, serving, write_models
from suites.build.weather_suite import WEATHER_SUITE

pytestmark = pytest.mark.long

if TYPE_CHECKING:
    from playwright.sync_api import Page

TOKEN = "a-token-of-forty-characters-for-the-page"
# As the documentation of the suites' original has it; the address and the token are filled in.
CURL = """
curl -X POST -H "Authorization: Bearer $TOKEN" \\
  -H "Content-Type: application/json" \\
  -d @suite.json \\
  http://localhost:8501/api/tool-eval/import
"""
UNITS = 2 * 2 * 3  # cases, models, repetitions


class Models:
    """Answers each request once it is allowed; ``small`` writes the wrong units."""

    def __init__(self) -> None:
        self._allowed = threading.Semaphore(0)

    def allow(self, requests: int) -> None:
        self._allowed.release(requests)

    def __call__(self, body: dict[str, Any]) -> Answer:
        self._allowed.acquire()
        if "Paris" in prompt_of(body):
            return calling(("get_weather", {"city": "Paris"}))
        units = "fahrenheit" if body["model"] == "large" else "celsius"
        return calling(("get_weather", {"city": "Tokyo", "units": units}))


def imported(folder: Path, server: Server) -> Any:
    """What the import by curl answers."""
    (folder / "suite.json").write_text(json.dumps(WEATHER_SUITE))
    command = CURL.replace("localhost:8501", server.endpoints["web"].removeprefix("http://"))
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**os.environ, "TOKEN": TOKEN}, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def signed_in(page: "Page", address: str) -> None:
    page.goto(address)
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()


def stored(server: Server, *runs: str) -> list[str]:
    """What is stored of these runs: each result as often as it is."""
    return [line for run in runs for line in server.canonical("results", "list", "--run", run, "--limit", "100")]


def test_a_suite_is_imported_run_watched_cancelled_resumed_and_compared(tmp_path: Path) -> None:
    models = Models()
    (tmp_path / "tokens").write_text(f"{TOKEN}\n")
    with serving(models) as asked, browser() as chrome:
        file = write_models(tmp_path, asked.url, provider="cloud", models="{large: {}, small: {}}", at_a_time=1)
        web = {"endpoint": "127.0.0.1:0", "auth": {"token_file": str(tmp_path / "tokens")}}
        with served(tmp_path, web=web, suites={"models": str(file)}) as server:
            url = server.endpoints["web"]
            assert imported(tmp_path, server)["test_cases_created"] == 2
            page = chrome.new_page(viewport={"width": 1280, "height": 900})
            signed_in(page, f"{url}/evals/new")

            page.get_by_label("cloud::large").first.check()
            page.get_by_label("cloud::small").first.check()
            page.get_by_label("Runs of each case").fill("3")
            page.get_by_label("Experiment").fill("weather")
            page.get_by_role("button", name="Run eval").click()
            page.wait_for_url(re.compile(r"/evals/[0-9a-f]{12}$"))

            page.evaluate("window.unchanged = true")
            models.allow(4)
            page.locator(".progress .note", has_text=f"4 of {UNITS}").wait_for(timeout=600_000)
            row = page.locator("#cases tr", has_text="case-1")
            assert "3 pass" in row.inner_text()
            assert page.evaluate("window.unchanged")

            page.goto(f"{url}/evals")  # a browser that comes back finds it running
            assert "running" in page.locator("tbody tr").first.inner_text()
            page.get_by_role("link", name="Weather API Suite").click()
            page.evaluate("window.unchanged = true")
            page.get_by_role("button", name="Cancel").click()
            page.get_by_text("cancelled").wait_for()
            assert page.locator("main[data-live]").count() == 0
            before = len(asked.requests)
            assert before == 5  # four that were answered, and the one that was under way

            page.get_by_role("button", name="Go on").click()
            models.allow(100)
            page.get_by_text("✓ done").wait_for(timeout=600_000)
            assert page.locator(".progress .note", has_text=f"{UNITS} of {UNITS}").is_visible()
            assert page.locator("main[data-live]").count() == 0
            links = page.locator("#models tbody th a")
            of_large, of_small = (str(link.get_attribute("href")).removeprefix("/runs/") for link in links.all())
            assert len(stored(server, of_large, of_small)) == UNITS
            # What was stored was not asked again. A worker that has not seen yet that it is cancelled asks once more.
            assert len(asked.requests) - before in (UNITS - 4, UNITS - 3)

            large, small = page.locator("#models tbody tr").all_inner_texts()
            assert "1.0000" in large
            assert "baseline" in large
            assert "0.9000" in small
            assert "−0.1000" in small
            page.get_by_role("link", name="Compare the two models").click()
            page.get_by_role("heading", name="Compare", level=1).wait_for()
            assert "weather-api-suite" in page.locator("main").inner_text()
            page.goto(f"{url}/experiments/weather")
            said = page.locator("svg.deltas").get_attribute("aria-label")
            assert (said or "").startswith(f"Differences of 1 result from the baseline {of_large}, the least ")
            assert (said or "").endswith(" −0.1000")
            page.locator("#runs").get_by_role("link", name=of_small, exact=True).click()
            page.locator("#cases").get_by_role("link", name="case-2").click()
            diff = page.locator(".diff").first
            assert diff.locator("tr", has_text="units").locator("td").all_inner_texts() == ['"fahrenheit"', '"celsius"']
            page.get_by_text("What was said, in 1 request").first.click()
            assert page.get_by_text("Temperature in Tokyo in Fahrenheit").nth(1).is_visible()
        assert TOKEN not in server.log
