"""Options of the whole suite."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# Tests start hundreds of processes: what the first compiles, the others read, also where the shell forbids to keep it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A busy machine is no fault of the code: tests that take long are found by pytest's own time-out.
settings.register_profile("unhurried", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("unhurried")

# What starts whole processes, installs packages, or reads every page: left out by `--quick`, as what is marked slow is.
_NOT_QUICK = (
    "system",
    "docs",
    "upgrade",
    "library",
    "conformance",
    "plugins",
    "web",
    "cli",
    "doctor",
    "test_docs.py",
    "test_site.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tracegrade")
    group.addoption("--corpus", type=Path, help="a folder of captures, each with what is expected to be read from it")
    group.addoption("--vectors", type=Path, help="a folder of conformance vectors; our own when omitted")
    group.addoption("--update-golden", action="store_true", help="write expected records instead of comparing them")
    group.addoption("--kills", type=int, default=4, help="how often the crash test kills each role")
    group.addoption(
        "--quick", action="store_true", help="the tests of single stages, with few examples of each property"
    )
    group.addoption("--long", action="store_true", help="the faults of tests/system/reliability at full size, by hand")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Four on two cores where everything is run: tests of whole processes wait more than they work.

    In this process where folders or files are named: tables of what was read and lost are printed by the process that
    ran the tests.
    """
    runs_all = config.args == config.getini("testpaths")
    return 2 * min(2, os.cpu_count() or 1) if runs_all and config.option.collectonly is False else 0


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        settings.load_profile("quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick"):
        return
    here = Path(__file__).parent
    quick = [
        item
        for item in items
        if item.get_closest_marker("slow") is None and item.path.relative_to(here).parts[0] not in _NOT_QUICK
    ]
    chosen = set(quick)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = quick
