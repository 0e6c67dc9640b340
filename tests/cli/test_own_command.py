"""What people are told to type is what they typed to get here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import WITHIN_S

PROGRAM = "#!{}\nfrom tracegrade.cli.process import own_command\nprint(own_command())\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script that says how it was called; in a folder whose name a shell would take apart."""
    file = tmp_path / "a bin" / "tracegrade"
    file.parent.mkdir()
    file.write_text(PROGRAM.format(sys.executable))
    file.chmod(0o755)
    return file


def said(*command: str, path: str, cwd: Path | None = None) -> str:
    environment = {**os.environ, "PATH": path}
    # By a shell, which looks names up as it does for people.
    return subprocess.run(
        ["/bin/sh", "-c", '"$@"', "sh", *command],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
        timeout=WITHIN_S,
    ).stdout.strip()


def test_a_name_that_the_shell_finds_stays_a_name(script: Path) -> None:
    assert said("tracegrade", path=str(script.parent)) == "tracegrade"


def test_a_script_that_is_not_on_the_path_is_called_by_its_place(script: Path, tmp_path: Path) -> None:
    assert said(str(script), path="/nowhere") == f"'{script}'"
    assert said("./tracegrade", path="/nowhere", cwd=script.parent) == "./tracegrade"


def test_a_script_hidden_by_another_of_its_name_is_called_by_its_place(script: Path, tmp_path: Path) -> None:
    other = tmp_path / "tracegrade"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert said(str(script), path=f"{tmp_path}:{script.parent}") == f"'{script}'"
    assert said(str(script), path=f"{script.parent}:{tmp_path}") == "tracegrade"


def test_a_module_is_called_by_its_interpreter(tmp_path: Path) -> None:
    (tmp_path / "tracegrade_like").mkdir()
    (tmp_path / "tracegrade_like" / "__main__.py").write_text(PROGRAM.format("").partition("\n")[2])
    found = said(sys.executable, "-m", "tracegrade_like", path="/nowhere", cwd=tmp_path)
    assert found == f"{sys.executable} -m tracegrade"
