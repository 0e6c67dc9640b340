"""Where the corpus test leaves its rows, and their heading."""

import pytest

CORPUS_ROWS = pytest.StashKey[list[str]]()

HEADING = (
    f"{'capture':46} {'names':6}{'args':7}{'results':8}{'errors':7}{'ids':6}{'prompt':7}{'answer':7}{'session':8}"
    "agents; remarks"
)
