"""The page for auditors: each of its lines names the test that fails when it no longer holds."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "audit.md"


def test_every_line_names_its_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if re.match(r"\| (?!what \||who \||---)", line)]
    assert len(rows) > 25
    # That they are there is asked of every page.
    assert [row for row in rows if "`tests/" not in row and not row.endswith("| the same |")] == []
