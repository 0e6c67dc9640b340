"""Pictures of every view, to look at, and those that the README and the guides show.

    python tests/web/screenshots.py FOLDER      every view, 400 and 1280 pixels wide, light and dark; --only NAME: some
    python tests/web/screenshots.py --readme    those in tests/web/pictures

Needs playwright and Chromium, as tests/web/test_browser.py does.
"""

import argparse
import itertools
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from build.browser import browser
from build.shop import HOUR, SECOND, WRONG_QUANTITY, crawl, fill, order, traffic
from build.shop_incidents import fall, over, store, store_waiting
from build.shop_runs import store_experiments
from build.site import Site, serving
from suites.build.suite_runs import store_suite_runs
from tracegrade.alert.noting import Author, acknowledge, comment, own
from tracegrade.model.session import session_trace_id
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.files import sqlite_url
from tracegrade.suites.keeping import add_suite
from tracegrade.suites.web.api.suites import EXAMPLE

_TRACES = 3000
_FAILING, _LONG = 900_001, 900_002


def main() -> None:
    """Make the shop's traffic of a day, and take the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--readme", action="store_true")
    parser.add_argument("--only", default="", help="only views whose names begin so")
    options = parser.parse_args()
    if options.readme == (options.folder is not None):
        parser.error("expected a folder, or --readme")
    with tempfile.TemporaryDirectory() as data, serving(Path(data), *_rules()) as site:
        views = _filled(Path(data), one_incident=options.readme)
        if options.readme:
            chosen = {name: views[name] for name in ("overview", "trace", "incident")}
            _take(site, Path(__file__).with_name("pictures"), chosen)
        else:
            options.folder.mkdir(parents=True, exist_ok=True)
            views = {name: address for name, address in views.items() if name.startswith(options.only)}
            for width, scheme in itertools.product((400, 1280), ("light", "dark")):
                _take(site, options.folder, views, width=width, scheme=scheme, suffix=f"-{width}-{scheme}")


def _rules() -> list[str]:
    return [str(Path(__file__).with_name("rules"))]


def _filled(folder: Path, one_incident: bool) -> dict[str, str]:
    """Fill the store. Returns the addresses of all views by name."""
    now_ns = time.time_ns()
    some = [
        (order(_FAILING, now_ns - 100 * SECOND, "1.5.0", WRONG_QUANTITY), None),
        (crawl(_LONG, now_ns - 90 * SECOND, 1000), None),
    ]
    rules = fill(folder, itertools.chain(traffic(_TRACES, now_ns - 60 * SECOND, 30.0), some))
    store_waiting(folder, now_ns)
    store_experiments(folder, rules, now_ns)
    store_suite_runs(folder)
    example = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    suite = f"/suites/{add_suite(sqlite_url(folder), 'default', example, now_ns).suite.id}"
    suites = {"suite": suite, "suite-edit": f"{suite}/edit", "suite-case": f"{suite}/cases/tower"}
    incidents = {
        name: store(folder, members, silenced=name == "incident-many").id
        for name, members in _incidents(rules, now_ns).items()
        if name == "incident" or not one_incident
    }
    if not one_incident:
        _act(sqlite_url(folder), incidents["incident-bound"], now_ns)
    silences = {
        "silence": f"/silences/new?incident={incidents['incident']}",
        "silence-new": "/silences/new?rule=x",
        "suites-from-traces": f"/suites/from-traces?trace_id=a1{_FAILING:030x}&rule=order-steps-out-of-order",
    }
    return _views() | suites | silences | {name: f"/incidents/{id_}" for name, id_ in incidents.items()}


def _act(url: str, incident_id: str, now_ns: int) -> None:
    """What people do about an incident."""
    ann, bob = (Author(name, None, *[lambda text, tenant: text] * 2) for name in ("user: ann@shop.example", "on-call"))
    acknowledge(url, incident_id, bob, now_ns - 40 * 60 * SECOND)
    own(url, incident_id, ann, now_ns - 30 * 60 * SECOND)
    said = "The stock service holds a lock since 1.5.0.\nRolling back; see OPS-41."
    comment(url, incident_id, ann, said, now_ns - 20 * 60 * SECOND)


def _incidents(rules: RuleSet, now_ns: int) -> dict[str, list[StoredAlert]]:
    """One with several alerts, one that is over, one against a bound alone, and one with a hundred alerts."""
    fell = fall(rules, now_ns, 9.0)
    many = [replace(fell[number % 3], agent=f"agent-{number}" if number else "order-agent") for number in range(100)]
    found = {
        "incident": fell,
        "incident-over": [over(alert, now_ns - 3 * HOUR) for alert in fell],
        "incident-bound": fell[1:2],
        "incident-many": many,
    }
    return {
        name: [replace(alert, fingerprint=f"{place:016x}{number:016x}") for number, alert in enumerate(members)]
        for place, (name, members) in enumerate(found.items())
    }


def _views() -> dict[str, str]:
    return {
        "overview": "/",
        "empty": "/?agent=nobody",
        "traces": "/traces?outcome=fail",
        "trace": f"/traces/a1{_FAILING:030x}",
        "long": f"/traces/a1{_LONG:030x}",
        "span": f"/traces/a1{_FAILING:030x}/spans/{(_FAILING << 20) + 3:016x}",
        "traces-sorted": "/traces?sort=duration&service=shop&columns=agent,release,prompt,duration",
        "find": "/find?q=order",
        "sessions": "/sessions",
        "session": f"/sessions/{session_trace_id('default', 'conversation-3').hex()}",
        "rules": "/rules",
        "rule": "/rules/order-steps-out-of-order",
        "suites": "/suites",
        "suites-new": "/suites/new",
        "suites-import": "/suites/import",
        "suites-import-mcp": "/suites/import-mcp",
        "evals": "/evals",
        "eval-run": "/runs/weather/2",
        "eval-case": "/runs/weather/2?case=case-2",
        "eval-case-turns": "/runs/weather/2?case=case-6",
        "eval-experiment": "/experiments/weather",
        "experiments": "/experiments",
        "experiment": "/experiments/prompts",
        "experiment-one-run": "/experiments/smaller-model",
        "experiment-no-run": "/experiments/emptied",
        "run": "/runs/prompts/8",
        "run-traces": "/traces?run=prompts/8&outcome=fail",
        "compare-form": "/compare",
        "compare-better": "/compare?a=prompts/1&b=prompts/12&full=1",
        "compare-worse": "/compare?a=prompts/10&b=prompts/1&full=1",
        "compare-releases": "/compare?a=release:1.4.2&b=release:1.5.0",
        "compare-traces": f"/compare/traces?a=a1{8:030x}&b=a1{8:030x}&run_a=prompts/2&run_b=prompts/12",
        "compare-not": "/compare?a=model:x&b=live",
        "alerts": "/alerts",
        "ingest": "/ingest",
        "error": "/nowhere",
    }


def _take(
    site: Site, folder: Path, views: dict[str, str], *, width: int = 1280, scheme: str = "light", suffix: str = ""
) -> None:
    folder.mkdir(exist_ok=True)
    with browser() as started:
        for name, address in views.items():
            page = started.new_page(viewport={"width": width, "height": 720}, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(site.url + address)
            page.screenshot(path=folder / f"{name}{suffix}.png", full_page=bool(suffix))
            page.close()


if __name__ == "__main__":
    main()
