"""What the tests of Parquet files share: the extra, and rows read back."""

from pathlib import Path
from typing import Any

import pytest

parquet = pytest.importorskip(
    "pyarrow.parquet", reason="needs the extra tracegrade[parquet]; '.ci/long parquet' runs these"
)

TRACE_ID = "5b8e9d3c17a0f2e15b8e9d3c17a0f2e1"


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of all files of a table, each with the path of its folder below the table's as `folder`."""
    found = []
    for path in sorted((folder / table).rglob("*.parquet")):
        under = path.parent.relative_to(folder / table).as_posix()
        found += [row | {"folder": under} for row in parquet.ParquetFile(path).read().to_pylist()]
    return found


def names(folder: Path) -> list[str]:
    """The paths of all files below `folder`, temporary ones too."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
