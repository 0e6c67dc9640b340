"""What came of each file of vectors, and how the table shows it."""

from collections import Counter

import pytest


class VectorRow:
    """One file: cases by level and whether they passed, and those that cannot be asked, by evaluator."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.not_applicable: dict[str, int] = {}
        self.differing: list[str] = []  # of level informative

    def count(self, level: str, passed: bool) -> None:
        (self.passed if passed else self.failed)[level] += 1

    def __str__(self) -> str:
        cells = []
        for level in ("required", "divergence", "informative"):
            total = self.passed[level] + self.failed[level]
            cells.append(f"{self.passed[level]}/{total}" if total else "-")
        others = [f"{count} of {name}: another system's evaluator" for name, count in self.not_applicable.items()]
        others += [f"informative: {one}" for one in self.differing]
        return "".join(f"{cell:12}" for cell in cells) + ("; ".join(others) or "-")


VECTOR_ROWS = pytest.StashKey[dict[str, VectorRow]]()
VECTOR_HEADING = f"{'file':40}{'required':12}{'divergence':12}{'informative':12}not applicable"
