"""What docs/extend says, followed to the letter in a copy of the repository."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import ROOT, Change, Command, Shown, Write, steps

PAGES = sorted(path.name for path in (ROOT / "docs" / "extend").glob("*.md"))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What of the repository a contributor needs for these changes."""
    folder = tmp_path_factory.mktemp("original")
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "README.md").touch()
    ignored = shutil.ignore_patterns("__pycache__", "system", "conformance", "upgrade", "pictures")
    for part in ("processor", "tests", "rules"):
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    shutil.copytree(ROOT / "tests/system/end_to_end", folder / "tests/system/end_to_end")
    (folder / "docs").mkdir()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_what_the_page_adds_works(page: str, original: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(copy / "processor"),
    }
    commands = 0
    for step in steps(f"extend/{page}"):
        match step:
            case Write() | Change():
                step.apply(copy)
            case Command():
                done = subprocess.run(
                    ["sh", "-c", step.line],
                    cwd=copy,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=100,
                    check=False,
                )
                assert done.returncode == 0, done.stdout
                Shown().compare(step.shown, done.stdout)
                commands += 1
    assert commands
