"""The build that runs: the version of a release, or the commit that it was made from.

A wheel and a source distribution carry it in the file ``build.txt``, which ``hatch_build.py`` writes. A checkout asks
git, at each start.
"""

import os
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_CARRIED = "build.txt"
# What a wheel is made of: a change of anything else changes nothing that runs.
_BUILT_FROM = ("processor", "rules", "pyproject.toml")
_GIT_TIMEOUT_S = 10


@cache
def build_version() -> str:
    """Such as ``0.2.0`` of a release, or ``0.2.0+g9f3c2b1a7d4e``, which is made from this commit.

    ``.dirty`` at the end says that the checkout had changes, ``+unknown`` that no commit could be found out.
    """
    carried = Path(__file__).with_name(_CARRIED)
    if carried.exists():
        return carried.read_text(encoding="utf-8").strip()
    try:
        released = version("tracegrade")
    except PackageNotFoundError:  # run from a folder that was never installed
        released = "0"
    return checkout_version(Path(__file__).parents[2], released)


def checkout_version(root: Path, released: str) -> str:
    """The version of what is built from the checkout at `root`, which may be none.

    Args:
        root: the folder with pyproject.toml.
        released: the version that pyproject.toml says. It is all of the answer where the commit has the tag
            ``v`` and this version, and the checkout has no changes.
    """
    try:
        # A folder within another project's checkout is not that project's commit.
        if Path(_git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return f"{released}+unknown"
        commit = _git(root, "rev-parse", "--short=12", "HEAD")
        tags = _git(root, "tag", "--points-at", "HEAD").split()
        changed = _git(root, "status", "--porcelain", "--", *_BUILT_FROM)
    except (OSError, subprocess.SubprocessError):
        return f"{released}+unknown"
    if changed:
        return f"{released}+g{commit}.dirty"
    return released if f"v{released}" in tags else f"{released}+g{commit}"


def _git(root: Path, *arguments: str) -> str:
    # A hook of git, which may run us, has variables that name another repository. Locks would write to the checkout.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=_GIT_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout.strip()
