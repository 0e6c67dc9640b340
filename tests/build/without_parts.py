"""The product without some of its parts, as if their folders had been taken out; and tests of the whole product."""

from pathlib import Path

import pytest

import tracegrade
from tracegrade.part import PARTS, parts

MISSING = [named.name for named in PARTS if named.name not in {part.name for part in parts()}]
"""The parts that are not there."""

of_all_parts = pytest.mark.skipif(bool(MISSING), reason=f"is of the whole product, which lacks {', '.join(MISSING)}")
"""On tests that need every part: they ask all commands, addresses or settings."""


def product_without(folder: Path, *names: str) -> str:
    """Make a source root in `folder` that has everything but these parts. Returns its path, for ``PYTHONPATH``."""
    product = Path(tracegrade.__file__).parent
    package = folder / "processor" / "tracegrade"
    package.mkdir(parents=True)
    for path in product.iterdir():
        if path.name not in names:
            (package / path.name).symlink_to(path)
    (folder / "rules").symlink_to(product.parents[1] / "rules")
    return str(package.parent)
