"""Packages of others, installed into a folder, and an interpreter that finds them."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent


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
        timeout=60,
    )
