"""What docs/extend says, followed to the letter in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import ROOT, Change, Command, Shown, Write, steps

# Each copies the repository and runs its tests and checks there; .ci/run does.
pytestmark = pytest.mark.long

PAGES = sorted(path.name for path in (ROOT / "docs" / "extend").glob("*.md"))
# A module of a package, shown whole: its name, and its text.
PACKAGE = re.compile(r"`(\w+\.py)`, in a package of\syours?[^`]*?```python\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What of the repository a contributor needs for these changes."""
    folder = tmp_path_factory.mktemp("original")
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, folder)
    ignored = shutil.ignore_patterns("__pycache__", "system", "conformance", "upgrade", "pictures")
    for part in ("processor", "tests", "rules", "docs", "deploy", ".ci"):
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    for part in ("end_to_end", "bench"):  # a page has what a script of the second computes
        shutil.copytree(ROOT / "tests/system" / part, folder / "tests/system" / part, ignore=ignored)
    return folder


def run(line: str, folder: Path, **more: str) -> str:
    """What a command prints that succeeds in a copy of the repository."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder / "processor"),
        **more,
    }
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_what_the_page_adds_works(page: str, original: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    commands = 0
    for step in steps(f"extend/{page}"):
        match step:
            case Write() | Change():
                step.apply(copy)
            case Command():
                Shown().compare(step.shown, run(step.line, copy))
                commands += 1
    assert commands


def test_what_all_pages_add_passes_the_checks(original: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    typed = []
    for page in PAGES:
        for step in steps(f"extend/{page}"):
            if isinstance(step, Write | Change):
                step.apply(copy)
                typed += [step.path] if isinstance(step, Write) and step.path.startswith("processor/") else []
        for name, text in PACKAGE.findall((ROOT / "docs" / "extend" / page).read_text(encoding="utf-8")):
            (copy / name).write_text(text)
            typed.append(name)
    assert {"acme_tracing.py", "acme_evaluators.py", "same_value.py"} < set(typed)
    run("poe fix", copy)
    run(f"mypy --cache-dir {os.devnull} {' '.join(typed)}", copy)
    run("pytest -q -n 0 tests/test_docs.py tests/plugins -k 'documented or the_example_'", copy)
