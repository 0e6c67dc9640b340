"""The tables of internals/scale.md, as `tests/system/bench/scale.py` computes them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "system"))

from bench.scale import TABLES, Plan  # importable by the line above


def table(name: str) -> str:
    """One of its tables, as Markdown."""
    return "\n".join(TABLES[name](Plan.read()))
