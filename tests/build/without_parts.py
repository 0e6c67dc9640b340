"""The product without some of its parts, as if their folders had been taken out."""

from pathlib import Path

import tracegrade


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
