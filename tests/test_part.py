"""Without the folder of a part, the rest works, and what was asked of the part is refused by name."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from sqlalchemy import inspect

from build import store_with
from build.without_parts import of_all_parts, product_without
from tracegrade.part import PARTS, missing, parts, placed
from tracegrade.store.open import open_store
from tracegrade.store.schema import tables_of_parts

_TESTS = Path(__file__).parent
_DEMO = _TESTS.parent / "rules" / "demo" / "order-not-confirmed"
_LINKED = re.compile(r'(?:href|action)="([^"?#]+)')

_ASKED = """
import json, sys
from pathlib import Path
from click.testing import CliRunner
from sqlalchemy import inspect
from build.asgi import call
from build.site import Site
from tracegrade.cli import main
from tracegrade.config import Config
from tracegrade.rule.load import load_rules
from tracegrade.store.open import open_store
from tracegrade.web.app import build_app

asked = json.load(sys.stdin)
config = Config(data_dir=sys.argv[1])
store = open_store(config.store_url)
answer = {"tables": inspect(store).get_table_names(), "commands": {}, "pages": {}}
for line in asked["commands"]:
    ran = CliRunner().invoke(main, line.split())
    answer["commands"][line] = [ran.exit_code, ran.output]
app = build_app(Site(config.store_url, load_rules(["builtin:demo"]), config).sources)
for line in asked["pages"]:
    method, address = line.split()
    answered = call(app, method, address)
    answer["pages"][line] = [answered.status, answered.body.decode()]
json.dump(answer, sys.stdout)
store.dispose()
"""

_REFUSED = {
    "compare": (
        "compare live shop/1",
        "gate live",
        "baseline list",
        "check -- true",
        "rules backtest rules",
        "replay traces.json --rules builtin:demo --compare live",
        "replay traces.json --rules builtin:demo --baseline main",
        "replay traces.json --rules gated",
    ),
    "suites": (
        "suite list",
        "suite run weather --model m",
        "jobs list",
        "rules import suite.json",
        "rules export some-rule",
        "promote 00 --suite weather",
        "experiments delete shop --keep-runs --yes",
        "config check suites.yaml",
    ),
}
"""Command lines that need a part."""

_GONE = {
    "compare": (
        "GET /compare",
        "GET /compare/traces",
        "POST /rules/order-not-confirmed/backtest",
        "GET /api/v1/compare",
        "POST /api/v1/backtests",
    ),
    "suites": (
        "GET /suites",
        "GET /suites/new",
        "POST /suites/new",
        "GET /evals",
        "GET /evals/new",
        "GET /ws",
        "GET /api/tool-suites",
        "GET /api/openapi.json",
        "GET /api/v1/jobs",
        "GET /api/v1/jobs/events",
    ),
}
"""Addresses of a part."""

_LEFT = (
    "--version",
    "--help",
    "rules --help",
    "rules check builtin:demo",
    "replay traces.json --rules builtin:demo --experiment shop --run one",
    "replay traces.json --rules builtin:demo --experiment shop --run two --fail-under low=0 --min-results 1",
    "experiments list",
    "experiments show shop",
    "config check own.yaml",
)
_SHOWN = (
    "GET /",
    "GET /rules",
    "GET /rules/order-not-confirmed",
    "GET /experiments",
    "GET /experiments/shop",
    "GET /runs/two",
    "GET /api/v1/openapi.json",
)
"""Pages of the core; those of a rule and of runs have links and forms of parts."""


def _without(folder: Path, *names: str, commands: Iterable[str], pages: Iterable[str]) -> dict[str, Any]:
    """What commands and pages answer where parts of these `names` are not there, over a new store in `folder`."""
    root = product_without(folder / "product", *names)
    (folder / "suites.yaml").write_text("suites: {jobs: {at_a_time: 2}}\n")
    (folder / "own.yaml").write_text("data_dir: data\n")
    copy(_DEMO / "traces" / "order_confirmed.json", folder / "traces.json")
    (folder / "gated").mkdir()
    text = (_DEMO / "rule.yaml").read_text()
    (folder / "gated" / "rule.yaml").write_text(f"{text}gate: {{not_worse_than: baseline}}\n")
    done = subprocess.run(
        [sys.executable, "-c", _ASKED, str(folder / "tracegrade-data")],
        input=json.dumps({"commands": [*commands], "pages": [*pages]}),
        env=os.environ | {"PYTHONPATH": os.pathsep.join([root, str(_TESTS)])},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@of_all_parts
@pytest.mark.parametrize("names", [("compare",), ("suites",), ("compare", "suites")], ids=" and ".join)
def test_without_parts_the_rest_works_and_a_store_gets_their_tables_once_they_are_back(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    """Commands and settings of a part are refused by its name, its addresses answer 404."""
    refused = {line: name for name in names for line in _REFUSED[name]}
    gone = [line for name in names for line in _GONE[name]]
    found = _without(tmp_path, *names, commands=[*_LEFT, *refused], pages=[*_SHOWN, *gone])

    for line in _LEFT:
        assert found["commands"][line][0] == 0, found["commands"][line][1]
    for line, name in refused.items():
        exit_code, output = found["commands"][line]
        assert exit_code == 2, (line, output)
        assert f'needs the part "{name}"' in output, (line, output)
    lacking = [part for part in parts() if part.name in names]
    shown = [line.split()[0] for line in found["commands"]["--help"][1].splitlines() if line.startswith("  ")]
    assert "serve" in shown
    assert not {command.path for part in lacking for command in part.commands} & set(shown)

    assert {line: found["pages"][line][0] for line in gone} == dict.fromkeys(gone, 404)
    assert {line: found["pages"][line][0] for line in _SHOWN} == dict.fromkeys(_SHOWN, 200)
    linked = {address for line in _SHOWN for address in _LINKED.findall(found["pages"][line][1])}
    ways_out = {address.strip("/").split("/")[0] for address in linked}
    assert not {section.address.strip("/") for part in lacking for section in part.sections} & ways_out
    assert ("/rules/order-not-confirmed/backtest" in linked) == ("compare" not in names)
    paths = json.loads(found["pages"]["GET /api/v1/openapi.json"][1])["paths"]
    addresses = {line.split()[1].removeprefix("/api/v1") for line in gone if "/api/v1" in line}
    assert paths
    assert not addresses & set(paths)

    own = {table.name for table in tables_of_parts()}
    assert "traces" in found["tables"]
    assert bool(own & set(found["tables"])) == ("suites" not in names), "only suites have tables"
    store = open_store(store_with(tmp_path / "tracegrade-data"))
    assert own <= set(inspect(store).get_table_names())
    store.dispose()


def test_every_part_is_there_and_its_commands_and_settings_are_named_for_when_it_is_not() -> None:
    named = {one.name: one for one in PARTS}
    for part in parts():
        assert set(named[part.name].commands) == {command.path for command in part.commands}
        assert set(named[part.name].settings) == {section.name for section in part.settings}
        assert missing(command=part.commands[0].path) is None


def test_what_parts_add_follows_what_they_name() -> None:
    assert list(placed({"a": 1, "b": 2}, [("c", "a", 3), ("d", "c", 4)])) == ["a", "c", "d", "b"]
