"""What is inside the package that people install."""

import importlib.metadata
import tomllib
from pathlib import Path

import tracegrade
from tracegrade.rule.load import builtin_rules

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_the_projects() -> None:
    assert importlib.metadata.version("tracegrade") == PROJECT["project"]["version"]


def test_types_are_published() -> None:
    assert Path(tracegrade.__file__).with_name("py.typed").exists()


def test_ready_made_rules_come_with_their_tests_and_traces() -> None:
    for rule in builtin_rules().rglob("rule.yaml"):
        assert rule.with_name("tests.yaml").exists()
        assert list((rule.parent / "traces").iterdir())


def test_the_wheel_takes_the_package_and_the_rules_and_nothing_else() -> None:
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["only-include"] == ["processor/tracegrade", "rules"]
    assert wheel["sources"] == {"processor/tracegrade": "tracegrade", "rules": "tracegrade/rules"}


def test_the_source_distribution_takes_all_that_its_tests_read() -> None:
    included = set(PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"])
    assert {"processor", "rules", "tests", "deploy", "docs"} <= included


def test_no_line_of_the_dependencies_names_a_place() -> None:
    project = PROJECT["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    assert not [line for line in lines if "://" in line or "@" in line]


def test_the_page_finds_its_templates_and_static_files_beside_its_code() -> None:
    web = Path(tracegrade.__file__).with_name("web")
    assert {path.suffix for path in (web / "templates").iterdir()} == {".html"}
    assert {path.suffix for path in (web / "static").iterdir()} == {".css", ".js", ".svg"}
