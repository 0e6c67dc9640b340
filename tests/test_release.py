"""What a tag would start: the steps that are scripts, and the workflows as far as they can be read."""

import re
import runpy
from pathlib import Path
from typing import Any

import yaml

from build import each

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = runpy.run_path(str(ROOT / ".ci" / "release"))
CHANGELOG = """\
# Changelog

## Unreleased

### Added

- Not yet.

## 0.2.0 (2026-12-01)

### Added

- One thing.

## 0.1.0 (2026-11-01)

## 0.1.0rc1

- The first.
"""
CHART = "appVersion: 0.2.0\nversion: 0.7.0\n"


@each(
    ("version", "found"),
    [
        ("0.2.0", "### Added\n\n- One thing."),
        ("0.1.0rc1", "- The first."),
        ("0.1.0", None),
        ("0.3.0", None),
        ("0.2", None),
        ("0.2.00", None),
    ],
)
def test_notes_are_the_versions_own_section(version: str, found: str | None) -> None:
    assert RELEASE["notes"](version, CHANGELOG) == found


@each(
    ("tag", "version", "chart", "named"),
    [
        ("v0.2.0", "0.2.0", CHART, []),
        ("0.2.0", "0.2.0", CHART, ["pyproject.toml"]),
        ("v0.2.0", "0.2.1", CHART, ["pyproject.toml"]),
        ("v0.1.0", "0.1.0", CHART, ["CHANGELOG.md", "deploy/chart/Chart.yaml"]),
        ("v0.2.0", "0.2.0", "appVersion: 0.2.01\n", ["deploy/chart/Chart.yaml"]),
    ],
)
def test_a_tag_is_refused_by_each_file_that_says_something_else(
    tag: str, version: str, chart: str, named: list[str]
) -> None:
    found = RELEASE["disagreements"](tag, version, CHANGELOG, chart)
    assert [line.partition(":")[0] for line in found] == named


def _steps() -> list[tuple[str, dict[str, Any]]]:
    """Each step of each job, with where it is."""
    return [
        (f"{path.name}, {name}", step)
        for path in WORKFLOWS
        for name, job in yaml.safe_load(path.read_text())["jobs"].items()
        for step in job.get("steps", ())
    ]


def test_a_job_has_the_permissions_that_it_says_alone() -> None:
    assert {path.name for path in WORKFLOWS} == {"ci.yml", "release.yml"}
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {}
        for name, job in workflow["jobs"].items():
            assert "permissions" in job, f"{path.name}, {name}"
        for line in re.findall(r"^ +[a-z-]+: (?:read|write)\b.*$", path.read_text(), re.M):
            assert " # " in line, f"{path.name}: {line}: for what?"


def test_actions_are_pinned_by_the_hash_of_a_version_and_keep_no_token() -> None:
    for path in WORKFLOWS:
        for line in re.findall(r"^.*\buses: (?!\./).*$", path.read_text(), re.M):
            assert re.search(r"@[0-9a-f]{40} # v\d", line), f"{path.name}: {line}"
    for where, step in _steps():
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}, where


def test_no_workflow_names_the_address_of_a_registry() -> None:
    for path in WORKFLOWS:
        hosts = re.findall(r"\b[\w-]+\.(?:io|com|org|net|dev)\b(?:/|$)", path.read_text(), re.M)
        assert not hosts, path.name


def test_scripts_that_workflows_run_are_there_and_need_no_workflow() -> None:
    run = "\n".join(step.get("run", "") for _, step in _steps())
    named = set(re.findall(r"(?<![\w/])\.ci/\w+", run))
    assert named == {".ci/run", ".ci/release"}
    assert all((ROOT / name).stat().st_mode & 0o111 for name in named)
    assert ".ci/release build" in (ROOT / ".ci" / "run").read_text()


def test_nobody_is_told_to_install_what_is_not_released() -> None:
    readme = (ROOT / "README.md").read_text()
    if not re.search(r"^## \d", (ROOT / "CHANGELOG.md").read_text(), re.M):
        assert not re.search(r"pip install '?tracegrade", readme)
