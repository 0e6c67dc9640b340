from collections.abc import Callable

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
def is_full_size(request: pytest.FixtureRequest) -> bool:
    """Whether faults are of full size: for a run by hand."""
    chosen: bool = request.config.getoption("--full-size")
    return chosen


@pytest.fixture
def away_s(is_full_size: bool) -> float:
    """For how long something is away, in s."""
    return 600.0 if is_full_size else 15.0


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Add a row to the table that is printed at the end."""
    return request.config.stash.setdefault(_ROWS, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if rows := terminalreporter.config.stash.get(_ROWS, []):
        terminalreporter.section("faults")
        terminalreporter.write_line(table(rows))
