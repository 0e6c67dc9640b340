"""Tests wait for conditions, in one place, and never for a time."""

import re
from pathlib import Path

HERE = Path(__file__).parent
# What is measured or killed under load there takes time by its nature.
_EXCEPT = ("system/reliability", "system/interop", "system/bench", "waiting.py", "test_waiting.py")


def test_no_test_sleeps() -> None:
    """``asyncio.sleep(0)`` is a turn of the loop; a script that a test starts may sleep until it is killed."""
    sleeps = re.compile(r"\bsleep\((?!0\)|60\))[\d._a-z]")
    found = [
        f"{path.relative_to(HERE)}:{number}"
        for path in HERE.rglob("*.py")
        if not path.relative_to(HERE).as_posix().startswith(_EXCEPT)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if sleeps.search(line) and "def sleep(" not in line
    ]
    assert found == []
