"""The version of TraceGrade that judges, as results name it.

A version from a package index is always the same code. When installed from a folder, a repository or a file, the code
may differ: the version is then followed by ``+`` and 8 hex digits over the modules that judgements depend on. So two
such versions are equal if they judge alike, and differ if they do not.
"""

from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tracegrade.build import build_version
from tracegrade.telemetry.metrics import Telemetry

# The modules in the middle of the path, and those that bring spans to it.
_JUDGING = (
    "assemble",
    "cel",
    "codec",
    "document",
    "evaluate",
    "extract",
    "judge.py",
    "match",
    "model",
    "plugins",
    "rule",
    "semconv.py",
    "sensitive",
)


def note_build(telemetry: Telemetry) -> None:
    """Have `telemetry` say which version, and which build of it, runs."""
    telemetry.set("tracegrade.build_info", 1, version=tracegrade_version(), build=build_version())


@cache
def tracegrade_version() -> str:
    """Such as ``0.2.0``, or ``0.2.0+5b8e9d3c`` where it is not from a package index."""
    try:
        installed = distribution("tracegrade")
    except PackageNotFoundError:  # run from a folder that was never installed
        return f"0+{_digest()}"
    # PEP 610: written for everything that does not come from an index.
    is_direct = installed.read_text("direct_url.json") is not None
    return f"{installed.version}+{_digest()}" if is_direct else installed.version


def _digest() -> str:
    folder = Path(__file__).parents[1]
    digest = blake2b(digest_size=4)
    for name in _JUDGING:
        place = folder / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
