"""How this program was called, for commands that it suggests."""

import shlex
import shutil
import sys
from pathlib import Path


def own_command() -> str:
    """``tracegrade`` where the shell finds this one by that name, else the words by which it was called."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m tracegrade"
    found = shutil.which(called.name)
    if found is not None and called.exists() and Path(found).samefile(called):
        return called.name
    return shlex.quote(sys.argv[0]) if called.exists() else "tracegrade"
