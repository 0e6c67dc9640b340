"""The corpus test's table, printed whether tests pass or fail."""

import pytest

from conformance.corpus_table import CORPUS_ROWS, HEADING


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CORPUS_ROWS] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if rows := config.stash.get(CORPUS_ROWS, []):
        terminalreporter.section("captures")
        terminalreporter.write_line(HEADING)
        for row in rows:
            terminalreporter.write_line(row)
