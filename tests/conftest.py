"""Options of the whole suite."""

import gc
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from build.without_parts import MISSING

# Tests start hundreds of processes: what the first compiles, the others read, also where the shell forbids to keep it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What commands print into a pipe is as wide as here; pytest-xdist tells its workers the width of its own terminal, and
# readline, which pytest loads, tells the commands that tests start, where `os.environ` does not show it.
os.environ["COLUMNS"] = ""
del os.environ["COLUMNS"]

# A shell that starts the suite in the background has it ignore Ctrl-C, and so would all that tests start and end by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no fault of the code: examples have no deadline, drawing them may take long, and what hangs is found
# by pytest's own time-out.
# Few examples of each property, and the same ones each time, so that a commit passes or fails by what it changed;
# `--hypothesis-profile many` draws more, and others each time. What needs others asks for a multiple:
# `@settings(max_examples=3 * settings().max_examples)`.
_SLOW = (HealthCheck.too_slow,)
settings.register_profile("few", deadline=None, max_examples=20, derandomize=True, suppress_health_check=_SLOW)
settings.register_profile("many", deadline=None, max_examples=200, suppress_health_check=_SLOW)
settings.load_profile("few")


TESTS = Path(__file__).parent

# These are of the whole product: they ask every command or every address, or read the documentation of everything.
_OF_ALL_PARTS = (
    "docs",
    "golden",
    "test_docs.py",
    "system/end_to_end/test_nothing_left.py",
    "test_site.py",
    "web/screenshots.py",
    "web/test_browser.py",
    "web/test_masked.py",
    "web/test_schemathesis.py",
    "web/test_sent_bodies.py",
    "web/test_sent_fields.py",
    "web/test_sent_parameters.py",
    "web/test_strangers.py",
)
collect_ignore = list(_OF_ALL_PARTS) if MISSING else []


def pytest_report_header() -> list[str]:
    return [f"without the part {name}; left out: {', '.join(_OF_ALL_PARTS)}" for name in MISSING]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tracegrade")
    group.addoption("--corpus", type=Path, help="a folder of captures, each with what is expected to be read from it")
    group.addoption("--vectors", type=Path, help="a folder of conformance vectors; our own when omitted")
    group.addoption("--update-golden", action="store_true", help="write expected records instead of comparing them")
    group.addoption("--kills", type=int, default=1, help="how often the crash test kills each role")
    group.addoption("--full-size", action="store_true", help="the faults of tests/system/reliability at full size")


def pytest_configure(config: pytest.Config) -> None:
    """Each worker begins with other tests: what one of them has compiled is not compiled again by the others.

    One that takes the place of a worker that crashed has a number beyond them.
    """
    if hasattr(config, "workerinput") and config.args == config.getini("testpaths"):
        modules = sorted(TESTS.rglob("test_*.py"))
        parts = list(dict.fromkeys(str(TESTS / path.relative_to(TESTS).parts[0]) for path in modules))
        worker, workers = int(config.workerinput["workerid"].removeprefix("gw")), config.workerinput["workercount"]
        first = modules[len(modules) * (worker % workers) // workers].relative_to(TESTS).parts[0]
        begin = parts.index(str(TESTS / first))
        config.args = parts[begin:] + parts[:begin]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All workers have one order: first whole processes, for which the last worker would wait at the end."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: (not item.path.is_relative_to(TESTS / "system"), item.path))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing of what is collected is garbage before the end: it is not looked at again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than cores where everything is run: tests of whole processes wait now and then.

    In this process where folders or files are named: tables of what was read and lost are printed by the process that
    ran the tests.
    """
    runs_all = config.args == config.getini("testpaths")
    return 1 + (os.cpu_count() or 1) if runs_all and not config.option.collectonly else 0
