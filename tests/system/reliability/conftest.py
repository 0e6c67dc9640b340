from collections.abc import Callable
from pathlib import Path

import pytest
from reliability.table import Row, table

Report = Callable[[Row], None]
_ROWS = pytest.StashKey[list[Row]]()


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How often each role is killed."""
    number: int = request.config.getoption("--kills")
    return number


@pytest.fixture
def is_long(request: pytest.FixtureRequest) -> bool:
    """Whether this is the run by hand, at full size."""
    chosen: bool = request.config.getoption("--full-size")
    return chosen


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Add a row to the table that is printed at the end."""
    return request.config.stash.setdefault(_ROWS, []).append


# Of alerts, overload, evaluators that misbehave, a stop, several judges: with them the rest takes half as long again.
_MINUTES = (
    "test_overload.py",
    "test_inside.py",
    "test_stop.py",
    "test_alert.py",
    "test_workers.py",
    "test_fair_shares.py",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes minutes is run where this folder, or what is in it, is asked for."""
    if any("reliability" in argument for argument in config.args):
        return
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name in _MINUTES:
            item.add_marker(pytest.mark.skip(reason="takes minutes: pytest tests/system/reliability runs it"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if rows := terminalreporter.config.stash.get(_ROWS, []):
        terminalreporter.section("faults")
        terminalreporter.write_line(table(rows))
