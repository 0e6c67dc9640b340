"""The git revision of a folder, where there is one."""

import subprocess
from pathlib import Path

_TIMEOUT_S = 10
# The whole hash even where a tag names it, and a mark when files differ from it.
_COMMAND = ("git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def git_revision(folder: Path) -> str | None:
    """The revision checked out in `folder`, followed by ``-dirty`` if files were changed since.

    None where there is no repository or no git.
    """
    try:
        done = subprocess.run(_COMMAND, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
