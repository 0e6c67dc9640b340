"""Tests wait for conditions, in one place, never for a time, and for as long as the runner lets them."""

import re
from pathlib import Path

HERE = Path(__file__).parent
# What is measured or killed under load there takes time by its nature.
_EXCEPT = ("system/reliability", "system/interop", "system/bench", "waiting.py", "test_waiting.py")


def test_no_test_sleeps() -> None:
    """``asyncio.sleep(0)`` is a turn of the loop; a script that a test starts may sleep until it is killed."""
    sleeps = re.compile(r"\bsleep\((?!0\)|60\)|3600\))[\d._a-z]")
    found = [
        f"{path.relative_to(HERE)}:{number}"
        for path in HERE.rglob("*.py")
        if not path.relative_to(HERE).as_posix().startswith(_EXCEPT)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if sleeps.search(line) and "def sleep(" not in line
    ]
    assert found == []


def test_no_wait_ends_before_the_runner_does() -> None:
    """A limit of its own fails on a busy machine, where nothing is wrong. A short one may be what is tested."""
    named = r"\btimeout=|(?<!stop_)\bwithin_s=|\.(?:wait|join|result)\(|\bwait_for\(.*, "
    limits = re.compile(rf"(?:{named})(\d+)(?:\.0)?(?:[,)]|$)")
    of_others = ("xporter(", "sqlite3.connect(", "def ")  # what they are told is no wait of ours
    found = [
        f"{path.relative_to(HERE)}:{number}"
        for path in HERE.rglob("*.py")
        if not path.relative_to(HERE).as_posix().startswith(_EXCEPT)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for limit in limits.findall(line)
        if 5 <= int(limit) < 600 and not any(word in line for word in of_others)
    ]
    assert found == []
