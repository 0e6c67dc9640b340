"""Packages of others, installed into a folder, and an interpreter that finds them: another one, or this one."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple


def install(folder: Path, package: str, version: str, source: str, group: str, entry_point: str) -> None:
    """What pip leaves of a package with one module, named after it, and one entry point."""
    module = package.replace("-", "_")
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry_point}\n")
    (folder / f"{module}.py").write_text(dedent(source))


def run(folder: Path, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Python with these arguments and what is installed in `folder`."""
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


class Ran(NamedTuple):
    """What a command ended with and printed."""

    exit_code: int
    stdout: str
    stderr: str


_COMMANDS = """
import json, sys
from click.testing import CliRunner
from tracegrade.cli import main
for line in sys.stdin:
    ran = CliRunner().invoke(main, line.split())
    print(json.dumps([ran.exit_code, ran.stdout, ran.stderr]))
"""


def run_commands(folder: Path, *commands: str) -> list[Ran]:
    """Commands of TraceGrade, one after another in one interpreter that finds what is installed in `folder`."""
    done = run(folder, "-c", _COMMANDS, stdin="".join(f"{command}\n" for command in commands))
    assert done.returncode == 0, done.stderr
    return [Ran(*json.loads(line)) for line in done.stdout.splitlines()]


@contextmanager
def found_here(folder: Path) -> Iterator[None]:
    """This interpreter finds what is installed in `folder`, and forgets it: for packages that never come into force."""
    loaded = set(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for module in folder.glob("*.py"):
            if module.stem not in loaded:
                sys.modules.pop(module.stem, None)
