"""The build that runs: of a checkout it is the commit, and what is built from one carries it."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import tracegrade.build as module
from tracegrade.build import build_version, checkout_version
from tracegrade.cli import main

ROOT = Path(__file__).parents[1]

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(root: Path, *arguments: str) -> str:
    who = [
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.com",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "tag.gpgsign=false",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(root), *who, *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with what says which build it is, and little else."""
    root = tmp_path / "checkout"
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "processor/tracegrade/build.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "processor/tracegrade/__init__.py").touch()
    (root / "rules").mkdir()
    (root / "rules/rule.yaml").touch()
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "all")
    return root


def commit_of(root: Path) -> str:
    return f"g{git(root, 'rev-parse', '--short=12', 'HEAD')}"


@needs_git
def test_a_checkout_is_its_commit_and_says_that_it_has_changes(checkout: Path) -> None:
    assert checkout_version(checkout, "0.2.0") == f"0.2.0+{commit_of(checkout)}"
    (checkout / "notes.md").touch()
    assert checkout_version(checkout, "0.2.0") == f"0.2.0+{commit_of(checkout)}", "nothing of it runs"
    (checkout / "processor/tracegrade/new.py").touch()
    assert checkout_version(checkout, "0.2.0") == f"0.2.0+{commit_of(checkout)}.dirty"


@needs_git
def test_a_release_is_the_commit_with_its_tag(checkout: Path) -> None:
    git(checkout, "tag", "v0.2.0")
    assert checkout_version(checkout, "0.2.0") == "0.2.0"
    assert checkout_version(checkout, "0.3.0") == f"0.3.0+{commit_of(checkout)}"
    (checkout / "rules/rule.yaml").write_text("id: x\n")
    assert checkout_version(checkout, "0.2.0") == f"0.2.0+{commit_of(checkout)}.dirty"


@needs_git
def test_what_is_no_checkout_of_ours_has_no_commit(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checkout_version(checkout / "processor", "0.2.0") == "0.2.0+unknown", "a folder in another's repository"
    assert checkout_version(checkout.parent, "0.2.0") == "0.2.0+unknown", "no repository"
    monkeypatch.setenv("GIT_DIR", str(checkout / ".git"))  # as in a hook
    assert checkout_version(checkout.parent, "0.2.0") == "0.2.0+unknown"


def test_where_git_is_missing_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checkout_version(ROOT, "0.2.0") == "0.2.0+unknown"


@needs_git
def test_wheel_and_source_distribution_carry_what_they_were_built_from(checkout: Path, tmp_path: Path) -> None:
    def build(root: Path, kind: str) -> Path:
        folder = tmp_path / f"{kind} of {root.name}"
        command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
        subprocess.run(command, cwd=root, check=True, capture_output=True)
        (built,) = folder.iterdir()
        return built

    def carried_by(wheel: Path) -> str:
        return zipfile.ZipFile(wheel).read("tracegrade/build.txt").decode().strip()

    expected = checkout_version(checkout, "0.1.0")
    assert carried_by(build(checkout, "wheel")) == expected
    with tarfile.open(build(checkout, "sdist")) as archive:
        # Later versions warn where no filter is named, and 3.11.2 knows none.
        archive.extractall(tmp_path / "unpacked", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (source,) = (tmp_path / "unpacked").iterdir()
    assert carried_by(build(source, "wheel")) == expected, "a wheel from the source distribution, which has no git"


def test_the_command_says_what_the_package_carries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "build.txt").write_text("0.2.0+g9f3c2b1a7d4e\n")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "build.py"))
    build_version.cache_clear()
    try:
        assert CliRunner().invoke(main, ["--version"]).output == "tracegrade 0.2.0+g9f3c2b1a7d4e\n"
    finally:
        build_version.cache_clear()
