"""The tables of the corpus test and of the vectors, printed whether tests pass or fail."""

import pytest

from conformance.corpus_table import CORPUS_ROWS, HEADING
from conformance.vector_table import VECTOR_HEADING, VECTOR_ROWS


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CORPUS_ROWS] = []
    config.stash[VECTOR_ROWS] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if rows := config.stash.get(CORPUS_ROWS, []):
        terminalreporter.section("captures")
        terminalreporter.write_line(HEADING)
        for row in rows:
            terminalreporter.write_line(row)
    if config.getoption("--vectors") is not None and (files := config.stash.get(VECTOR_ROWS, {})):
        terminalreporter.section("vectors")
        terminalreporter.write_line(VECTOR_HEADING)
        for name, row in sorted(files.items()):
            terminalreporter.write_line(f"{name:40}{row}")
