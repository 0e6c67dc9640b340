"""Without the folder of a part, the rest works, and what was asked of the part is refused by name."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect

from build import store_with
from build.without_parts import product_without
from tracegrade.part import PARTS, missing, parts, placed
from tracegrade.store.open import open_store
from tracegrade.store.schema import tables_of_parts

_TESTS = Path(__file__).parent

_ASKED = """
import json, sys
from pathlib import Path
from click.testing import CliRunner
from sqlalchemy import inspect
from build.asgi import call
from build.site import Site
from tracegrade.cli import main
from tracegrade.config import Config
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.open import open_store
from tracegrade.web.app import build_app

asked = json.load(sys.stdin)
config = Config(data_dir=sys.argv[1])
store = open_store(config.store_url)
answer = {"tables": inspect(store).get_table_names(), "commands": {}, "pages": {}}
for line in asked["commands"]:
    ran = CliRunner().invoke(main, line.split())
    answer["commands"][line] = [ran.exit_code, ran.output]
app = build_app(Site(config.store_url, RuleSet([]), config).sources)
for line in asked["pages"]:
    method, address = line.split()
    answered = call(app, method, address)
    answer["pages"][line] = [answered.status, answered.body.decode()]
json.dump(answer, sys.stdout)
store.dispose()
"""

_REFUSED = {
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

_LEFT = ("--version", "--help", "rules --help", "rules check builtin:demo", "experiments list", "config check own.yaml")


def _without(folder: Path, name: str, *, commands: tuple[str, ...], pages: tuple[str, ...]) -> dict[str, Any]:
    """What commands and pages answer where the part `name` is not there, over a new store in `folder`."""
    root = product_without(folder / "product", name)
    (folder / "suites.yaml").write_text("suites: {jobs: {at_a_time: 2}}\n")
    (folder / "own.yaml").write_text("data_dir: data\n")
    done = subprocess.run(
        [sys.executable, "-c", _ASKED, str(folder / "tracegrade-data")],
        input=json.dumps({"commands": commands, "pages": pages}),
        env=os.environ | {"PYTHONPATH": os.pathsep.join([root, str(_TESTS)])},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("name", _GONE)
def test_without_a_part_the_rest_works_and_a_store_gets_its_tables_once_it_is_back(tmp_path: Path, name: str) -> None:
    """Commands and settings of the part are refused by its name, its addresses answer 404."""
    pages = ("GET /", "GET /rules", "GET /experiments", "GET /api/v1/openapi.json", *_GONE[name])
    found = _without(tmp_path, name, commands=_LEFT + _REFUSED[name], pages=pages)

    for line in _LEFT:
        assert found["commands"][line][0] == 0, found["commands"][line][1]
    for line in _REFUSED[name]:
        exit_code, output = found["commands"][line]
        assert exit_code == 2, (line, output)
        assert f'needs the part "{name}"' in output, (line, output)
    (part,) = (part for part in parts() if part.name == name)
    shown = [line.split()[0] for line in found["commands"]["--help"][1].partition("Commands:\n")[2].splitlines()]
    assert shown
    assert not {command.path for command in part.commands} & set(shown)

    assert {line: status for line, (status, _) in found["pages"].items() if line in _GONE[name]} == dict.fromkeys(
        _GONE[name], 404
    )
    assert {found["pages"][line][0] for line in pages[:4]} == {200}
    for section in part.sections:
        assert f'href="{section.address}"' not in found["pages"]["GET /"][1]
    paths = json.loads(found["pages"]["GET /api/v1/openapi.json"][1])["paths"]
    addresses = {line.split()[1].removeprefix("/api/v1") for line in _GONE[name] if "/api/v1" in line}
    assert paths
    assert not addresses & set(paths)

    own = {table.name for table in tables_of_parts()}
    assert "traces" in found["tables"]
    assert not own & set(found["tables"])
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
