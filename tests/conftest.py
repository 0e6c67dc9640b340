"""Options of the whole suite."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no fault of the code: tests that take long are found by pytest's own time-out.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tracegrade")
    group.addoption("--corpus", type=Path, help="a folder of captures, each with what is expected to be read from it")
    group.addoption("--vectors", type=Path, help="a folder of conformance vectors; our own when omitted")
    group.addoption("--update-golden", action="store_true", help="write expected records instead of comparing them")
    group.addoption("--kills", type=int, default=4, help="how often the crash test kills each role")
    group.addoption("--long", action="store_true", help="the faults of tests/reliability at full size, by hand")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two at a time where everything is run; in this process where folders or files are named.

    Tables of what was read and lost are printed by the process that ran the tests.
    """
    runs_all = config.args == config.getini("testpaths")
    return min(2, os.cpu_count() or 1) if runs_all and config.option.collectonly is False else 0
